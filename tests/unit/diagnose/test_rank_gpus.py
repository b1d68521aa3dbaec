"""The bar of all ranks together: waiting for a late rank is not work, and no bar exceeds 100 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.gpu_budget import Kind
from stoker.diagnose.rank_gpus import NOT_ALONE, Together, rank_gpu, together
from stoker.diagnose.sentence import sentence
from stoker.diagnose.summary import summarise
from stoker.model.record import PHASES, ProcessRecord, Tick
from stoker.model.run import Run

Make = Any
EARLY = {"data": 0.1, "forward": 0.2, "backward": 0.65, "optim": 0.05}
LATE = {"data": 0.55, "forward": 0.2, "backward": 0.2, "optim": 0.05}
"""It comes to backward 45 ms of a tick of 100 ms after the other."""


def two(
    make: Make,
    cards: Any,
    busy_pct: tuple[float | None, float | None] = (90.0, 45.0),
    real_pct: tuple[float, float] = (30.0, 30.0),
    shares: tuple[Mapping[str, float], Mapping[str, float]] = (EARLY, LATE),
    **first: Any,
) -> Run:
    """Two ranks, each with a card of its own. `first`: of the readings of the first one's card."""
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    rows = cards.readings(busy_pct[0], pid=100, sm_active_pct=real_pct[0], **first)
    other = cards.readings(busy_pct[1], pid=101, sm_active_pct=real_pct[1])
    gpu = cards.record(rows + tuple(replace(row, gpu=1) for row in other), cards.H200, second)
    ranks = [
        make.training(
            one, pid=100 + n, rank=n, world=2, torch="2.11.0+cu128", devices=(cards.use(uuid=uuid),)
        )
        for n, (one, uuid) in enumerate(zip(shares, (cards.UUID, "second"), strict=True))
    ]
    run: Run = replace(make.run(*map(in_step, ranks)), gpu=gpu)
    return run


def in_step(record: ProcessRecord) -> ProcessRecord:
    """Ten ticks a second, that end together."""
    whole = {name: record.seconds[-1].sums.phase(name) / 60 for name in PHASES}
    ends = [1003.0 + (n + 1) / 10 for n in range(600)]
    spent = tuple(whole[name] / 10 for name in PHASES)
    return replace(record, ticks=tuple(Tick(end_s, 0.1, 0, spent) for end_s in ends))


def bar(run: Run) -> Together:
    found = together(summarise(run))
    assert found is not None
    return found


def shares(found: Together) -> dict[Kind, float]:
    kinds = {part.kind for part in found.parts}
    return {kind: sum(part.pct for part in found.parts if part.kind is kind) for kind in kinds}


def whole(found: Together) -> float:
    return sum(part.pct for part in found.parts) + (found.waiting_pct or 0.0)


def test_a_rank_that_spins_waits(make: Make, cards: Any) -> None:
    found = bar(two(make, cards))
    assert [one.waiting_pct for one in found.ranks] == [pytest.approx(45.0), pytest.approx(0.0, abs=1e-6)]
    assert found.waiting_pct == pytest.approx(22.5)
    assert whole(found) == pytest.approx(100)
    told = shares(found)
    assert told[Kind.REAL] == pytest.approx(30.0)
    assert told[Kind.LITTLE] == pytest.approx((90 - 30 - 45 + 45 - 30) / 2)
    for one in found.ranks:
        assert sum(part.pct for part in one.parts) + (one.waiting_pct or 0.0) == pytest.approx(100)


@pytest.mark.parametrize(("busy_pct", "real_pct", "waits_pct"), [(80.0, 70.0, 10.0), (20.0, 5.0, 15.0)])
def test_no_more_than_what_can_be_spinning(
    make: Make, cards: Any, busy_pct: float, real_pct: float, waits_pct: float
) -> None:
    """Real work is no waiting, and a GPU that idles spins in nothing."""
    found = bar(two(make, cards, (busy_pct, 45.0), (real_pct, 30.0)))
    assert found.ranks[0].waiting_pct == pytest.approx(waits_pct)
    assert whole(found) == pytest.approx(100)


def test_idle_time_where_ranks_meet_is_not_spinning(make: Make, cards: Any) -> None:
    """A collective of the CPU's: the thread waits in backward, and the GPU has nothing to do there."""
    run = two(make, cards, (50.0, 45.0), (2.0, 30.0))
    first, second = run.processes
    found = {"backward": (2.6, 0.0, 2.0, 0.0), "data": (0.4, 0.0, 0.0, 0.0)}
    told = bar(replace(run, processes=(replace(first, lead=cards.lead(found)), second)))
    launching = next(part.pct for part in told.ranks[0].parts if part.kind is Kind.LAUNCHING)
    assert launching > 40
    assert told.ranks[0].waiting_pct == pytest.approx(65 - launching)


def test_without_single_ticks_it_is_the_plain_mean(make: Make, cards: Any) -> None:
    run = two(make, cards)
    without = tuple(replace(process, ticks=()) for process in run.processes)
    found = bar(replace(run, processes=without))
    assert found.waiting_pct is None
    assert "too few ticks" in found.reason
    assert shares(found)[Kind.LITTLE] == pytest.approx((60 + 15) / 2)
    assert whole(found) == pytest.approx(100)


def test_a_shared_card_gives_the_plain_mean(make: Make, cards: Any) -> None:
    found = bar(two(make, cards, processes=2, foreign_pids=(7,)))
    assert (found.waiting_pct, found.reason) == (None, NOT_ALONE)
    assert [one.waiting_pct for one in found.ranks] == [None, None]
    assert whole(found) == pytest.approx(100)


def test_one_of_two_cards_without_counters(make: Make, cards: Any) -> None:
    found = bar(two(make, cards, (90.0, None)))
    assert found.waiting_pct is None
    assert shares(found)[Kind.UNKNOWN] == pytest.approx(50.0)
    assert whole(found) == pytest.approx(100)


def test_one_card_has_no_bar_together(make: Make, cards: Any) -> None:
    run = two(make, cards)
    assert together(summarise(replace(run, processes=run.processes[:1]))) is None
    on_one = tuple(replace(process, devices=(cards.use(),)) for process in run.processes)
    assert together(summarise(replace(run, processes=on_one))) is None


def test_the_bar_of_one_rank_has_it_too(make: Make, cards: Any) -> None:
    summary = summarise(two(make, cards))
    assert summary.main is not None
    own = rank_gpu(summary, summary.main)
    assert own is not None
    assert own.waiting_pct == pytest.approx(45.0)


def test_a_gpu_that_spins_is_not_called_well_fed(make: Make, cards: Any) -> None:
    says = sentence(summarise(two(make, cards, (97.0, 45.0), (45.0, 30.0))))
    assert "nothing to gain" not in says
    assert "GPU busy 97 %, but 45 % of the time it spins, waiting for other ranks." in says
