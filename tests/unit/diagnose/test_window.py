from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.window import spans, stage_seconds, training_window, warmup_ticks
from stoker.model.record import Mark

Make = Any


def noisy(mean_s: float, count: int, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(mean_s, mean_s / 20) for _ in range(count)]


def decaying(count: int) -> list[float]:
    """Starts at twice the speed it ends with, gone after about 100 ticks."""
    return [value * (1 + 0.9 ** (n / 4)) for n, value in enumerate(noisy(0.02, count))]


def test_no_warm_up() -> None:
    assert warmup_ticks([0.02] * 500) == 0
    assert warmup_ticks([0.1] * 240) == 0
    for seed in range(20):
        assert warmup_ticks(noisy(0.02, 500, seed)) == 0


@pytest.mark.parametrize("slow", [10, 50, 150])
def test_a_slow_beginning_is_cut(slow: int) -> None:
    cut = warmup_ticks([*noisy(0.06, slow), *noisy(0.02, 600)])
    assert slow <= cut <= slow + 20


def test_a_decaying_transient_is_cut_where_little_is_left_of_it() -> None:
    cut = warmup_ticks(decaying(800))
    assert 40 <= cut <= 200


def test_one_early_stall_is_no_warm_up() -> None:
    durations = noisy(0.02, 500)
    durations[30] = 5.0
    assert warmup_ticks(durations) <= 35


def test_two_steps_down() -> None:
    """Compiling, then caches: both go."""
    cut = warmup_ticks([*noisy(0.2, 20), *noisy(0.05, 60), *noisy(0.02, 600)])
    assert 80 <= cut <= 100


def test_never_more_than_half_and_never_from_a_few() -> None:
    assert warmup_ticks([0.2] * 500 + [0.02] * 100) <= 300
    assert warmup_ticks([9.0] * 10 + [0.02] * 29) == 0
    assert warmup_ticks([]) == 0


def test_periodic_stalls_are_part_of_the_training() -> None:
    durations = noisy(0.02, 1000)
    for index in range(0, 1000, 8):
        durations[index] += 0.1
    assert warmup_ticks(durations) == 0


def test_stages_add_up_to_the_life_of_the_process(make: Make) -> None:
    record = make.training({"forward": 0.9, "save": 0.1}, seconds=40)
    second = [row.sums for row in record.seconds]
    marks = (*record.marks, Mark("eval", second[20]), Mark("train", second[25]), Mark("after", second[38]))
    record = replace(record, marks=marks)
    window = training_window(record)
    stages = stage_seconds(record, window)
    assert sum(stages.values()) == pytest.approx(43.0)
    assert stages["startup"] == pytest.approx(3.0)
    assert stages["eval"] == pytest.approx(5.0)
    assert stages["after"] == pytest.approx(2.0)
    assert stages["save"] == pytest.approx(3.3)
    assert window.seconds == pytest.approx(33.0)
    assert [span.stage for span in spans(record)] == ["startup", "train", "eval", "train", "after"]


def test_the_warm_up_is_left_out_of_the_window(make: Make) -> None:
    record = make.training({"forward": 1.0}, seconds=60)
    slow = tuple(replace(tick, duration_s=0.5) if tick.end_s < 1013.0 else tick for tick in record.ticks)
    window = training_window(replace(record, ticks=slow))
    assert window.warmup_s == pytest.approx(10.0, abs=1.5)
    assert window.seconds + window.warmup_s == pytest.approx(60.0)


def test_short_windows_say_so(make: Make) -> None:
    assert training_window(make.training({"forward": 1.0}, seconds=3)).remark.startswith(
        "short: 60 ticks in 3.0"
    )
    assert training_window(make.training({"forward": 1.0}, seconds=30, ticks_per_s=0.5)).remark.startswith(
        "short"
    )
    assert training_window(make.training({"forward": 1.0}, seconds=30)).remark == ""


@pytest.mark.parametrize(
    ("speeds", "steady"),
    [
        ([1.0] * 60, True),
        ([1.0] * 30 + [0.9] * 30, True),
        ([1.0] * 30 + [0.6] * 30, False),
        ([0.5] * 30 + [1.0] * 30, False),
        ([1.0, 0.2] * 30, True),
    ],
    ids=["even", "nearly", "slower", "faster", "alternating"],
)
def test_drift(make: Make, speeds: list[float], steady: bool) -> None:
    window = training_window(make.training({"forward": 1.0}, speeds=speeds))
    assert (window.remark == "") is steady, window.remark


def test_a_process_without_rows_has_no_spans(make: Make) -> None:
    record = replace(make.training({"forward": 1.0}), seconds=(), marks=())
    assert spans(record) == []
    assert training_window(record).seconds == 0
