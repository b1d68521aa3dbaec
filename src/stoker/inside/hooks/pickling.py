"""Classes of the user's script travel to other processes by value (cloudpickle: Gymnasium's and SB3's vector
environments, joblib, ray). What we have wrapped in them stays here: the original travels."""

import functools

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
