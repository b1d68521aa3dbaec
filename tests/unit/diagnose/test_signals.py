"""Signals are taken from a summary as they are; what is not known stays unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.taken import signals
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict
from stoker.model.finding import Outcome
from stoker.model.record import PHASES, Blocking, Sampled, Tick
from stoker.model.run import Run

Make = Any
Cards = Any
SHARES = {"data": 0.4, "forward": 0.3, "backward": 0.3}


def seen(run: Run) -> Signals:
    found = signals(summarise(run))
    assert found is not None
    return found


def test_on_a_cpu_a_phase_costs_its_own_time(make: Make) -> None:
    found = seen(make.run(make.training(SHARES)))
    assert found.gpu is None
    assert found.lost("data") == pytest.approx(0.4)
    assert found.lost_of == "time of the training thread"


def test_on_a_gpu_it_costs_the_idle_time_it_caused(make: Make, cards: Cards) -> None:
    lead = cards.lead({"data": (10.0, 2.0, 0.0, 0.0), "forward": (10.0, 0.0, 0.0, 0.0)})
    run = cards.run(make, SHARES, cards.record(cards.readings(60.0)), lead)
    found = seen(run)
    assert found.lost("data") == pytest.approx(0.08)
    assert found.lost_of == "GPU idle time"
    assert found.gpu is not None
    assert found.gpu.memory_frac == pytest.approx(6 / 141)


def test_how_much_of_the_own_code_lies_in_a_warm_up(make: Make) -> None:
    even = make.training({"other": 0.3, "forward": 0.7}, seconds=600)
    assert seen(make.run(even)).early_own_frac == 0.0
    slow_first = make.training({"other": 0.3, "forward": 0.7}, speeds=[0.5] * 200 + [1.0] * 400, seconds=600)
    assert seen(make.run(slow_first)).early_own_frac == pytest.approx(1 / 3, abs=0.03)


def test_a_hidden_wait_costs_nothing(make: Make, cards: Cards) -> None:
    lead = cards.lead({"data": (10.0, 0.1, 0.0, 0.0), "forward": (10.0, 0.0, 0.0, 0.0)})
    found = seen(cards.run(make, SHARES, cards.record(cards.readings(97.0)), lead))
    assert found.hidden == {"data"}
    assert found.lost("data") == 0.0


def test_too_few_looks_into_acting_leave_the_line_where_a_trained_model_was_asked(make: Make) -> None:
    asked = Sampled("infer", "train", make.place("/home/me/project/train.py:20 act"), 3)
    once = Sampled("infer", "train", make.place("/home/me/project/train.py:70 target"), 1)
    record = make.training(SHARES, acted=(once, asked))
    assert seen(make.run(record)).call_sites["infer"] == asked.place
    looked_at = make.looks({("infer", "train.py:30 act"): 50})
    site = seen(make.run(replace(record, sampled=looked_at))).call_sites["infer"]
    assert site.leaf is not None
    assert site.leaf[1] == 30


def edges(waits: list[float], make: Make, **loader: Any) -> Signals:
    record = make.training(SHARES, loaders=(make.loader(**loader),), workers=(make.worker(0), make.worker(1)))
    at = PHASES.index("data")
    ticks = tuple(
        replace(tick, phase_s=tuple(wait if n == at else 0.0 for n in range(len(PHASES))))
        for tick, wait in zip(record.ticks, waits * len(record.ticks), strict=False)
        if isinstance(tick, Tick)
    )
    return seen(make.run(replace(record, ticks=ticks)))


def test_waits_at_the_edges_of_epochs(make: Make) -> None:
    found = edges([0.9] + [0.001] * 99, make, epochs=12)
    assert found.edge_data_frac is not None
    assert found.edge_data_frac > 0.8
    assert found.edge_tick_frac == pytest.approx(0.01, rel=0.2)
    even = edges([0.01], make, epochs=12)
    assert even.edge_data_frac == pytest.approx(even.edge_tick_frac)


def test_reads_are_counted_by_the_tick(make: Make) -> None:
    blocking = (Blocking("sync", make.place("train.py:9 f"), 2402, 6.0),)
    found = seen(make.run(make.training({"sync": 0.1, "forward": 0.9}, blocking=blocking)))
    assert found.blocking[0].per_tick == pytest.approx(2.0, rel=0.01)


def test_under_a_launcher_the_training_itself_is_not_elsewhere(make: Make) -> None:
    host = make.host()
    readings = tuple(replace(row, descendants_cpu_s_total=3.0 * n) for n, row in enumerate(host.readings))
    busy = replace(host, readings=readings)
    assert seen(make.run(make.training(SHARES), host=busy)).elsewhere_cores == pytest.approx(3.0)
    assert seen(make.run(make.training(SHARES, pid=5555), host=busy)).elsewhere_cores is None


def test_without_a_training_it_cannot_be_told(make: Make) -> None:
    told = verdict(summarise(make.run()))
    assert told.outcome is Outcome.CANNOT_TELL
    assert verdict(summarise(make.run(make.training(SHARES, seconds=1)))).outcome is Outcome.CANNOT_TELL


@pytest.mark.parametrize(
    ("elements", "frac"), [({"cpu": 10, "cuda": 90}, 0.1), ({"cpu": 10}, 0.0), ({"cuda": 5}, 0.0), ({}, 0.0)]
)
def test_what_is_trained_on_the_cpu_beside_a_gpu(make: Make, elements: dict[str, int], frac: float) -> None:
    found = seen(make.run(make.training(SHARES, trained_elements=elements)))
    assert found.cpu_trained_frac == pytest.approx(frac)


def test_cores_elsewhere_are_counted_in_the_window_alone(make: Make) -> None:
    """Before it, a script may wait for long."""
    host = make.host()
    start_s = make.training(SHARES).marks[0].sums.t_s
    readings = tuple(
        replace(row, descendants_cpu_s_total=2.0 * max(0.0, row.t - start_s - 20.0)) for row in host.readings
    )
    slow = [0.2] * 20 + [1.0] * 40
    record = make.training(SHARES, speeds=slow)
    found = seen(make.run(record, host=replace(host, readings=readings)))
    whole = 2.0 * 43 / 63
    assert found.elsewhere_cores is not None
    assert found.elsewhere_cores > whole + 0.1


def test_copies_are_taken_from_a_deep_window_where_counters_cannot_tell_them(
    make: Make, cards: Cards
) -> None:
    lead = cards.lead({"forward": (10.0, 0.0, 0.0, 0.0)})
    found = seen(cards.run(make, SHARES, cards.record(cards.readings(60.0)), lead))
    assert found.gpu is not None
    assert found.gpu.copying_pct == 0.0
