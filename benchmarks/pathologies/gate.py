"""A script that waits for its turn on the card, so that the next ones can be started meanwhile.

    LAB_CARD=LOCKFILE python gate.py SCRIPT ARGUMENT …

Importing torch takes ten seconds on some machines, and several processes can do that at once. From the
first touch of CUDA on a training must have the card alone; it has no context there before it has the lock, so
that nobody takes the card for shared. It gives the lock back when the script is at its end, not the process:
taking a Python with torch apart takes one to two seconds more, in which nothing is done on the card and the
next script makes its context. `LAB_TURN` names a file that is made when the card is had.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TURN_S = 75
"""A script that hangs gives the card back: the signal ends it."""
BY_THE_FIRST_OPTIMIZER = "torch._dynamo"
"""The first optimizer of a process imports it, and with it sympy: 5-6 s (H200 machine, torch 2.11, 2026-11),
which would be spent while the card is held."""
IMPORTED = ("numpy", "torch", "torch.utils.data", BY_THE_FIRST_OPTIMIZER, "gymnasium")


def main() -> None:
    prepare()
    with card():
        sys.argv = sys.argv[1:]
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def prepare(names: Iterable[str] = IMPORTED) -> None:
    """What takes its time and needs no card."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # the script will say so, if it needs it


@contextmanager
def card() -> Iterator[None]:
    """Waits for it, and gives it back."""
    lock, turn = os.environ.get("LAB_CARD"), os.environ.get("LAB_TURN")
    held = os.open(lock, os.O_RDWR | os.O_CREAT) if lock else None
    if held is not None:
        fcntl.flock(held, fcntl.LOCK_EX)
        signal.alarm(TURN_S)
    if turn:
        Path(turn).touch()
    deep_window_soon(os.environ.get("LAB_DEEP_AFTER_S"))
    try:
        yield
    finally:
        if held is not None:
            # Not by closing it: a loader's workers, forked from here, hold the same lock.
            fcntl.flock(held, fcntl.LOCK_UN)


def deep_window_soon(seconds: str | None) -> None:
    """Stoker's own window comes after ten seconds of training; a run of the lab is shorter. As many ticks
    less are asked for: at 100 ms a tick a user has a window."""
    if seconds and "_stoker_inside" in sys.modules:
        from _stoker_inside import deep

        deep.TRAINED_TICKS = round(deep.TRAINED_TICKS * float(seconds) / deep.TRAINED_S)
        deep.TRAINED_S = deep.LATE_S = float(seconds)


if __name__ == "__main__":
    main()
