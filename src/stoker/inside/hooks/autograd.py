"""`backward`: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

from ..wire import BACKWARD
from .base import Hook


class BackwardHook(Hook):
    name = "backward"
    modules = ("torch",)

    def install(self, module):
        autograd = module.autograd
        for function in (autograd.backward, autograd.grad):
            self.agent.known_as(function, BACKWARD)
        self.patch(autograd, "backward", self.wrap_phase(autograd.backward, BACKWARD))
        self.patch(autograd, "grad", self.wrap_phase(autograd.grad, BACKWARD))
