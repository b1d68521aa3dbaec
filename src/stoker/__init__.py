"""Stoker finds out why a GPU is idle during training, fixes it, and proves it."""

__version__ = "0.1.0"
