"""Facts of a training that a setting may change: two runs are compared by them. Read, never set."""

import os
import sys
import weakref

_TABLE_MAX = 16
_PACKAGES_MAX = 500
_LOOKS = 32
"""Calls of a model that are looked at, with gradients and without."""
_PLAIN = (bool, int, float, str)


class Facts:
    def __init__(self, variables, places):
        self.places = places
        self.variables = [str(name) for name in variables][:_TABLE_MAX]
        self.models = {}
        self.optimizers = []
        self.dtypes = {}
        self.inputs = {}
        self.rows = {}
        self.looks = {True: 0, False: 0}
        self.latest = None
        self.error = None
        self.packages = []
        self.imported = 0

    def of_call(self, module, size, args):
        if self.error is not None:
            return
        try:
            graph = sys.modules["torch"].is_grad_enabled()
            if self.looks[graph] < _LOOKS:
                self.looks[graph] += 1
                self._of_call(module, size, args, "training" if graph else "acting")
        except Exception as error:
            self.error = repr(error)[:500]

    def _of_call(self, module, size, args, use):
        name = type(module).__name__
        if name in self.models or len(self.models) < _TABLE_MAX:
            self.models[name] = max(size, self.models.get(name, 0))
        parameter = next(module.parameters())
        self.dtypes[autocast_dtype(parameter.device.type) or _short(parameter.dtype)] = True
        shape = next((one.shape for one in args if len(getattr(one, "shape", ()))), None)
        if shape is None:
            return
        self.rows[use] = max(int(shape[0]), self.rows.get(use, 0))
        if name not in self.inputs and len(self.inputs) < _TABLE_MAX:
            self.inputs[name] = [int(length) for length in shape[1:]]

    def of_optimizer(self, optimizer):
        if len(self.optimizers) >= _TABLE_MAX or self.error is not None:
            return
        try:
            if self.latest is not None and self.latest() is optimizer:
                self.optimizers.pop()  # made a second time
            self.latest = weakref.ref(optimizer)
            group = optimizer.param_groups[0]
            made = {name: value for name, value in group.items() if isinstance(value, _PLAIN)}
            made.update((n, list(v)) for n, v in group.items() if n == "betas")
            self.optimizers.append({"name": type(optimizer).__name__, **made})
        except Exception as error:
            self.error = repr(error)[:500]

    def row(self):
        """A copy: the training goes on while it is written, and the next one is compared with it."""
        torch = sys.modules.get("torch")
        return {
            "threads": _asked(torch, "get_num_threads"),
            "seed": _asked(torch, "initial_seed"),
            "models": dict(self.models),
            "inputs": dict(self.inputs),
            "rows": dict(self.rows),
            "dtypes": sorted(self.dtypes),
            "optimizers": list(self.optimizers),
            "packages": self._packages(),
            "variables": {name: os.environ.get(name) for name in self.variables},
            "error": self.error,
        }

    def _packages(self):
        """Anew only where something was imported meanwhile."""
        modules = dict(sys.modules)
        if len(modules) != self.imported:
            self.imported = len(modules)
            tops = [module for name, module in modules.items() if "." not in name]
            found = sorted({home for one in tops for home in _homes(one) if not self.places.is_given(home)})
            self.packages = found if len(found) <= _PACKAGES_MAX else []  # a part would tell nothing
        return self.packages


def _homes(module):
    """Folders of a package, file of a module; of the script, the folder it lies in. What is asked is the
    dictionary: a module that is loaded when it is first used stays as it is."""
    try:
        known = object.__getattribute__(module, "__dict__")
        file = known.get("__file__")
        if not isinstance(file, str):
            path = known.get("__path__")
            return [os.path.abspath(one) for one in path] if path is not None else []
        file = os.path.abspath(file)
        is_folder = known.get("__name__") == "__main__" or os.path.basename(file).startswith("__init__.")
        return [os.path.dirname(file) if is_folder else file]
    except Exception:
        return []  # something that only looks like a module


def _asked(torch, question):
    try:
        return getattr(torch, question)()
    except Exception:
        return None


def _short(dtype):
    return str(dtype).replace("torch.", "")


def autocast_dtype(device):
    """The name of the type autocast uses there now; None where it is off. Before torch 2.4 the question had
    another form for each device."""
    torch = sys.modules["torch"]
    try:
        return _short(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else None
    except (TypeError, AttributeError):
        if device == "cpu":
            return _short(torch.get_autocast_cpu_dtype()) if torch.is_autocast_cpu_enabled() else None
        return _short(torch.get_autocast_gpu_dtype()) if torch.is_autocast_enabled() else None
