"""Dies before it trains: imports torch, then a module that does not exist."""

import torch

torch.manual_seed(0)

import a_module_nobody_has  # noqa: E402, F401
