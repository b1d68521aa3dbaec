"""Classes of the user's script travel to other processes by value (cloudpickle: Gymnasium's and SB3's vector
environments, joblib, ray; dill: multiprocess, Hugging Face's datasets). What we have wrapped in them stays
here: the original travels."""

import functools
from types import FunctionType

from .base import Hook, original_of


class PickleHook(Hook):
    name = "pickle"
    modules = tuple(where + "cloudpickle.cloudpickle" for where in ("", "joblib.externals.", "ray."))

    def install(self, module):
        original, by_name = module.Pickler._function_reduce, module._should_pickle_by_reference

        @functools.wraps(original)
        def _function_reduce(pickler, function):
            try:
                if self.tripwire is not None:
                    self.tripwire()
                while original_of(function) is not None and not by_name(function):
                    function = original_of(function)
            except Exception as error:
                self.fail(error, "call")
            return original(pickler, function)

        self.patch(module.Pickler, "_function_reduce", _function_reduce)


class DillHook(Hook):
    """Its functions are in a table by type, which others copy."""

    name = "dill"
    modules = ("dill._dill",)
    table, save, replacement = {}, None, None

    def install(self, module):
        self.table, self.save = module.Pickler.dispatch, module.Pickler.dispatch[FunctionType]
        self.table[FunctionType] = self.replacement = self._saving(self.save, module._locate_function)

    def _saving(self, save, by_name):
        @functools.wraps(save)
        def save_function(pickler, function):
            own = function
            try:
                if self.tripwire is not None:
                    self.tripwire()
                while original_of(function) is not None and not by_name(function, pickler):
                    function = original_of(function)
            except Exception as error:
                self.fail(error, "call")
            return save(pickler, function) if function is own else pickler.save(function)

        return save_function

    def take_off(self):
        super().take_off()
        if self.table.get(FunctionType) is self.replacement:
            self.table[FunctionType] = self.save
