"""`save`: torch.save, what NumPy and safetensors write to a file, and pickle.dump, with what compresses it on
its way."""

import pickle
import sys

from ..wire import SAVE
from .base import Hook

_NUMPY = ("save", "savez", "savez_compressed")


class SaveHook(Hook):
    name = "save"
    modules = ("torch", "safetensors.torch")

    def install(self, module):
        if hasattr(module, "save_file"):
            self._put_on("save_file", module)
        else:
            self._put_on_torch(module)

    def _put_on_torch(self, module):
        self._put_on("save", module, module.serialization)
        self._put_on("dump", pickle, sys.modules.get("_pickle"))
        numpy = sys.modules.get("numpy")  # torch has imported it, where there is one
        for name in _NUMPY:
            if hasattr(numpy, name):
                self._put_on(name, numpy)

    def _put_on(self, name, *places):
        """One wrapper wherever it is found: functions are pickled by where they are."""
        original = getattr(places[0], name)
        wrapped = self.wrap_phase(original, SAVE)
        for place in places:
            if getattr(place, name, None) is original:
                self.patch(place, name, wrapped)
