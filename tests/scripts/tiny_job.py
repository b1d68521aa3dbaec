"""What the tiny trainings of this folder share: two flags, a file of exact losses, a line of true counts.

Knows nothing of torch, so that scripts without torch can use it too.
"""

import argparse
import json
import sys


def arguments(purpose: str, steps: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=purpose.splitlines()[0])
    parser.add_argument("--steps", type=int, default=steps, help=f"how long to train (default {steps})")
    parser.add_argument("--losses", metavar="FILE", help="append the exact loss of each step, in hex")
    return parser.parse_args()


class Losses:
    """Appends one line per step; does nothing when no file was asked for."""

    def __init__(self, path: str | None) -> None:
        self.file = open(path, "a") if path else None  # noqa: SIM115

    def add(self, loss: float) -> None:
        if self.file:
            print(loss.hex(), file=self.file, flush=True)


def report(**counts: int) -> None:
    """The truth a test compares with: the script's own counts, as one line of JSON on stdout."""
    # One write: the lines of two ranks must not mix.
    sys.stdout.write(json.dumps(counts, sort_keys=True) + "\n")
    sys.stdout.flush()
