"""`backward`: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

import sys

from ..wire import BACKWARD
from .base import Hook


class BackwardHook(Hook):
    name = "backward"
    modules = ("torch",)

    def install(self, module):
        autograd = module.autograd
        for name in ("backward", "grad"):
            original = getattr(autograd, name)
            self.agent.known_as(original, BACKWARD)
            wrapped = self.wrap_phase(original, BACKWARD)
            _tell_torchscript(original, wrapped)
            self.patch(autograd, name, wrapped)


def _tell_torchscript(original, wrapped):
    """It knows functions that are operators of its own by identity, from a list of which it makes a table at
    first; any other it would compile."""
    script = sys.modules.get("torch.jit._builtins")
    operators = getattr(script, "_builtin_ops", ())
    for name in [name for function, name in operators if function is original]:
        operators.append((wrapped, name))
        if script._builtin_table is not None:
            script._builtin_table[id(wrapped)] = name
