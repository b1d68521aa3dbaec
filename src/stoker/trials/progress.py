"""Is the trial still training? Looked at once a second, from what its processes write about themselves.

Three ways to be lost: a rank that failed or died while the others wait for it; a text of death in the log
while nothing moves; no tick at all for a long time. A process that ticks on is never ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from stoker.launch import procfs
from stoker.store.following import Followed, FollowedRun
from stoker.trials.failures.signatures import names_a_root

AFTER_A_DEATH_S = 15.0
"""For the others to end by themselves: torchrun and multiprocessing mostly see to it."""
HANG_AT_LEAST_S = 120.0
HANG_FACTOR = 10.0
_LOG_TAIL_BYTES = 20_000


def is_dead(process: Followed) -> bool:
    """It failed, or is gone without a last word."""
    return process.failed or (not process.ended and procfs.identify(process.pid) is None)


class Progress:
    """`look` says why the trial is lost, or nothing."""

    def __init__(self, folder: Path, log: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._log, self._clock = FollowedRun(folder), log, clock
        self._steps = 0
        self._moved_s = clock()
        self.hung = False
        self.reason = ""

    def look(self) -> str:
        now = self._clock()
        files = self._run.read_on()
        steps = sum(one.steps for one in files)
        if steps != self._steps:
            self._steps, self._moved_s = steps, now
        self.reason = self._lost(files, now - self._moved_s)
        return self.reason

    def _lost(self, files: list[Followed], still_s: float) -> str:
        if still_s >= AFTER_A_DEATH_S:
            dead = [one.pid for one in files if one.trains and is_dead(one)]
            if dead and len(files) > 1:
                return f"process {dead[0]} is dead and the others wait for it"
            if root := self._root_in_log():
                return f"the log says {root!r} and nothing moves"
        if self._steps and still_s >= self._patience_s(files):
            self.hung = True
            return f"no tick for {still_s:.0f} s"
        return ""

    def _patience_s(self, files: list[Followed]) -> float:
        slowest = sorted(value for one in files for value in one.slowest_s)
        p99_s = slowest[int(0.99 * (len(slowest) - 1))] if slowest else 0.0
        return max(HANG_FACTOR * p99_s, HANG_AT_LEAST_S)

    def _root_in_log(self) -> str:
        return names_a_root(tail_of(self._log, _LOG_TAIL_BYTES))


def tail_of(path: Path, size_bytes: int) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - size_bytes))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
