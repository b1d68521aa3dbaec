"""Trainings that need the card for themselves take turns, once all else is loaded; see ../together.py."""

from __future__ import annotations

import atexit
import errno
import importlib
import os
import socket
import time


def take_turn(look_again_s: float = 0.05) -> None:
    """Waits for the card; it is given back with the end of the script. What torch imports at the first use of
    an optimizer, for five seconds, is imported before. A name in the kernel, not a file: behind a trial's
    guard a file may be another one."""
    name = os.environ.get("STOKER_TEST_TURN")
    if not name:
        return
    importlib.import_module("torch._dynamo")
    turn = socket.socket(socket.AF_UNIX)
    while not taken(turn, name):
        time.sleep(look_again_s)
    atexit.register(turn.close)


def taken(turn: socket.socket, name: str) -> bool:
    try:
        turn.bind(f"\0{name}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
