"""`save`: torch.save, and what NumPy writes to a file."""

import sys

from ..wire import SAVE
from .base import Hook

_NUMPY = ("save", "savez", "savez_compressed")


class SaveHook(Hook):
    name = "save"
    modules = ("torch",)

    def install(self, module):
        wrapped = self.wrap_phase(module.save, SAVE)
        self.patch(module, "save", wrapped)
        self.patch(module.serialization, "save", wrapped)
        numpy = sys.modules.get("numpy")  # torch has imported it, where there is one
        for name in _NUMPY:
            if hasattr(numpy, name):
                self.patch(numpy, name, self.wrap_phase(getattr(numpy, name), SAVE))
