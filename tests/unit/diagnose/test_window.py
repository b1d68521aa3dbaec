from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.steady import warmup_samples
from stoker.diagnose.window import spans, stage_seconds, training_window
from stoker.model.record import PHASES, Mark, ProcessRecord

Make = Any


def noisy(mean_s: float, count: int, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(mean_s, mean_s / 20) for _ in range(count)]


def decaying(count: int) -> list[float]:
    """Starts at twice the speed it ends with, gone after about 100 ticks."""
    return [value * (1 + 0.9 ** (n / 4)) for n, value in enumerate(noisy(0.02, count))]


def warmup_ticks(durations_s: list[float]) -> int:
    return warmup_samples(durations_s)[0]


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


def test_what_was_saved_in_the_warm_up_is_taken_off_it(make: Make) -> None:
    record = make.training({"forward": 0.9, "save": 0.1}, speeds=[0.2] * 10 + [1.0] * 50)
    window = training_window(record)
    stages = stage_seconds(record, window)
    assert stages["save"] == pytest.approx(6.0)
    assert stages["warm-up"] == pytest.approx(0.9 * window.warmup_s)
    assert stages["train"] == pytest.approx(0.9 * window.seconds)


def test_the_warm_up_is_left_out_of_the_window(make: Make) -> None:
    record = make.training({"forward": 1.0}, speeds=[0.2] * 10 + [1.0] * 50)
    window = training_window(record)
    assert window.warmup_s == pytest.approx(10.0, abs=1.5)
    assert window.seconds + window.warmup_s == pytest.approx(60.0)
    assert window.steadiness is not None
    assert window.steadiness.ticks_per_s == pytest.approx(20.0, rel=0.01)


def test_short_windows_say_so(make: Make) -> None:
    short = training_window(make.training({"forward": 1.0}, seconds=3)).remark
    assert short.startswith("too short to be sure: 60 ticks in 3.0 s; a first figure needs 20 s")
    few = training_window(make.training({"forward": 1.0}, seconds=30, ticks_per_s=2)).remark
    assert few.startswith("too short to be sure: 60 ticks in 30.0 s; a first figure needs 50 s")
    slow = training_window(make.training({"forward": 1.0}, seconds=80, ticks_per_s=0.1)).remark
    assert "a first figure needs" in slow
    assert "claim" not in slow, "that it could be had sooner would be no help"
    screening = training_window(make.training({"forward": 1.0}, seconds=30))
    assert screening.remark == "screening only: a claim from one run needs 150 s of training"


@pytest.mark.parametrize(
    ("speeds", "phrase"),
    [
        ([1.0] * 60, "screening, ±0.1 %"),
        ([1.0] * 36 + [0.6] * 24, "unsteady: step change"),
        ([0.5] * 48 + [1.0] * 12, "unsteady: step change"),
    ],
    ids=["even", "slower", "faster"],
)
def test_drift(make: Make, speeds: list[float], phrase: str) -> None:
    window = training_window(make.training({"forward": 1.0}, speeds=speeds))
    assert window.steadiness is not None
    assert window.steadiness.phrase == phrase
    assert window.remark.startswith(phrase.partition(",")[0])


def test_a_long_run_is_judged_by_its_rows(make: Make) -> None:
    """The files hold its last minutes only: a row a second tells of the whole."""
    even = training_window(make.training({"forward": 1.0}, seconds=1200))
    assert even.steadiness is not None
    assert even.steadiness.phrase == "steady, ±0.1 %"
    assert even.steadiness.last_tick == 24_000
    assert even.remark == ""
    changed = training_window(make.training({"forward": 1.0}, speeds=[1.0] * 900 + [0.8] * 300, seconds=1200))
    assert changed.remark.startswith("unsteady: step change: 20 ticks/s at first, 16 at the end")


def test_a_slow_stretch_in_the_middle_is_not_left_out(make: Make) -> None:
    speeds = [1.0] * 400 + [0.6] * 300 + [0.9] * 500
    window = training_window(make.training({"forward": 1.0}, speeds=speeds, seconds=1200))
    assert window.remark.startswith("unsteady: step change: stretches of 12 to 20 ticks/s, the longest after")


