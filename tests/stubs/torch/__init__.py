"""As much of torch as the hooks touch, so that launchers and old Pythons are tested in no time."""

from . import autograd, cuda, distributed, nn, optim, serialization, utils
from .autograd import is_grad_enabled, no_grad
from .serialization import save

__version__ = "0.0-stub"
__all__ = ["autograd", "cuda", "distributed", "is_grad_enabled", "nn", "no_grad", "optim", "save"]
__all__ += ["serialization", "utils"]
