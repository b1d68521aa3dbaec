"""The first thing a guarded child runs: put the guard up, then become the user's command.

    python entry.py PLAN -- COMMAND …

Same process, same PID, same descriptors. Where the guard cannot be put up, the command is not run.
"""

from __future__ import annotations

import os
import sys

REFUSED = 97
"""Exit code of a child whose guard failed: nothing of the user's has run."""


def main(argv: list[str]) -> int:
    plan_path, _, *command = argv
    try:
        _put_up(plan_path)
    except OSError as error:
        sys.stderr.write(f"stoker: the write guard failed: {error}\n")
        return REFUSED
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"stoker: {command[0]} cannot be executed: {error.strerror}\n")
        return 126


def _put_up(plan_path: str) -> None:
    from stoker.trials.guard.mode import GuardMode
    from stoker.trials.guard.plan import read_plan

    plan = read_plan(plan_path)
    if plan.mode is GuardMode.OVERLAY:
        from stoker.trials.guard.overlay import Overlay

        Overlay(plan).enter()
        os.chdir(plan.cwd)  # through the overlay now
    elif plan.mode is GuardMode.FENCE:
        from stoker.trials.guard.fence import put_up

        put_up(plan)


if __name__ == "__main__":
    # By its own path, since the user's PYTHONPATH is the one in force; the package is three folders up.
    sys.path[:1] = [
        os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3))
    ]
    sys.exit(main(sys.argv[1:]))