def test_a_long_warm_up_is_told(make: Make) -> None:
    window = training_window(make.training({"forward": 1.0}, speeds=[0.5] * 500 + [1.0] * 700, seconds=1200))
    assert window.warmup_s == pytest.approx(500, abs=30)
    assert window.remark.startswith("the first 8 min")
    assert window.remark.endswith("ran at another speed and are left out")


def test_ticks_that_do_not_cover_the_training_are_not_taken_for_it(make: Make) -> None:
    """As when the disk was full for a while."""
    record = make.training({"forward": 1.0}, seconds=60)
    half = training_window(replace(record, ticks=record.ticks[:600])).steadiness
    assert half is not None
    assert half.sample_ticks > 1, "rows of a second"


def compiling(make: Make, when: set[int], seconds: int = 60) -> ProcessRecord:
    """Nothing but torch.compile in some of its seconds, and hardly a tick."""
    speeds = [0.05 if second in when else 1.0 for second in range(seconds)]
    record: ProcessRecord = make.training({"forward": 1.0}, speeds=speeds, seconds=seconds)
    place, rows = PHASES.index("compile"), []
    for second, row in enumerate(record.seconds):
        phases = list(row.sums.phase_s)
        phases[place] = float(sum(one < second for one in when))
        phases[PHASES.index("forward")] -= phases[place]
        rows.append(replace(row, sums=replace(row.sums, phase_s=tuple(phases))))
    return replace(record, seconds=tuple(rows), marks=(Mark("train", rows[0].sums),))


@pytest.mark.parametrize(
    ("when", "cut_s"),
    [
        ({0, 1, 2}, 3.0),
        ({0, 1, 4, 5, 6, 10}, 11.0),
        ({0, 1, 2, 40}, 3.0),
        ({30}, 0.0),
        (set(range(0, 60, 3)), 1.0),  # its first tick, as in any training
        (set(range(55)), 0.0),
    ],
    ids=["once", "with pauses", "again, much later", "only later", "all the time", "nothing else"],
)
def test_what_is_compiled_first_is_warm_up(make: Make, when: set[int], cut_s: float) -> None:
    assert training_window(compiling(make, when)).warmup_s == pytest.approx(cut_s, abs=0.1)


def test_compiling_is_cut_off_a_short_run_as_well(make: Make) -> None:
    window = training_window(compiling(make, {0, 1}, seconds=8))
    assert (window.warmup_s, window.seconds) == (pytest.approx(2.0), pytest.approx(6.0))
    assert window.content.phase("compile") == 0


@pytest.mark.parametrize(("first_s", "cut"), [(1.0, True), (0.14, False)], ids=["long", "no matter"])
def test_a_first_tick_that_sets_things_up(make: Make, first_s: float, cut: bool) -> None:
    record = make.training({"forward": 1.0}, seconds=15)
    first = record.ticks[0]
    ticks = (replace(first, duration_s=first_s), *record.ticks[1:])
    assert bool(training_window(replace(record, ticks=ticks)).warmup_s) is cut


def test_a_pause_early_in_a_short_run_is_left_out(make: Make) -> None:
    """As where a script measures something between its first, faster ticks and the rest: 12 s of 23."""
    record = make.training({"forward": 1.0}, speeds=[2.0] * 3 + [1e-9] * 12 + [1.0] * 8, seconds=23)
    assert training_window(record).seconds == pytest.approx(7.0)


def test_no_warm_up_is_cut_where_nothing_could_be_told_of_the_rest(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make.training({"forward": 1.0}, speeds=[0.5] * 3 + [1.0] * 3, seconds=6, ticks_per_s=100)
    assert training_window(record).seconds == pytest.approx(3.0)
    monkeypatch.setattr("stoker.diagnose.window.KEPT_S", 3.5)
    assert training_window(record).seconds == pytest.approx(6.0)


def test_a_process_without_rows_has_no_spans(make: Make) -> None:
    record = replace(make.training({"forward": 1.0}), seconds=(), marks=())
    assert spans(record) == []
    assert training_window(record).seconds == 0
