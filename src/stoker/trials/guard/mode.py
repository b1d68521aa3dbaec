"""Which guard stands between a trial and the user's files."""

from __future__ import annotations

from enum import StrEnum


class GuardMode(StrEnum):
    AUTO = "auto"
    """The first of the following that works here, `off` excepted."""
    OVERLAY = "overlay"
    """The kernel's: every write of every process, Python or not, goes to the trial's shadow folder."""
    FENCE = "fence"
    """Writes of Python are redirected inside the process; the kernel (Landlock) refuses all others."""
    REDIRECT = "redirect"
    """Writes of Python are redirected inside the process; others reach the user's files."""
    OFF = "off"
