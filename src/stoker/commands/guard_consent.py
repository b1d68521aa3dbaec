"""Before the first trial: what the write guard does not catch, and whether the user agrees to that."""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.commands.stderr import tell
from stoker.errors import GuardFailed
from stoker.trials.guard.coverage import Coverage, find_coverage
from stoker.trials.guard.mode import GuardMode


def agreed_guard(wanted: GuardMode, cwd: Path, *, yes: bool) -> GuardMode:
    """One that works here. Asked only where files of the user's could be changed."""
    found = find_coverage(wanted, cwd=cwd)
    for line in _told(found):
        tell(line, "    ")
    if found.needs_consent and not yes and not _agrees():
        raise GuardFailed(
            "a trial could change what is yours, and nobody agreed to that",
            seen="; ".join([*found.uncaught, *found.why_not]),
            hint="agree with --yes, or run it on a copy of your folder",
        )
    return found.mode


def _told(found: Coverage) -> list[str]:
    if found.mode is GuardMode.OFF:
        first = "stoker: trials run WITHOUT a write guard:"
    else:
        first = f"stoker: trials run behind a write guard ({found.mode}); it does not catch"
    return [
        first,
        *(f"  - {one}" for one in found.uncaught),
        *(f"  not used, {one}" for one in found.why_not),
    ]


def _agrees() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write("Run the trials all the same? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
