"""How a run changed in its course: the stretches, what changed, when, and the words for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from stoker.diagnose import turns
from stoker.diagnose.causes.taken import signals
from stoker.diagnose.labels import moment
from stoker.diagnose.over_time import OverTime, over_time
from stoker.diagnose.stretches import cut, equal_edges, part_of
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict_on
from stoker.model.finding import Outcome
from stoker.model.lead import Lead
from stoker.model.record import PHASES, Mark, ProcessRecord, Second, Sums

Make = Any
Cards = Any
FED = {"data": 0.03, "forward": 0.40, "backward": 0.50, "other": 0.07}
STARVED = {"data": 0.28, "forward": 0.30, "backward": 0.37, "other": 0.05}
START_S = 1003.0


def course(
    make: Make, at: Callable[[int], tuple[Mapping[str, float], float]], seconds: int = 3600, **more: Any
) -> ProcessRecord:
    """A training whose shares and ticks a second are given for each second of it, with some noise."""
    plain = make.training(FED, seconds=2)
    spent, ticks, rows = dict.fromkeys(PHASES, 0.0), 0.0, []
    for second in range(seconds + 1):
        if second:
            shares, rate = at(second)
            ticks += rate * (1 + 0.01 * ((second * 7919) % 13 - 6) / 6)
            for name, share in shares.items():
                spent[name] += share
        content = Sums(START_S + second, tuple(spent.values()), int(ticks), int(32 * ticks), 0, int(ticks))
        rows.append(Second(content, "train", 0.0, 0.06, 0, 0.0))
    start = Mark("train", rows[0].sums)
    steps = (int(ticks),)
    record = replace(
        plain, seconds=tuple(rows), marks=(start,), ticks=(), optimizer_steps=steps, sequence=((0, steps[0]),)
    )
    return replace(record, **more)


def told(make: Make, record: ProcessRecord, **more: Any) -> OverTime:
    return over_time(summarise(make.run(record, **more)))


def slowed_from(second: int) -> Callable[[int], tuple[Mapping[str, float], float]]:
    return lambda now: (FED, 20.0) if now <= second else (STARVED, 14.8)


def test_what_changed_and_when(make: Make) -> None:
    found = told(make, course(make, slowed_from(2460)))
    assert found.sentence == (
        "From 41 min on, waiting for data rose from 3.0 % to 28 % of the time, and the speed fell from 20 to "
        "14.8 ticks/s."
    )
    assert found.course is not None
    assert [turn.at_s for turn in found.course.turns] == [pytest.approx(2460, abs=2)]
    assert found.cut_at == "changes of speed"
    assert any(period.from_s == pytest.approx(2460, abs=2) for period in found.periods)


def test_a_speed_that_goes_up_and_down_is_not_called_unchanged(make: Make) -> None:
    found = told(make, course(make, lambda now: (FED, 14.0 if now % 3 else 26.0), seconds=45))
    assert found.course is not None
    assert found.course.turns == ()
    assert found.sentence.startswith("No change that lasted was found: the speed stayed within ±")


def test_nothing_changed(make: Make) -> None:
    found = told(make, course(make, lambda _: (FED, 20.0)))
    assert found.sentence.startswith("Nothing changed: the speed stayed within ±")
    assert found.cut_at == "equal parts"
    assert len(found.periods) == 10
    lengths = {round(period.seconds) for period in found.periods}
    assert lengths == {360}


@pytest.mark.parametrize("seconds", [40, 90, 300, 3600])
@pytest.mark.parametrize("slower", [0.15, 0.3, 0.6])
def test_growth_is_told_as_growth_in_short_runs_too(make: Make, slower: float, seconds: int) -> None:
    def grows(second: int) -> tuple[Mapping[str, float], float]:
        more = 1 + slower * second / seconds
        return {"data": 0.03 / more, "forward": 0.6 / more, "other": 1 - 0.63 / more}, 20.0 / more

    found = told(make, course(make, grows, seconds))
    assert found.course is not None
    assert [turn.gradual for turn in found.course.turns] == [True]
    before_s, after_s = found.course.turns[0].tick_s()
    assert after_s / before_s == pytest.approx(1 + 0.9 * slower, rel=0.05), "between the tenths at its ends"
    assert "Python code outside the model rose little by little from 3" in found.sentence


@pytest.mark.parametrize("seconds", [90, 3600])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("slower", [0.08, 0.15, 0.3, 0.6])
def test_steps_are_no_growth(make: Make, steps: int, slower: float, seconds: int) -> None:
    """In one direction; where they are few."""

    def climbs(second: int) -> tuple[Mapping[str, float], float]:
        more = 1 + slower * min(steps, second * (steps + 1) // (seconds + 1))
        return {"data": 0.03 / more, "forward": 0.6 / more, "other": 1 - 0.63 / more}, 20.0 / more

    found = told(make, course(make, climbs, seconds))
    assert found.course is not None
    assert [turn.gradual for turn in found.course.turns] == [False] * steps if steps < 3 else [True]


def test_a_drift_is_no_step(make: Make) -> None:
    def drifts(second: int) -> tuple[Mapping[str, float], float]:
        grown = second / 3600
        return {"data": 0.03, "forward": 0.4 - 0.2 * grown, "other": 0.57 + 0.2 * grown}, 20.0 * (
            1 - grown / 2
        )

    found = told(make, course(make, drifts))
    assert found.course is not None
    assert [turn.gradual for turn in found.course.turns] == [True]
    assert "rose little by little" in found.sentence
    assert found.sentence.startswith("Over 60 min, Python code outside the model")


def test_all_phases_alike(make: Make) -> None:
    found = told(make, course(make, lambda now: (FED, 20.0 if now <= 1800 else 15.0)))
    assert found.sentence == ("From 30 min on the speed fell from 20 to 15 ticks/s, in all phases alike.")


def test_a_phase_that_is_most_of_the_tick_is_not_the_reason_for_every_change(make: Make) -> None:
    heavy = {"backward": 0.7, "forward": 0.2, "other": 0.1}
    found = told(make, course(make, lambda now: (heavy, 20.0 if now <= 1800 else 15.0)))
    assert found.sentence.endswith("in all phases alike.")
    slower = {"backward": 0.775, "forward": 0.15, "other": 0.075}
    found = told(make, course(make, lambda now: (heavy, 20.0) if now <= 1800 else (slower, 15.0)))
    assert "the backward pass rose from 70 % to 78 %" in found.sentence


def test_two_changes_with_nothing_between_them_are_one(make: Make) -> None:
    """Of different phases, two blocks apart: what lies between belongs to neither."""
    record = course(make, lambda now: (STARVED, 14.8) if now > 1860 else (FED, 20.0 if now <= 1800 else 16.0))
    assert told(make, record).sentence
    blocks = _blocks_of_a_minute(record)
    values = [block.content.t_s / block.content.ticks for block in blocks]
    cuts = sorted(turns._cuts(blocks, values, sum(values) / len(values)))
    assert cuts
    assert all(late - early >= 3 for early, late in pairwise([0, *cuts, len(blocks)]))


def _blocks_of_a_minute(record: ProcessRecord) -> list[Any]:
    return list(cut(record, equal_edges(record, 60)))


def test_a_bad_hour_that_ended(make: Make) -> None:
    found = told(make, course(make, lambda now: (STARVED, 14.8) if 900 < now <= 1500 else (FED, 20.0)))
    assert found.course is not None
    assert len(found.course.turns) == 2
    assert found.sentence.startswith(
        "It changed 2 times; the largest change: from 15 min on, waiting for data"
    )
    assert found.sentence.endswith(", until 25 min.")


def test_a_stretch_has_a_verdict_of_its_own(make: Make) -> None:
    loaders, workers = (make.loader(batches=62_640),), (make.worker(0), make.worker(1))
    found = told(make, course(make, slowed_from(1800), loaders=loaders, workers=workers))
    first, last = found.periods[0], found.periods[-1]
    assert (first.outcome, first.cause) == (Outcome.HEALTHY, None)
    assert (last.outcome, last.cause) == (Outcome.CAUSES, "SK102")
    assert first.phase_pct["data"] == pytest.approx(3)
    assert last.phase_pct["data"] == pytest.approx(28)
    assert first.throughput.ticks_per_s == pytest.approx(20, rel=0.01)


def test_stretches_between_which_nothing_changed_have_one_verdict(make: Make) -> None:
    """Each by itself lies now on this side of a threshold, now on that."""

    def at(second: int) -> tuple[Mapping[str, float], float]:
        data = 0.047 if second % 720 < 360 else 0.056
        return {"data": data, "forward": 0.36, "backward": 0.47, "other": 0.04, "sync": 0.13 - data}, 20.0

    more = {"loaders": (make.loader(batches=72_000),), "workers": (make.worker(0), make.worker(1))}
    record = course(make, at, **more)
    summary = summarise(make.run(record))
    found = over_time(summary)
    assert found.sentence.startswith("Nothing changed")
    by_themselves = {
        verdict_on(signals(part_of(summary, START_S + one.from_s, START_S + one.to_s))).outcome
        for one in found.periods
    }
    assert len(by_themselves) == 2, "what this test is for"
    assert {one.outcome for one in found.periods} == {verdict_on(signals(summary)).outcome}


def test_a_stretch_with_evaluations_has_its_own(make: Make) -> None:
    """None in the first half; then as long as the training between them."""
    record = course(make, lambda now: ({}, 0.0) if now > 1800 and now % 20 >= 10 else (FED, 20.0))
    marks = [Mark("train", record.seconds[0].sums)]
    for start in range(1809, 3600, 20):
        marks += [Mark("eval", record.seconds[start].sums), Mark("train", record.seconds[start + 10].sums)]
    found = told(make, replace(record, marks=tuple(marks)))
    assert found.sentence.startswith("Nothing changed")
    assert [one.cause for one in found.periods] == [None] * 6 + ["SK204"] * 4


def test_the_stretches_are_the_whole(make: Make) -> None:
    record = course(make, slowed_from(1000), seconds=1234)
    found = told(make, record)
    assert record.last is not None
    assert sum(period.seconds for period in found.periods) == pytest.approx(1234)
    assert sum(period.ticks for period in found.periods) == record.last.ticks
    assert 5 <= len(found.periods) <= 12


def test_evaluations_lie_between(make: Make) -> None:
    """Ten minutes of training, a minute of evaluation, six times."""
    record = course(make, lambda now: ({}, 0.0) if now % 660 >= 600 else (FED, 20.0), seconds=3959)
    marks = [Mark("train", record.seconds[0].sums)]
    for start in range(600, 3959, 660):
        marks.append(Mark("eval", record.seconds[start - 1].sums))
        if start + 59 < 3959:
            marks.append(Mark("train", record.seconds[start + 59].sums))
    found = told(make, replace(record, marks=tuple(marks)))
    assert found.sentence.startswith("Nothing changed")
    assert all(period.throughput.ticks_per_s == pytest.approx(20, rel=0.02) for period in found.periods)
    assert sum(period.stages_s.get("eval", 0.0) for period in found.periods) == pytest.approx(300, abs=10)


@pytest.mark.parametrize(("seconds", "rate"), [(12, 20.0), (300, 0.1)])
def test_too_short_says_so(make: Make, seconds: int, rate: float) -> None:
    found = told(make, course(make, lambda _: (FED, rate), seconds=seconds))
    assert found.periods == ()
    assert "too few to be followed over time" in found.sentence


def test_without_training_there_is_nothing(make: Make) -> None:
    assert over_time(summarise(make.run())).sentence.startswith("No training step was seen")


def test_equal_edges_leave_evaluations_out(make: Make) -> None:
    record = make.training(FED, seconds=30)
    marks = (record.marks[0], Mark("eval", record.seconds[10].sums), Mark("train", record.seconds[20].sums))
    cut_up = replace(record, marks=marks)
    edges = equal_edges(cut_up, 4)
    assert [edge - START_S for edge in edges] == [0, 5, 10, 25, 30]
    assert [one.content.t_s for one in cut(cut_up, edges)] == [5, 5, 5, 5]


def test_the_gpu_of_a_stretch(make: Make, cards: Cards) -> None:
    """Counters and the account of idle time are the stretch's own."""
    rows = cards.readings(90.0)
    rows = tuple(replace(row, busy_pct=40.0) if row.t > START_S + 30 else row for row in rows)
    early = cards.lead({"data": (1.0, 0.1, 0.0, 0.0), "forward": (9.0, 0.0, 0.0, 0.0)}, iterations=100)
    late = cards.lead({"data": (7.0, 6.1, 0.0, 0.0), "forward": (13.0, 0.0, 0.0, 0.0)}, iterations=200)
    leads: tuple[tuple[float, Lead], ...] = ((START_S + 30, early), (START_S + 60, late))
    run = cards.run(make, {"data": 0.5, "forward": 0.5}, cards.record(rows), late, leads=leads)
    summary = summarise(run)
    first = part_of(summary, START_S, START_S + 30).main
    second = part_of(summary, START_S + 30, START_S + 60).main
    assert first is not None
    assert second is not None
    uses = [one.gpus.main for one in (first, second)]
    assert [use.budget.busy_pct for use in uses if use] == [
        pytest.approx(90, abs=2),
        pytest.approx(40, abs=2),
    ]
    leads_seen = [use.lead.phases["data"] for use in uses if use and use.lead]
    assert leads_seen[0].idle_s == pytest.approx(0.1)
    assert leads_seen[1].idle_s == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(41.4, "41 s"), (2460, "41 min"), (34560, "9 h 36 min"), (7199, "2 h 00 min")]
)
def test_moments(seconds: float, text: str) -> None:
    assert moment(seconds) == text
