"""A script that waits for its turn on the card, so that the next ones can be started meanwhile.

    LAB_CARD=LOCKFILE python gate.py SCRIPT ARGUMENT …

Importing torch takes ten seconds on some machines, and several processes can do that at once. From the
first touch of CUDA on a training must have the card alone; it has no context there before it has the lock, so
that nobody takes the card for shared. The lock goes with the process.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import runpy
import signal
import sys
from pathlib import Path

TURN_S = 75
"""A script that hangs gives the card back: the signal ends it."""
IMPORTED = ("numpy", "torch", "torch.utils.data", "gymnasium")


def main() -> None:
    for name in IMPORTED:
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # the script will say so, if it needs it
    lock = os.environ.get("LAB_CARD")
    if lock:
        fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        signal.alarm(TURN_S)
    _deep_window_soon(os.environ.get("LAB_DEEP_AFTER_S"))
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _deep_window_soon(seconds: str | None) -> None:
    """Stoker's own window comes after ten seconds of training; a run of the lab is shorter."""
    if seconds and "_stoker_inside" in sys.modules:
        from _stoker_inside import deep

        deep.TRAINED_S = float(seconds)


if __name__ == "__main__":
    main()
