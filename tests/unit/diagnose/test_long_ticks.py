from __future__ import annotations

from collections.abc import Sequence

import pytest

from stoker.diagnose.long_ticks import long_ticks
from stoker.model.record import PHASES, Tick

BACKWARD, INFER = PHASES.index("backward"), PHASES.index("infer")


def ticks(lengths_ms: Sequence[float], phase: int = BACKWARD, known_every: int = 1) -> list[Tick]:
    """Ten milliseconds of each are always backward; what is beyond is in the phase given."""
    made, end_s = [], 0.0
    for number, length_ms in enumerate(lengths_ms):
        spent = [0.0] * len(PHASES)
        spent[BACKWARD] = 0.01
        spent[phase] += length_ms / 1000 - 0.01
        end_s += length_ms / 1000
        told = tuple(spent) if number % known_every == 0 else None
        made.append(Tick(end_s, length_ms / 1000, 0, told))
    return made


def every(distance: int, count: int = 300, long_ms: float = 40.0) -> list[float]:
    return [long_ms if number % distance == distance - 1 else 10.0 for number in range(count)]


def test_long_at_a_fixed_distance_in_the_models_phases() -> None:
    found = long_ticks(ticks(every(5)))
    assert found is not None
    assert found.every == 5
    assert found.frac == pytest.approx(0.03 / 0.08, abs=0.01), "30 ms beyond the usual, of 80 in five ticks"
    assert long_ticks(ticks(every(5), known_every=7)) is not None, "most are not told apart"


@pytest.mark.parametrize(
    "lengths_ms",
    [
        every(5, long_ms=19.0),
        every(40, count=300),
        every(60, count=900),
        [40.0 if number * 7919 % 13 in (1, 5) else 10.0 for number in range(300)],
        [10.0] * 5,
        [],
    ],
    ids=["hardly longer", "few", "little of the time", "at no fixed distance", "short", "none"],
)
def test_what_says_nothing(lengths_ms: list[float]) -> None:
    assert long_ticks(ticks(lengths_ms)) is None


def test_rollouts_between_updates_are_told_by_their_phase() -> None:
    assert long_ticks(ticks(every(5), phase=INFER)) is None


def test_without_phases_nothing_is_said() -> None:
    assert long_ticks(ticks(every(5), known_every=10_000)) is None
