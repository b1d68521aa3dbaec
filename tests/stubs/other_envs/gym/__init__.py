"""The old Gym, as far as the hook for it goes."""

from .core import Env

__all__ = ["Env"]
