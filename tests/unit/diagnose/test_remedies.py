"""Folk remedies: answered where a signal speaks against them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.remedies import Remedy, not_worth_trying
from stoker.diagnose.summary import summarise
from stoker.model.run import Run

Make = Any
Cards = Any
FED = {"data": 0.03, "forward": 0.5, "backward": 0.47}
STARVED = {"data": 0.55, "forward": 0.20, "backward": 0.25}
RL = {"env": 0.3, "infer": 0.1, "forward": 0.3, "backward": 0.3}


def told(run: Run) -> dict[str, Remedy]:
    return {one.name: one for one in not_worth_trying(summarise(run))}


def off_policy(make: Make, calls: int, updates: int) -> Run:
    """`updates` updates after each `calls` env calls of one environment."""
    record = make.training(RL, env_steps_per_tick=calls / updates)
    rows = tuple(replace(row, env_calls=row.sums.env_steps) for row in record.seconds)
    sequence = (("e", calls), (0, updates)) * 40
    return make.run(replace(record, seconds=rows, sequence=sequence))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("calls", "updates", "ratio"), [(10, 10, 1), (5, 20, 4)])
def test_as_many_updates_as_env_steps_in_bursts(make: Make, calls: int, updates: int, ratio: int) -> None:
    found = told(off_policy(make, calls, updates))["update_interval"]
    assert f"{updates} updates follow {calls} env steps: {ratio} per env step" in found.says
    assert found.value == pytest.approx(ratio)


@pytest.mark.parametrize(("calls", "updates"), [(1, 1), (128, 16), (10, 13)])
def test_other_rhythms_are_no_update_interval(make: Make, calls: int, updates: int) -> None:
    assert "update_interval" not in told(off_policy(make, calls, updates))


def loading(make: Make, busy_pct: float, shares: dict[str, float] = STARVED, **loader: Any) -> Run:
    host = make.host()
    readings = tuple(replace(row, allowed_cpu_pct=busy_pct) for row in host.readings)
    record = make.training(
        shares,
        loaders=(make.loader(**loader),),
        workers=(make.worker(0, cpu_s=56.0), make.worker(1, cpu_s=56.0)),
    )
    return make.run(record, host=replace(host, readings=readings))  # type: ignore[no-any-return]


def test_more_workers_on_exhausted_cores(make: Make) -> None:
    found = told(loading(make, 98.0))
    assert found["num_workers"].says == "the 8 cores it may use are in use 98 % of the time"
    assert found["batch_size"].says.startswith("utilisation may rise, throughput not: the loader delivers 67")
    assert found["batch_size"].unit == "samples/s"


def test_more_workers_are_right_where_cores_are_free(make: Make) -> None:
    assert "num_workers" not in told(loading(make, 30.0))


def test_a_longer_queue_runs_dry_as_well(make: Make) -> None:
    assert "empty at 70 %" in told(loading(make, 30.0, batches=3000))["prefetch_factor"].says
    assert "prefetch_factor" not in told(loading(make, 30.0, batches=3000, empty_frac=0.1))


def test_workers_that_deliver_enough(make: Make) -> None:
    shares = {"data": 0.002, "forward": 0.598, "backward": 0.4}
    assert told(loading(make, 30.0, shares, batches=300))["num_workers"].value == pytest.approx(0.2)
    assert "num_workers" not in told(loading(make, 30.0, {**shares, "data": 0.04}, batches=300))


def test_a_larger_batch_does_not_speed_up_an_environment(make: Make) -> None:
    busy = {"env": 0.6, "infer": 0.1, "forward": 0.1, "backward": 0.2}
    assert told(make.run(make.training(busy)))["batch_size"].value == pytest.approx(60)
    assert "batch_size" not in told(off_policy(make, 1, 1)), "the other 70 % may gain by it"


def test_pinning_without_copies(make: Make, cards: Cards) -> None:
    assert "no GPU" in told(loading(make, 30.0, FED, pin_memory=True))["pin_memory"].says
    assert "pin_memory" not in told(loading(make, 30.0, FED, pin_memory=False))
    lead = cards.lead({"forward": (10.0, 0.0, 0.0, 0.0), "h2d": (0.02, 0.0, 0.0, 0.0)})
    small = {"h2d": 0.002, "forward": 0.998}
    run = cards.run(make, small, cards.record(cards.readings(97.0)), lead, loaders=(make.loader(),))
    assert told(run)["pin_memory"].value == pytest.approx(0.2)


def test_faster_kernels_for_an_idle_gpu(make: Make, cards: Cards) -> None:
    shares = {"env": 0.9, "forward": 0.1}
    lead = cards.lead({"env": (9.0, 9.0, 0.0, 0.0), "forward": (1.0, 0.0, 0.0, 0.0)})
    idle = told(cards.run(make, shares, cards.record(cards.readings(6.0)), lead))
    assert "at most 1.06×" in idle["faster_kernels"].says
    busy = told(cards.run(make, shares, cards.record(cards.readings(40.0)), lead))
    assert "faster_kernels" not in busy


@pytest.mark.parametrize(("held", "shown"), [((4, 2), True), ((2, 4, 5, 6), False), ((4, 4), False)])
def test_memory_given_back_at_every_tick(
    make: Make, cards: Cards, held: tuple[int, ...], shown: bool
) -> None:
    sizes = [held[min(n, len(held) - 1)] if len(held) > 2 else held[n % 2] for n in range(20)]
    devices = tuple(
        replace(cards.use(reserved_bytes=size << 30), t_s=1003.0 + n) for n, size in enumerate(sizes)
    )
    lead = cards.lead({"forward": (10.0, 0.0, 0.0, 0.0)})
    run = cards.run(make, {"forward": 1.0}, cards.record(cards.readings(50.0)), lead, devices=devices)
    assert ("empty_cache" in told(run)) is shown


def test_running_out_of_memory_is_no_empty_cache(make: Make, cards: Cards) -> None:
    devices = tuple(
        replace(cards.use(reserved_bytes=(4 - n % 2 * 2) << 30, retries=n), t_s=1003.0 + n) for n in range(20)
    )
    lead = cards.lead({"forward": (10.0, 0.0, 0.0, 0.0)})
    run = cards.run(make, {"forward": 1.0}, cards.record(cards.readings(50.0)), lead, devices=devices)
    assert "empty_cache" not in told(run)


def test_none_where_none_applies(make: Make) -> None:
    assert told(make.run(make.training({"forward": 0.5, "backward": 0.3, "other": 0.2}))) == {}


def test_nothing_is_said_of_a_run_too_short(make: Make) -> None:
    assert told(make.run(make.training(RL, seconds=1))) == {}
