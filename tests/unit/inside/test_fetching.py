"""CPU time of the training thread's fetches, of which only some are clocked."""

from __future__ import annotations

import pytest

from stoker.inside.hooks.loader_worker import CLOCKED_EVERY, CLOCKED_FIRST, WorkerTotals


def fetched(lengths: list[tuple[float, float]]) -> WorkerTotals:
    """As `FetchHook` does with each (wall, CPU) seconds."""
    totals = WorkerTotals(None)
    for wall_s, cpu_s in lengths:
        clocked = totals.batches >= totals.clock_next
        totals.wall_s += wall_s
        totals.batches += 1
        if clocked:
            totals.clocked(wall_s, cpu_s)
    return totals


def test_a_first_fetch_unlike_the_rest_counts_once() -> None:
    waits, computes = (3.0, 0.01), (0.005, 0.005)
    told = fetched([waits] + 1000 * [computes]).row()
    assert told["cpu_s"] == pytest.approx(0.01 + 1000 * 0.005, rel=1e-3)
    assert told["wall_s"] == pytest.approx(3.0 + 1000 * 0.005)


def test_few_fetches_are_all_clocked() -> None:
    assert fetched(CLOCKED_FIRST * [(0.1, 0.04)]).row()["cpu_s"] == pytest.approx(CLOCKED_FIRST * 0.04)


def test_one_in_so_many_is_clocked() -> None:
    totals = fetched(5000 * [(1.0, 0.5)])
    assert 5000 / totals.clocked_s == pytest.approx(CLOCKED_EVERY, rel=0.1)
