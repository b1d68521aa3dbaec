"""`save`: torch.save."""

from ..wire import SAVE
from .base import Hook


class SaveHook(Hook):
    name = "save"
    modules = ("torch",)

    def install(self, module):
        wrapped = self.wrap(module.save)
        self.patch(module, "save", wrapped)
        self.patch(module.serialization, "save", wrapped)

    def begin(self, args):
        return self.recorder.enter(SAVE)
