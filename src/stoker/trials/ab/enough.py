"""While a trial runs: has it shown a whole steady window, so that it can be ended?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.diagnose.summary import summarise
from stoker.store.following import FollowedRun
from stoker.store.reading import load
from stoker.trials.ab.measuring import window_verdict
from stoker.trials.ab.plan import Windows

FIRST_LOOK_AT, LOOK_GROWTH = 1.15, 1.35
"""A full look at a trial when it has trained this many windows, and each time it has trained so much more: to
look again and again would end it in a lucky moment, and costs the machine it runs on."""


@dataclass(slots=True)
class Enough:
    """Asked every second while a trial runs: can it be ended? Cheap, until a full look is due."""

    folder: Path
    windows: Windows
    start_max_s: float
    gave_up: str = ""
    """Why it was ended without a window."""
    _first_tick_s: float | None = None
    _look_at_s: float = 0.0
    _asked_s: float = 0.0
    _run: FollowedRun | None = None

    def __call__(self, elapsed_s: float) -> bool:
        """`elapsed_s`: since the start of the command. A trial may be made again, and begins anew then."""
        if self._run is None or elapsed_s < self._asked_s:
            self._run, self._first_tick_s = FollowedRun(self.folder), None
        self._asked_s = elapsed_s
        ticks = max((one.ticks or one.env_steps for one in self._run.read_on()), default=0)
        if not ticks and self._first_tick_s is None:
            if elapsed_s < self.start_max_s:
                return False
            self.gave_up = f"no training step within {self.start_max_s:.0f} s"
            return True
        if self._first_tick_s is None:
            self._first_tick_s, self._look_at_s = elapsed_s, FIRST_LOOK_AT * self.windows.min_s
        trained_s = elapsed_s - self._first_tick_s
        if trained_s >= self.windows.max_s:
            return True
        if trained_s < self._look_at_s or ticks < self.windows.min_ticks:
            return False
        self._look_at_s = LOOK_GROWTH * trained_s
        return self._is_steady()

    def _is_steady(self) -> bool:
        main = summarise(load(self.folder)).main
        return main is not None and window_verdict(main, self.windows)[0]
