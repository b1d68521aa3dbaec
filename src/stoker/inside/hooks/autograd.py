"""`backward`: torch.autograd.backward (which Tensor.backward calls) and torch.autograd.grad."""

from .base import Hook


class BackwardHook(Hook):
    name = "backward"
    modules = ("torch",)

    def install(self, module):
        autograd = module.autograd
        self.patch(autograd, "backward", self.wrap(autograd.backward))
        self.patch(autograd, "grad", self.wrap(autograd.grad))

    def begin(self, args):
        return self.recorder.backward_begins()
