"""Ranks side by side: who is late, how late, and why, from the moments they come to backward."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.causes.arrivals import Arrivals, Late, Why, arrivals
from stoker.diagnose.sentence import sentence
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict
from stoker.model.record import PHASES, Place, ProcessRecord, Sampled, Tick
from stoker.model.run import Run

Make = Any
START_S = 1003.0
TICK_S = 0.1
Extra = Callable[[int, int], dict[str, float]]
"""Of a rank and a tick: what it does longer than the others, by phase, in seconds."""


def job(make: Make, ranks: int, extra: Extra) -> Run:
    """Everybody needs 20 ms for data, 20 ms for forward, at least 20 ms for backward; ticks end together."""
    ticks: list[list[Tick]] = [[] for _ in range(ranks)]
    now_s = START_S
    for number in range(400):
        own = [{"data": 0.02, "forward": 0.02, "optim": 0.005} for _ in range(ranks)]
        for rank, spent in enumerate(own):
            for name, more in extra(rank, number).items():
                spent[name] = spent.get(name, 0.0) + more
        before = [sum(spent.values()) - spent["optim"] for spent in own]
        tick_s = max(before) + 0.02 + 0.005
        for rank, spent in enumerate(own):
            spent["backward"] = tick_s - sum(spent.values())
            phases = tuple(spent.get(name, 0.0) for name in PHASES)
            ticks[rank].append(Tick(now_s + tick_s + 1e-5 * rank, tick_s, 0, phases))
        now_s += tick_s
    return make.run(*(_rank(make, rank, ranks, row) for rank, row in enumerate(ticks)))  # type: ignore[no-any-return]


def _rank(make: Make, rank: int, world: int, ticks: list[Tick]) -> ProcessRecord:
    seconds = round(ticks[-1].end_s - START_S)
    whole_s = sum(tick.duration_s for tick in ticks)
    shares = {
        name: sum((tick.phase_s or ())[at] for tick in ticks) / whole_s for at, name in enumerate(PHASES)
    }
    record = make.training(
        shares, seconds=seconds, ticks_per_s=400 / seconds, pid=100 + rank, rank=rank, world=world
    )
    return replace(record, ticks=tuple(ticks))


def met(run: Run) -> Arrivals:
    found = arrivals(summarise(run))
    assert found is not None
    return found


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    ("phase", "why"), [("data", Why.INPUT), ("forward", Why.COMPUTE), ("other", Why.HOST)]
)
def test_one_rank_is_late(make: Make, ranks: int, phase: str, why: Why) -> None:
    found = met(job(make, ranks, lambda rank, _: {phase: 0.04} if rank == 1 else {}))
    assert (found.late, found.late_rank, found.phase, found.why) == (Late.ONE, 1, phase, why)
    assert found.behind_ms == pytest.approx(40, rel=0.02)
    assert found.lost_frac == pytest.approx(0.04 / 0.105, rel=0.05)
    assert [round(one.last_frac) for one in found.ranks] == [int(rank == 1) for rank in range(ranks)]
    waits = [one.waits_frac for one in found.ranks]
    assert waits[1] == pytest.approx(0, abs=0.01)
    assert waits[0] == pytest.approx(0.04 / 0.105, rel=0.05)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(("phase", "why"), [("forward", Why.UNEQUAL), ("data", Why.INPUT)])
def test_late_in_turns(make: Make, ranks: int, phase: str, why: Why) -> None:
    dice = random.Random(0)
    lengths = [[dice.choice((0.0, 0.0, 0.08)) for _ in range(ranks)] for _ in range(400)]
    run = job(make, ranks, lambda rank, tick: {phase: lengths[tick][rank]})
    found = met(run)
    assert (found.late, found.late_rank, found.phase, found.why) == (Late.TURNS, None, phase, why)
    told = verdict(summarise(run)).findings
    assert [one.code for one in told if one.code == "SK503"] == ["SK503"]
    says = next(one.says for one in told if one.code == "SK503")
    assert f"in turns ({why}: {phase})" in says


def test_together_nobody_is_late(make: Make) -> None:
    run = job(make, 4, lambda rank, tick: {"forward": 0.002 * ((rank + tick) % 4)})
    assert met(run).late is Late.NOBODY
    assert "SK503" not in [one.code for one in verdict(summarise(run)).findings]


def test_a_late_rank_is_named_with_its_reason(make: Make) -> None:
    told = verdict(summarise(job(make, 2, lambda rank, _: {"forward": 0.05} if rank == 0 else {})))
    late = next(one for one in told.findings if one.code == "SK503")
    assert "rank 0 is late at every step (compute: forward)" in late.says
    assert "clocks" in late.fixes[0].text


def looked_at(run: Run, lines: dict[int, dict[int, int]], phase: str) -> Run:
    """So many looks found the rank in line N of train.py."""

    def seen(rank: int) -> tuple[Sampled, ...]:
        found = lines[rank].items()
        stacks = ((("/home/me/train.py", number, "step"), count) for number, count in found)
        return tuple(Sampled(phase, "train", Place(leaf, leaf), count) for leaf, count in stacks)

    processes = (replace(one, sampled=seen(one.rank or 0)) for one in run.processes)
    return replace(run, processes=tuple(processes))


@pytest.mark.parametrize(
    ("rank_1", "line"),
    [({10: 10, 20: 90}, 20), ({10: 100}, 10), ({10: 40, 20: 30, 30: 30}, None)],
)
def test_the_line_of_the_late_rank_is_named(make: Make, rank_1: dict[int, int], line: int | None) -> None:
    """Line 10 takes all ranks some time; what makes one late takes it longer than it takes the others."""
    run = job(make, 3, lambda rank, _: {"other": 0.045 if rank == 1 else 0.005})
    others = {10: 100}
    told = verdict(summarise(looked_at(run, {0: others, 1: rank_1, 2: others}, "other"))).findings
    late = next(one for one in told if one.code == "SK503")
    assert (late.place.leaf[1] if late.place and late.place.leaf else None) == line


def test_ranks_late_in_turns_have_the_line_of_the_phase(make: Make) -> None:
    run = job(make, 2, lambda rank, tick: {"other": 0.06 if (tick + rank) % 2 else 0.0})
    told = verdict(summarise(looked_at(run, {0: {30: 80}, 1: {30: 80}}, "other"))).findings
    late = next(one for one in told if one.code == "SK503")
    assert late.place is not None
    assert late.place.leaf == ("/home/me/train.py", 30, "step")


def test_waiting_is_said_first(make: Make) -> None:
    run = job(make, 2, lambda rank, _: {"data": 0.14} if rank == 1 else {})
    assert sentence(summarise(run)) == (
        "Rank 0 waits 68 % of the training time in backward for rank 1, late by input (data). The model "
        "takes 22 %."
    )


def test_ticks_that_do_not_end_together_are_not_compared(make: Make) -> None:
    run = job(make, 2, lambda rank, _: {"data": 0.04} if rank else {})
    first, second = run.processes
    moved = tuple(replace(tick, end_s=tick.end_s + 10_000) for tick in second.ticks)
    found = met(replace(run, processes=(first, replace(second, ticks=moved))))
    assert found.ranks == ()
    assert found.reason


def test_one_process_has_no_ranks(make: Make) -> None:
    assert arrivals(summarise(make.run(make.training({"forward": 1.0})))) is None
