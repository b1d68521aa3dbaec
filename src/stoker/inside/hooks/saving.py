"""`save`: torch.save."""

from ..wire import SAVE
from .base import Hook


class SaveHook(Hook):
    name = "save"
    modules = ("torch",)

    def install(self, module):
        wrapped = self.wrap_phase(module.save, SAVE)
        self.patch(module, "save", wrapped)
        self.patch(module.serialization, "save", wrapped)
