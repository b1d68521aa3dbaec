"""The class of a recorded run is what `classify` would say of the same figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.classes import LIMITS, CaseClass, Figures, judge
from stoker.diagnose.run_class import NOT_COUNTED, SHARED, RunClass, run_class
from stoker.diagnose.summary import summarise

Make = Any
WORK = {"forward": 0.4, "backward": 0.5, "optim": 0.1}
GIB = 2**30


def class_of(make: Make, cards: Any, readings: Any, **more: Any) -> RunClass:
    found = run_class(summarise(cards.run(make, WORK, cards.record(readings, **more), None)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("busy_pct", "used_gib", "expected"),
    [
        (18.0, 6, CaseClass.THROUGHPUT_BOUND),
        (45.0, 6, CaseClass.BALANCED),
        (60.0, 6, CaseClass.COMPUTE_HEAVY),
        (18.0, 138, CaseClass.VRAM_BOUND),
    ],
)
def test_the_judgement_is_that_of_classify(
    make: Make, cards: Any, busy_pct: float, used_gib: int, expected: CaseClass
) -> None:
    found = class_of(make, cards, cards.readings(busy_pct, memory_used_bytes=used_gib * GIB))
    assert found.name is expected
    assert found.judgement == judge(Figures(found.figures.util_pct, used_gib * 1024, 141 * 1024, samples=60))
    assert (found.source, found.gpus) == ("gpm", 1)
    assert found.figures.util_pct == pytest.approx(busy_pct)


def test_busy_is_meant_and_not_real_work(make: Make, cards: Any) -> None:
    found = class_of(make, cards, cards.readings(80.0, **cards.GPM_FIGURES))
    assert found.name is CaseClass.COMPUTE_HEAVY


def test_no_class_on_a_cpu(make: Make) -> None:
    assert run_class(summarise(make.run(make.training(WORK)))) is None


def test_a_card_shared_with_others_is_not_judged(make: Make, cards: Any) -> None:
    found = class_of(make, cards, cards.readings(94.0, processes=2, foreign_pids=(99,)))
    assert (found.name, found.judgement.why) == (CaseClass.UNCLASSIFIABLE, SHARED)
    assert found.figures.util_pct == pytest.approx(94.0), "still told to programs"


def test_a_card_without_counters_is_not_judged(make: Make, cards: Any) -> None:
    assert class_of(make, cards, cards.readings(None)).judgement.why == NOT_COUNTED
    unseen = class_of(make, cards, (), missing=())
    assert (unseen.name, unseen.judgement.why) == (CaseClass.UNCLASSIFIABLE, NOT_COUNTED)


def test_a_few_seconds_are_too_few(make: Make, cards: Any) -> None:
    found = class_of(make, cards, cards.readings(80.0)[:9])
    assert found.name is CaseClass.UNCLASSIFIABLE
    assert found.judgement.why == "less than 10 s of training were counted"
    assert class_of(make, cards, cards.readings(80.0)[:11]).name is CaseClass.COMPUTE_HEAVY


def test_looking_oftener_makes_no_class(make: Make, cards: Any) -> None:
    """Five looks a second of eight seconds are eight seconds."""
    rows = [replace(row, busy_s=0.2, t=1003.0 + 0.2 * n) for n, row in enumerate(cards.readings(80.0)[:41])]
    assert class_of(make, cards, rows).name is CaseClass.UNCLASSIFIABLE


def test_of_several_gpus_the_least_busy_and_the_fullest_count(make: Make, cards: Any) -> None:
    second = replace(cards.H200, gpu=1, uuid="GPU-second")
    other = tuple(replace(row, gpu=1, memory_used_bytes=138 * GIB) for row in cards.readings(30.0))
    gpu = cards.record(cards.readings(80.0) + other, cards.H200, second)
    run = cards.run(make, WORK, gpu, None, rank=0)
    ranks = (*run.processes, make.training(WORK, pid=7, rank=1, devices=(cards.use(uuid="second"),)))
    found = run_class(summarise(replace(run, processes=ranks)))
    assert found is not None
    assert (found.name, found.gpus) == (CaseClass.VRAM_BOUND, 2)
    assert found.figures.util_pct == pytest.approx(30.0)


def test_the_fullest_of_unlike_cards_is_so_by_its_own_size(make: Make, cards: Any) -> None:
    """40 GiB are half of an 80 GiB card, and 20 most of a 24 GiB one."""
    large = replace(cards.H200, memory_total_bytes=80 * GIB)
    small = replace(cards.RTX_4090, gpu=1, uuid="GPU-second")
    rows = cards.readings(30.0, memory_used_bytes=40 * GIB)
    gpu = cards.record(
        rows + tuple(replace(row, gpu=1, memory_used_bytes=20 * GIB) for row in rows), large, small
    )
    run = cards.run(make, WORK, gpu, None, rank=0)
    ranks = (*run.processes, make.training(WORK, pid=7, rank=1, devices=(cards.use(uuid="second"),)))
    found = run_class(summarise(replace(run, processes=ranks)))
    assert found is not None
    assert (found.figures.peak_mem_mib, found.figures.mem_total_mib) == (20 * 1024, 24 * 1024)


def test_limits_can_be_moved(make: Make, cards: Any) -> None:
    summary = summarise(cards.run(make, WORK, cards.record(cards.readings(40.0)), None))
    moved = replace(summary, limits=LIMITS.with_overrides({"util_low_pct": 20.0}))
    names = [found.name for one in (summary, moved) if (found := run_class(one))]
    assert names == [CaseClass.THROUGHPUT_BOUND, CaseClass.BALANCED]
