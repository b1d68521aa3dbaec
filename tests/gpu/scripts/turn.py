"""Trainings that need the card for themselves take turns, once all else is loaded; see ../together.py."""

from __future__ import annotations

import fcntl
import os

_held: list[object] = []


def take_turn() -> None:
    """Waits for the card; it is given back with the end of the process."""
    path = os.environ.get("STOKER_TEST_TURN")
    if path:
        handle = open(path, "a")  # noqa: SIM115 - held to the end
        fcntl.flock(handle, fcntl.LOCK_EX)
        _held.append(handle)
