"""The iteration: the shortest cycle of optimizer steps and env steps that covers the training.

It is found in the order of events, so SAC, PPO, a GAN or plain supervised training need no special case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, mode

Event = int | str
Run = tuple[Event, int]

COVER_MIN = 0.95
RARE_MIN = 0.99
PERIOD_MAX = 256
RUNS_MAX = 5_000
"""As many of the last runs are looked at; more cost time and change nothing."""


@dataclass(frozen=True, slots=True)
class Iteration:
    optimizer_steps: dict[int, float]
    env_calls: float
    exact: bool
    """Every cycle is the same; else the counts are means of cycles of one shape."""
    cover_frac: float
    env_turns: int = 0
    """How often in it env steps follow on updates."""

    @property
    def updates_in_a_row(self) -> float | None:
        """Between two turns of env steps; None where there are none, or every cycle is another."""
        if not (self.env_turns and self.optimizer_steps and self.exact):
            return None
        return max(self.optimizer_steps.values()) / self.env_turns


def find_iteration(sequence: Sequence[Run]) -> Iteration | None:
    """None where no cycle covers enough, or too little was seen."""
    runs = _without_lead(sequence)
    total = sum(count for _, count in runs)
    if not total:
        return None
    single = _single(runs, total)
    if single is not None:
        return single
    for exact in (True, False):
        for period in range(2, min(PERIOD_MAX, len(runs) // 2) + 1):
            cover = _cover(runs, period, exact)
            if cover >= COVER_MIN:
                return _mean_cycle(runs, period, exact, cover)
    return None


def _without_lead(sequence: Sequence[Run]) -> list[Run]:
    """Env steps before the first update fill a buffer; they belong to no iteration. Nor do the updates in
    what is left of the run that was still growing."""
    runs = list(sequence)
    if runs and runs[0][0] == "e" and len(runs) > 3:
        runs = runs[1:]
    return runs[-RUNS_MAX:]


def _single(runs: list[Run], total: int) -> Iteration | None:
    """One kind of event and nothing else; an optimizer that steps once in hundreds of ticks is a rare event.
    Env steps and updates always make a cycle, however many of one come to one of the other."""
    counts: dict[Event, int] = {}
    for event, count in runs:
        counts[event] = counts.get(event, 0) + count
    event, most = max(counts.items(), key=lambda item: item[1])
    if len(counts) > 1 and ("e" in counts or most / total < RARE_MIN):
        return None
    steps: dict[int, float] = {} if isinstance(event, str) else {event: 1.0}
    return Iteration(steps, 1.0 if event == "e" else 0.0, True, most / total)


def _cover(runs: list[Run], period: int, exact: bool) -> float:
    """Share of events in runs that equal the run one period before (the first period counts as it stands).
    Of env steps and of updates, the smaller share: thousands of one must not hide how the other varies."""
    matched, total = {True: 0, False: 0}, {True: 0, False: 0}
    last = len(runs) - 1
    for index, (event, count) in enumerate(runs):
        is_env = event == "e"
        total[is_env] += count
        before, count_before = runs[index - period] if index >= period else (event, count)
        grows = index == last and count < count_before
        if event == before and (not exact or count == count_before or grows):
            matched[is_env] += count
    return min(matched[kind] / total[kind] for kind in total if total[kind])


def _mean_cycle(runs: list[Run], period: int, exact: bool, cover: float) -> Iteration:
    """The last run was still growing: it is left out where there is another to look at."""
    steps: dict[int, float] = {}
    env_calls, env_turns = 0.0, 0
    for position in range(period):
        alike = runs[:-1][position::period] or runs[position::period]
        event = alike[0][0]
        counts = [count for other, count in alike if other == event]
        usual = float(mode(counts)) if exact else fmean(counts)
        if isinstance(event, str):
            env_calls += usual
            env_turns += 1
        else:
            steps[event] = steps.get(event, 0.0) + usual
    return Iteration(steps, env_calls, exact, cover, env_turns)
