"""Run a plan: the next missing trial, written to the journal, until there is an answer.

How a trial is run is the caller's (`run_arm`); a session knows no process and no screen. What was measured is
on disk before the next trial begins, so a kill, Ctrl-C or a full disk lose at most the trial that runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.trials.ab.answer import Answer, Turn, answer, next_turn
from stoker.trials.ab.journal import Journal
from stoker.trials.ab.measure import ArmMeasure
from stoker.trials.ab.plan import Plan

RunArm = Callable[[Turn], ArmMeasure]


class Interrupted(Exception):
    """The user ended the trial that was running (Ctrl-C, kill): its measure is void."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Before a trial, for a status line."""

    turn: Turn
    pairs: int
    answer: Answer
    elapsed_s: float
    left_s: float | None
    """None before the first trial: how long the training takes to start is not known."""


@dataclass(frozen=True, slots=True)
class Ended:
    plan: Plan
    measures: tuple[ArmMeasure, ...]
    answer: Answer
    stopped: str = ""
    """Why it stopped without a final answer."""
    interrupted: bool = False


@dataclass(slots=True)
class Session:
    plan: Plan
    folder: Path
    measures: tuple[ArmMeasure, ...] = ()
    """Of earlier sittings."""
    limit_s: float | None = None
    """Of this sitting."""
    on_progress: Callable[[Progress], None] = lambda progress: None
    clock: Callable[[], float] = time.monotonic

    def run(self, run_arm: RunArm) -> Ended:
        journal = Journal(self.folder)
        try:
            if not journal.path.stat().st_size:
                journal.begin(self.plan)
            return self._run(run_arm, journal)
        finally:
            journal.close()

    def _run(self, run_arm: RunArm, journal: Journal) -> Ended:
        began = self.clock()
        while True:
            found, turn = answer(self.plan, self.measures), next_turn(self.plan, self.measures)
            if found.final or turn is None:
                journal.end(found.outcome.value, found.reason)
                return self._ended(found)
            elapsed_s = self.clock() - began
            if self._no_time_for(turn, elapsed_s):
                return self._ended(found, stopped=self._out_of_time(turn, elapsed_s))
            left_s = self._left_s(turn)
            self.on_progress(Progress(turn, self.plan.pairs, found, elapsed_s, left_s))
            try:
                measured = run_arm(turn)
            except (Interrupted, KeyboardInterrupt):
                return self._ended(found, stopped="interrupted", interrupted=True)
            if self._cut_off(measured, self.clock() - began):
                return self._ended(found, stopped=f"the {self.limit_s:.0f} s given were over in a trial")
            journal.add(measured)
            self.measures = (*self.measures, measured)

    def _cut_off(self, measured: ArmMeasure, elapsed_s: float) -> bool:
        """It was ended with the time that was given: what it shows is no verdict on the arm."""
        over = self.limit_s is not None and elapsed_s >= self.limit_s
        return over and not measured.usable and measured.failure is None

    def stopped(self, reason: str) -> Ended:
        """What is known after something outside ended it: a full disk."""
        return self._ended(answer(self.plan, self.measures), stopped=reason)

    def _ended(self, found: Answer, stopped: str = "", interrupted: bool = False) -> Ended:
        return Ended(self.plan, self.measures, found, stopped, interrupted)

    def _no_time_for(self, turn: Turn, elapsed_s: float) -> bool:
        """A pair that cannot be finished in time is not begun."""
        trials = 2 if turn.order == 0 else 1
        return self.limit_s is not None and elapsed_s + trials * self._trial_s() > self.limit_s

    def _out_of_time(self, turn: Turn, elapsed_s: float) -> str:
        trials = 2 if turn.order == 0 else 1
        needed = f"{'a pair' if trials == 2 else 'a trial'} takes {trials * self._trial_s():.0f} s"
        if self.measures:
            return f"of the {self.limit_s:.0f} s given {elapsed_s:.0f} s are used, and {needed}"
        return f"{needed} at least, and {self.limit_s:.0f} s were given"

    def _trial_s(self) -> float:
        """As long as the longest so far; before the first, as long as a quick one takes."""
        worked = [one.took_s for one in self.measures if one.failure is None]
        return max(worked) if worked else 1.2 * self.plan.windows.min_s

    def _left_s(self, turn: Turn) -> float | None:
        if not self.measures:
            return None
        trials = 2 * (self.plan.pairs - turn.pair) + (2 if turn.order == 0 else 1)
        return trials * self._trial_s()
