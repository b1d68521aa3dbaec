"""Growth of GPU memory and blocks given back to the driver, from the rows a training wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stoker.diagnose.memory import MemoryTrend, memory_trend

Make = Any
Cards = Any
MIB = 2**20
START_S = 1003.0


def trend(make: Make, cards: Cards, held_mib: Sequence[int], **more: Sequence[int]) -> MemoryTrend:
    """One row a second, 20 ticks each."""
    rows = [
        cards.use(allocated_max_bytes=held * MIB, **{name: values[n] for name, values in more.items()})
        for n, held in enumerate(held_mib)
    ]
    rows = [type(row)(**{**_fields(row), "t_s": START_S + n}) for n, row in enumerate(rows)]
    record = make.training({"forward": 1.0}, devices=tuple(rows))
    return memory_trend(record, 0, START_S, START_S + 60.0)


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def test_even_growth_is_a_leak_with_a_forecast(make: Make, cards: Cards) -> None:
    found = trend(make, cards, [1024 + 100 * n for n in range(10)])
    assert found.growth_bytes_per_s == pytest.approx(100 * MIB)
    assert found.growth_bytes_per_tick == pytest.approx(5 * MIB)
    assert found.full_in_s == pytest.approx((141 * 1024 - 1924) / 100)


@pytest.mark.parametrize(
    "held",
    [
        [1000, 3000, 3500, 3600, 3640, 3650, 3652, 3652, 3652, 3652],
        [1000] * 10,
        [1000 + n for n in range(10)],
    ],
    ids=["a peak that is found", "none", "too little to tell"],
)
def test_other_growth_is_none(make: Make, cards: Cards, held: list[int]) -> None:
    found = trend(make, cards, held)
    assert found.growth_bytes_per_s == 0.0
    assert found.full_in_s is None


def test_blocks_given_back_are_counted_by_the_tick(make: Make, cards: Cards) -> None:
    frees = [200 * n for n in range(10)]
    found = trend(make, cards, [1000] * 10, driver_frees=frees, retries=[2 * n for n in range(10)])
    assert found.frees_per_tick == pytest.approx(10.0)
    assert found.retries_per_tick == pytest.approx(0.1)


def test_one_row_tells_nothing(make: Make, cards: Cards) -> None:
    assert trend(make, cards, [1000]) == MemoryTrend()
    assert trend(make, cards, [1000] * 3).frees_per_tick is None
