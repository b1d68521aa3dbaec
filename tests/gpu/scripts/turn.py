"""Trainings that need the card for themselves take turns, once all else is loaded; see ../together.py."""

from __future__ import annotations

import atexit
import fcntl
import importlib
import os


def take_turn() -> None:
    """Waits for the card; it is given back with the end of the script. What torch imports at the first use of
    an optimizer, for five seconds, is imported before."""
    path = os.environ.get("STOKER_TEST_TURN")
    if path:
        importlib.import_module("torch._dynamo")
        handle = open(path, "a")  # noqa: SIM115 - held to the end
        fcntl.flock(handle, fcntl.LOCK_EX)
        atexit.register(handle.close)
