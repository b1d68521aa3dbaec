"""A condition in the user's words, and the window it opens."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.diagnose.chosen import choose, number_ticks, parse_bounds
from stoker.diagnose.gate import FIELDS, NumberedTick, parse_gate
from stoker.diagnose.window import training_window
from stoker.errors import UsageError
from stoker.model.record import PHASES, Tick
from stoker.report.chosen_block import chosen_block

Make = Any
EXAMPLES = int(os.environ.get("STOKER_FUZZ", "200"))


def tick(number: int = 1, took_s: float = 0.1, **phase_s: float) -> NumberedTick:
    spent = tuple(phase_s.get(name, 0.0) for name in PHASES)
    return NumberedTick(number, number * took_s, Tick(number * took_s, took_s, 0, spent))


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("iter >= 120", tick(120), tick(119)),
        ("data_time < 0.02", tick(data=0.019), tick(data=0.02)),
        ("data_s <= 20ms", tick(data=0.02), tick(data=0.021)),
        ("data_frac > 50 %", tick(data=0.06), tick(data=0.05)),
        ("iter>=5 and data_time<0.02", tick(5), tick(5, data=0.1)),
        ("iter < 3 or iter > 7 and tick_s < 1", tick(2, 5.0), tick(8, 5.0)),
        ("(iter < 3 or iter > 7) and tick_s < 1", tick(8), tick(2, 5.0)),
        ("not (env_time > 0.01 or iter != 4)", tick(4), tick(5)),
        ("TIME_S == .5 AND Forward_S > 1e-3", tick(5, forward=0.01), tick(5)),
    ],
)
def test_conditions(text: str, true: NumberedTick, false: NumberedTick) -> None:
    gate = parse_gate(text)
    assert gate.lasting == 1
    assert gate.condition(true)
    assert not gate.condition(false)


def untold(number: int = 1, took_s: float = 0.1) -> NumberedTick:
    """Its phases were not told apart."""
    return NumberedTick(number, number * took_s, Tick(number * took_s, took_s, 0, None))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("data_time < 0.2", True),  # it took no longer than the tick
        ("data_time >= 0", True),
        ("data_time > 0.2", False),
        ("data_time < 0.02", None),
        ("not data_time < 0.02", None),
        ("data_time == 0.05", None),
        ("data_time != 0.05", None),
        ("data_time == 0.2", False),
        ("data_frac <= 100 %", True),
        ("data_frac < 50 %", None),
        ("data_time < 0.02 or iter == 1", True),
        ("data_time < 0.02 and iter == 1", None),
        ("data_time < 0.02 and iter > 1", False),
        ("tick_s < 0.2", True),
    ],
)
def test_what_can_be_told_of_a_tick_whose_phases_are_unknown(text: str, holds: bool | None) -> None:
    assert parse_gate(text).condition(untold()) is holds


def test_ticks_of_which_it_cannot_be_told_count_neither_for_a_gate_nor_against_it() -> None:
    gate = parse_gate("iter >= 3 and data_time < 0.02 for 3")
    ticks = [tick(n, data=0.1 if n == 9 else 0.0) if n % 3 == 0 else untold(n) for n in range(1, 30)]
    assert gate.opens(ticks) == 18, "12, 15 and 18: it was 0.1 s at 9"
    assert gate.longest(ticks[:16]) == 2
    assert gate.told(ticks[:9]) == [False, False, True, True, False], "1 and 2 are below 3 either way"


def test_how_many_ticks_a_figure_is_of_is_said(make: Make) -> None:
    record = make.training({"data": 0.1, "forward": 0.9}, seconds=60)
    ticks = [one if n % 4 == 0 else replace(one, phase_s=None) for n, one in enumerate(record.ticks)]
    window = training_window(record)
    found = choose(record, window, ticks, parse_gate("data_time < 0.02 for 5"), None)
    assert found.quoted is not None
    assert (found.quoted.held_frac, found.quoted.first_tick) == (1.0, ticks.index(ticks[16]) + 3)
    assert found.quoted.told_ticks == pytest.approx(found.quoted.ticks / 4, abs=1)
    (block,) = chosen_block(found)
    assert f"on 100 % of the {found.quoted.told_ticks:,} of these ticks of which" in str(block)
    shut = choose(record, window, ticks, parse_gate("data_time > 0.02"), None)
    assert "(of 900 its phases were not told apart)" in shut.reason
    none = [replace(one, phase_s=None) for one in record.ticks]
    opened = choose(record, window, none, parse_gate("iter == 5 or data_time < 0.02"), parse_bounds("2s"))
    assert opened.quoted is not None
    assert opened.quoted.held_frac is None
    assert "of none of these ticks it can be told" in str(chosen_block(opened))
    assert "not told apart in any of these ticks" in str(chosen_block(opened))
    longer = choose(record, window, none, None, parse_bounds("10s")).quoted
    assert longer is not None
    assert longer.phase_pct["data"] == pytest.approx(10.0), "of the rows a second"


def test_it_opens_after_as_many_ticks_in_a_row() -> None:
    gate = parse_gate("iter >= 3 and data_time < 0.02 for 3 ticks")
    slow = {5, 9}
    ticks = [tick(n, data=0.1 if n in slow else 0.0) for n in range(1, 20)]
    assert gate.lasting == 3
    assert gate.opens(ticks) == 8, "ticks 6, 7 and 8"
    assert gate.opens(ticks[:7]) is None
    assert gate.longest(ticks[:7]) == 2


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "ends too early"),
        ("loss < 3", "loss is not a recorded field"),
        ("iter", "ends too early"),
        ("iter >= data_s", "compared with a number"),
        ("iter = 5", "cannot be read from here on"),
        ("iter >= 5 for", "ends too early"),
        ("iter >= 5 for 2.5", "whole number"),
        ("iter >= 5 for 0", "whole number"),
        ("iter >= 5 for 5 s", "whole number"),
        ("iter >= 5 iter < 9", "expected and, or, for"),
        ("(iter >= 5", "not closed"),
        ("iter >= 5 for 3 ticks and iter < 9", "nothing may follow"),
        ("__import__('os')", "cannot be read from here on"),
        ("iter >= 5; import os", "cannot be read from here on"),
        ("(" * 400 + "iter > 1" + ")" * 400, "too deeply nested"),
    ],
)
def test_what_is_no_gate_is_told_with_the_known_fields(text: str, seen: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_gate(text)
    assert seen in raised.value.seen
    assert all(name in raised.value.hint for name in FIELDS)
    assert raised.value.exit_code == 2


WORDS = st.sampled_from(
    [*FIELDS, "and", "or", "not", "for", "(", ")", "<", ">=", "==", "5", "0.02", "%", "ms", "é"]
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize="STOKER_FUZZ" not in os.environ)
@given(st.one_of(st.lists(WORDS, max_size=14).map(" ".join), st.text(max_size=40)))
def test_any_text_is_a_gate_or_a_usage_error(text: str) -> None:
    try:
        gate = parse_gate(text)
    except UsageError:
        return
    assert gate.condition(tick()) in (True, False)
    assert gate.condition(untold()) in (True, False, None)


@pytest.mark.parametrize(
    "text", ["", "60", "60m", "s", "0s", "..", "5s..", "180s..60s", "9..9", "-1..5", "1s..2"]
)
def test_what_is_no_window_is_told(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_bounds(text)
    assert "--window 60s" in raised.value.hint


def test_a_window_has_the_statistics_people_quote(make: Make) -> None:
    record = make.training({"data": 0.25, "forward": 0.75}, speeds=[1.0] * 30 + [0.5] * 30)
    found = choose(record, training_window(record), record.ticks, None, parse_bounds("10s..20s")).quoted
    assert found is not None
    assert found.ticks == 200
    assert (found.first_tick, found.last_tick) == (202, 401), "the first tick is the end of startup"
    assert found.ticks_per_s == pytest.approx(20.0)
    assert found.samples_per_s == pytest.approx(640.0)
    assert found.mean_ms == pytest.approx(found.median_ms) == pytest.approx(50.0)
    assert found.cv_frac == pytest.approx(0.0, abs=1e-6)
    assert found.phase_pct["data"] == pytest.approx(25.0)
    assert found.held_frac is None
    both = choose(record, training_window(record), record.ticks, None, parse_bounds("20s..40s")).quoted
    assert both is not None
    assert both.ticks_per_s == pytest.approx(15.0), "items over time"
    assert both.mean_ms == pytest.approx(1000 / 15)
    assert both.median_ms == pytest.approx(50.0)
    assert both.p95_ms == pytest.approx(100.0)
    assert both.cv_frac == pytest.approx(0.354, abs=0.01)


def test_env_steps_are_quoted_over_whole_rollouts_only(make: Make) -> None:
    """Within one update of PPO there are none, and the mean of a tick would invent some."""
    record = make.training({"forward": 1.0}, env_steps_per_tick=32.0)
    rollouts = (("e", 128), (0, 40)) * 30

    def quoted(bounds: str) -> float | None:
        own = replace(record, sequence=rollouts)
        found = choose(own, training_window(own), own.ticks, None, parse_bounds(bounds)).quoted
        assert found is not None
        return found.env_steps_per_s

    assert quoted("500..512") is None
    assert quoted("500..800") == pytest.approx(20 * 32, rel=0.01)


def test_ticks_by_number(make: Make) -> None:
    record = make.training({"forward": 1.0})
    found = choose(record, training_window(record), record.ticks, None, parse_bounds("500..700")).quoted
    assert found is not None
    assert (found.first_tick, found.last_tick, found.ticks) == (501, 700, 200)


def test_a_length_begins_where_the_gate_opens(make: Make) -> None:
    record = make.training({"forward": 1.0}, speeds=[0.5] * 20 + [1.0] * 40)
    gate = parse_gate("iter >= 120 and tick_s < 0.06 for 5")
    chosen = choose(record, training_window(record), record.ticks, gate, parse_bounds("10s"))
    found = chosen.quoted
    assert found is not None
    assert found.from_s == pytest.approx(20.25), "five fast ticks after the slow twenty seconds"
    assert found.to_s == pytest.approx(30.25)
    assert found.held_frac == 1.0
    assert chosen.reason == ""


def test_a_gate_that_stays_shut_says_how_near_it_came(make: Make) -> None:
    record = make.training({"forward": 1.0}, seconds=30)
    chosen = choose(record, training_window(record), record.ticks, parse_gate("iter > 590 for 100"), None)
    assert chosen.quoted is None
    assert chosen.reason == (
        "the gate never opened in 600 recorded ticks; at most 11 in a row fulfil it, 100 are asked for"
    )


def test_ticks_of_a_long_run_keep_their_numbers(make: Make) -> None:
    """The files have the first minute and the last ones: what lies between cannot be quoted."""
    record = make.training({"forward": 1.0}, seconds=900)
    late = [
        replace(record.ticks[0], end_s=1003 + 700 + (n + 1) / 20, duration_s=0.05) for n in range(200 * 20)
    ]
    ticks = (*record.ticks, *late)
    numbers = [one.number for one in number_ticks(record, ticks)]
    assert numbers[:1200] == list(range(2, 1202))
    assert numbers[1200:] == list(range(14_002, 18_002))
    window = training_window(record)
    gap = choose(record, window, ticks, None, parse_bounds("300s..400s"))
    assert gap.quoted is None
    assert gap.reason.endswith("in the files: ticks 2 to 1,201, ticks 14,002 to 18,001")
    partly = choose(record, window, ticks, None, parse_bounds("30s..800s"))
    assert "lack ticks in between" in partly.reason
