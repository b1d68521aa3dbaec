"""The budget of a GPU, from figures made by hand: known answers, missing sources; it is always 100 %."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.diagnose.deep import Collectives, DeviceUse, Gaps, RealWork
from stoker.diagnose.gpu_budget import GpuBudget, Kind, gpu_budget
from stoker.diagnose.gpu_causes import Known, Source
from stoker.diagnose.gpu_view import GpuView, Sharing
from stoker.model.lead import Lead, PhaseLead
from stoker.model.record import PHASES

NOTHING: dict[str, Any] = {field.name: None for field in fields(GpuView)}


def counted(busy_pct: float | None, source: str = "gpm", **more: Any) -> GpuView:
    settings = {**NOTHING, "throttled_by": (), "sharing": Sharing(False), "missing": (), "unverified": False}
    return GpuView(**{**settings, "busy_pct": busy_pct, "busy_source": source, **more})


def lead(by: str = "events", **phases: tuple[float, float, float, float]) -> Lead:
    """Seconds of the host, idle, near, unknown."""
    rows = {name: PhaseLead(*seconds) for name, seconds in phases.items()}
    return Lead(by, 0, 0, 1, 100, 100, 10.0, 0.0, 0.0, rows)


def deep(
    by_phase_s: dict[str, float],
    *,
    busy_frac: float = 0.5,
    ticks: int = 20,
    real: float | None = None,
    seen: tuple[str, ...] = (),
    long: dict[str, float] | None = None,
) -> DeviceUse:
    """A window of a second."""
    total_s = sum(by_phase_s.values())
    return DeviceUse(
        device=0,
        seconds=1.0,
        busy_frac=busy_frac,
        kernel_busy_frac=busy_frac,
        streams=(),
        kernels=100,
        kernels_per_tick=100 / ticks if ticks else None,
        busy_per_tick_s=busy_frac / ticks if ticks else None,
        median_kernel_us=5.0,
        short_kernel_frac=1.0,
        gaps=Gaps(10, total_s, 0, 0.0, by_phase_s, long_by_phase_s=long or {}),
        copies=(),
        collectives=Collectives(0, 0.0, 0.0),
        real_work=RealWork(real, None, 100),
        top=(),
        ticks=ticks,
        host_s=dict.fromkeys(seen, 0.1),
    )


def shares(budget: GpuBudget) -> dict[str, float]:
    found = {part.phase or str(part.kind): round(part.pct, 1) for part in budget.parts}
    assert sum(part.pct for part in budget.parts) == pytest.approx(100, abs=1e-6)
    return found


def cause(budget: GpuBudget, phase: str) -> Any:
    return next(one for one in budget.phases if one.phase == phase)


ENV_HOST = {"env": 51.8, "forward": 18.0, "backward": 20.0, "optim": 6.0, "sync": 4.2}


def test_an_env_after_a_read_of_the_loss_has_all_idle_time_of_its_phase() -> None:
    told = lead(
        by="asked",
        env=(5.18, 5.18, 0, 0),
        forward=(1.8, 0, 1.8, 0),
        backward=(2.0, 0, 2.0, 0),
        optim=(0.6, 0, 0.6, 0),
        sync=(0.42, 0, 0, 0),
    )
    budget = gpu_budget(ENV_HOST, counted(34.1, sm_active_pct=10.0), told)
    assert shares(budget) == {
        "real work": 10.0, "busy with little work": 24.1, "env": 51.8, "launching": 14.1
    }  # fmt: skip
    assert budget.idle_by_phase_pct["env"] == pytest.approx(51.8)
    assert budget.idle_by_phase_pct["backward"] == 0.0
    assert (cause(budget, "env").known, cause(budget, "env").source) == (Known.MEASURED, Source.ASKED)
    assert cause(budget, "backward").launching_pct == pytest.approx(14.1 * 20 / 44)
    assert budget.contradiction == ""


def test_a_wait_for_data_under_the_gpus_queue_is_hidden() -> None:
    host = {"data": 40.8, "h2d": 10.0, "forward": 20.0, "backward": 25.0, "optim": 4.2}
    told = lead(
        data=(4.08, 0.06, 0, 0),
        h2d=(1.0, 0, 0, 0),
        forward=(2, 0, 0, 0),
        backward=(2.5, 0, 0, 0),
        optim=(0.4, 0, 0, 0),
    )
    budget = gpu_budget(host, counted(87.1), told)
    assert cause(budget, "data").idle_pct == pytest.approx(0.6)
    assert cause(budget, "data").hidden
    assert shares(budget) == {"busy": 87.1, "data": 0.6, "idle, cause unknown": 12.3}


def test_many_small_layers_are_launching() -> None:
    host = {"forward": 38.0, "backward": 46.0, "optim": 14.0, "other": 2.0}
    told = lead(
        forward=(3.8, 0, 3.8, 0),
        backward=(4.6, 0, 4.6, 0),
        optim=(1.4, 0, 1.4, 0),
        other=(0.2, 0, 0.2, 0),
    )
    budget = gpu_budget(host, counted(20.4, sm_active_pct=1.2), told)
    assert budget.launching_pct == pytest.approx(79.6)
    assert budget.unknown_idle_pct == pytest.approx(0.0)
    assert next(part for part in budget.parts if part.kind is Kind.LAUNCHING).known is Known.INFERRED


def test_an_env_on_the_gpu_is_not_idle() -> None:
    host = {"env": 50.0, "forward": 25.0, "backward": 25.0}
    told = lead(env=(5, 0, 0, 0), forward=(2.5, 0, 0, 0), backward=(2.5, 0, 0, 0))
    budget = gpu_budget(host, counted(98.0), told)
    assert budget.idle_by_phase_pct["env"] == 0.0
    assert shares(budget) == {"busy": 98.0, "idle, cause unknown": 2.0}


def test_launching_is_no_longer_than_the_phases_that_launch() -> None:
    budget = gpu_budget(
        {"forward": 10.0, "other": 50.0, "sync": 40.0},
        counted(50.0),
        lead(forward=(1, 0, 1, 0), other=(5, 1, 0, 4)),
    )
    assert shares(budget) == {"busy": 50.0, "other": 10.0, "launching": 10.0, "idle, cause unknown": 30.0}
    assert "somewhere in other" in budget.unknown_reason
    assert cause(budget, "other").doubt_pct == pytest.approx(30.0)  # not more than is unexplained


def test_the_share_of_a_phase_is_that_of_the_window_not_of_the_iterations_looked_at() -> None:
    budget = gpu_budget({"env": 20.0, "forward": 80.0}, counted(60.0), lead(env=(8, 4, 0, 0)))
    assert budget.idle_by_phase_pct == {"env": pytest.approx(10.0), "forward": None}
    assert cause(budget, "forward").known is Known.UNKNOWN


def test_without_counters_only_the_measured_idle_time_is_known() -> None:
    told = lead(env=(5.18, 5.18, 0, 0), forward=(1.8, 0, 1.8, 0))
    for view in (None, counted(None)):
        budget = gpu_budget(ENV_HOST, view, told)
        assert shares(budget) == {"env": 51.8, "busy or idle, unknown": 48.2}
        assert (budget.busy_pct, budget.idle_pct, budget.launching_pct, budget.unknown_idle_pct) == (
            None,
        ) * 4


def test_a_wait_longer_than_the_gpu_is_busy_leaves_it_idle_whatever_was_sampled() -> None:
    """76 % of the time in data and a GPU busy for 33 %: 43 % at least are both."""
    host = {"data": 76.0, "forward": 8.0, "backward": 16.0}
    told = lead(data=(0.012, 0, 0, 0), forward=(0.02, 0, 0, 0), backward=(0.08, 0, 0, 0))
    for seen in (told, None):
        budget = gpu_budget(host, counted(33.0), seen)
        assert shares(budget) == {"busy": 33.0, "data": 43.0, "idle, cause unknown": 24.0}
        assert (cause(budget, "data").known, cause(budget, "data").source) == (Known.INFERRED, Source.GPM)
    launching = gpu_budget({"other": 90.0, "forward": 10.0}, counted(40.0), lead(other=(9, 0, 9, 0)))
    assert shares(launching) == {"busy": 40.0, "launching": 60.0}


def test_gaps_too_long_for_a_launch_are_none() -> None:
    """The lead saw that the model's calls leave the GPU nothing, and took them for launches."""
    told, host = lead(infer=(6, 0, 4, 0), forward=(4, 0, 1, 0)), {"infer": 60.0, "forward": 40.0}
    found = deep({"infer": 0.45, "forward": 0.1}, seen=("infer", "forward"), long={"infer": 0.35})
    plain = gpu_budget(host, counted(50.0), told, deep({"infer": 0.45, "forward": 0.1}), usual_tick_s=0.05)
    assert shares(plain) == {"busy": 50.0, "launching": 50.0}
    budget = gpu_budget(host, counted(50.0), told, found, usual_tick_s=0.05)
    assert shares(budget) == {"busy": 50.0, "infer": 35.0, "launching": 15.0}
    assert (cause(budget, "infer").known, cause(budget, "infer").source) == (Known.INFERRED, Source.DEEP)


def test_a_stall_that_no_sample_had_takes_the_idle_time_that_is_left() -> None:
    """A checkpoint every few hundred ticks falls between the iterations looked at."""
    host = {"other": 40.0, "forward": 32.0, "save": 28.0}
    budget = gpu_budget(host, counted(40.0), lead(other=(4, 0, 2, 0), forward=(3, 0, 0, 0)))
    assert shares(budget) == {"busy": 40.0, "save": 28.0, "launching": 20.0, "idle, cause unknown": 12.0}
    assert (cause(budget, "save").known, cause(budget, "save").source) == (Known.INFERRED, Source.GPM)
    full = gpu_budget(host, counted(90.0), lead(other=(4, 0, 2, 0), forward=(3, 0, 0, 0)))
    assert shares(full) == {"busy": 90.0, "save": 10.0}
    seen = gpu_budget(host, counted(40.0), lead(other=(4, 0, 2, 0), save=(3, 0, 0, 0)))
    assert seen.idle_by_phase_pct["save"] == 0.0, "it was looked at: it lies under the GPU's work"


def test_a_stall_of_which_the_counters_prove_a_part_has_all_of_it() -> None:
    """43 % in torch.compile on a GPU that idles for 60 %: 3 % of that is proven by the two figures alone."""
    found = gpu_budget({"compile": 43.0, "forward": 57.0}, counted(40.0), lead(forward=(1.0, 0.0, 0.0, 0.0)))
    assert shares(found) == {"busy": 40.0, "compile": 43.0, "idle, cause unknown": 17.0}


def test_a_stall_of_which_samples_had_the_short_ones_has_what_nothing_else_explains() -> None:
    """Small functions are compiled in every tick, under the GPU's queue; a large one now and then."""
    phase_pct = {"compile": 61.0, "backward": 24.0, "forward": 15.0}
    seen = lead(compile=(3.3, 0.2, 0, 0), backward=(2.2, 0, 0.2, 0), forward=(1.1, 0, 0, 0))
    found = gpu_budget(phase_pct, counted(60.0), seen)
    assert shares(found) == {"busy": 60.0, "compile": 37.8, "launching": 2.2}
    assert (cause(found, "compile").known, cause(found, "compile").source) == (Known.INFERRED, Source.GPM)
    little = shares(gpu_budget(phase_pct, counted(75.0), seen))
    assert little["compile"] < 4, "a fifth may be anything"
    launches = lead(compile=(0.8, 0, 0.4, 0), backward=(5, 0, 0.5, 0), forward=(4.2, 0, 0, 0))
    most = gpu_budget({"compile": 40.0, "backward": 40.0, "forward": 20.0}, counted(20.0), launches)
    assert cause(most, "compile").caused_pct <= 40.0


def test_a_loop_of_small_kernels_in_the_users_own_code_is_launching() -> None:
    """To the lead it is code that gives the GPU nothing; a deep window finds many short gaps."""
    phase_pct, seen = {"other": 60.0, "forward": 40.0}, lead(other=(1.0, 0.8, 0.0, 0.0))
    looped = deep({"other": 0.5}, long={"other": 0.01})
    found = gpu_budget(phase_pct, counted(52.0), seen, looped, 0.05)
    assert shares(found)["launching"] == pytest.approx(47.0)
    elsewhere = deep({"other": 0.002}, long={})
    assert shares(gpu_budget(phase_pct, counted(52.0), seen, elsewhere, 0.05))["other"] > 47.0, "not in it"
    computes = gpu_budget(phase_pct, counted(52.0), seen, deep({"other": 0.5}, long={"other": 0.4}), 0.05)
    assert shares(computes)["other"] == pytest.approx(48.0)


def test_gaps_in_the_middle_of_a_phase_are_told_where_the_lead_leaves_most_unexplained() -> None:
    phase_pct = {"backward": 70.0, "other": 30.0}
    seen, gaps = (
        lead(backward=(1.0, 0.0, 0.0, 0.0)),
        deep({"backward": 0.3, "other": 0.1}, long={"other": 0.1}),
    )
    found = shares(gpu_budget(phase_pct, counted(60.0), seen, gaps, 0.05))
    assert found == {"busy": 60.0, "other": 10.0, "launching": 30.0}
    few = deep({"backward": 0.03, "other": 0.01}, long={"other": 0.01})
    assert shares(gpu_budget(phase_pct, counted(60.0), seen, few, 0.05))["idle, cause unknown"] == 40.0
    little = shares(gpu_budget(phase_pct, counted(80.0), seen, gaps, 0.05))
    assert little == {"busy": 80.0, "idle, cause unknown": 20.0}


def test_idle_time_for_which_the_thread_is_nowhere_else_is_in_the_models_phases() -> None:
    """The queue is full at the end of each: what is launched one by one comes before large kernels."""
    phase_pct = {"loss": 42.0, "forward": 4.0, "backward": 52.0, "sync": 2.0}
    seen = lead(loss=(4.2, 0, 0.8, 0), forward=(0.4, 0, 0, 0), backward=(5.2, 0, 0, 0))
    found = gpu_budget(phase_pct, counted(62.0), seen)
    assert shares(found) == {"busy": 62.0, "launching": 36.0, "idle, cause unknown": 2.0}
    assert cause(found, "backward").launching_pct == pytest.approx(28 * 52 / 90)
    assert cause(found, "loss").launching_pct == pytest.approx(8 + 28 * 34 / 90)
    waits = {**phase_pct, "backward": 40.0, "sync": 14.0}
    assert shares(gpu_budget(waits, counted(62.0), seen))["idle, cause unknown"] == 30.0
    little = shares(gpu_budget(phase_pct, counted(72.0), seen))
    assert little == {"busy": 72.0, "launching": 8.0, "idle, cause unknown": 20.0}


def test_without_a_lead_all_idle_time_is_unknown_with_the_reason() -> None:
    budget = gpu_budget(ENV_HOST, counted(54.0), None, no_lead="too short")
    assert shares(budget) == {"busy": 54.0, "idle, cause unknown": 46.0}
    assert budget.unknown_reason == "too short"
    assert set(budget.idle_by_phase_pct.values()) == {None}


def test_without_anything_all_is_unknown() -> None:
    assert shares(gpu_budget(ENV_HOST, None, None)) == {"busy or idle, unknown": 100.0}


def test_without_a_lead_the_gaps_of_a_deep_window_tell() -> None:
    """A tick of 50 ms under the profiler, else 40: waits keep their time, launching has the rest."""
    found = deep({"data": 0.2, "forward": 0.2, "backward": 0.1}, seen=("data", "sync"))
    host = {"data": 25.0, "forward": 40.0, "backward": 30.0, "sync": 4.0, "gc": 1.0}
    budget = gpu_budget(host, counted(60.0, "nvml"), None, found, usual_tick_s=0.04)
    assert shares(budget) == {"busy": 60.0, "data": 25.0, "launching": 15.0}
    assert cause(budget, "forward").launching_pct == pytest.approx(10.0)
    assert (cause(budget, "data").known, cause(budget, "data").source) == (Known.INFERRED, Source.DEEP)
    assert budget.idle_by_phase_pct["sync"] == 0.0
    assert budget.idle_by_phase_pct["gc"] is None  # not in that second


def test_gaps_without_ticks_are_taken_in_proportion() -> None:
    found = deep({"data": 0.3, "forward": 0.1, "unknown": 0.1}, ticks=0)
    budget = gpu_budget({"data": 50.0, "forward": 50.0}, counted(50.0), None, found, usual_tick_s=0.04)
    assert shares(budget) == {"busy": 50.0, "data": 30.0, "launching": 10.0, "idle, cause unknown": 10.0}


def test_without_gpm_real_work_is_estimated_from_the_deep_window() -> None:
    """Half of the busy time of a second in which the profiler made ticks a quarter longer."""
    found = deep({}, busy_frac=0.4, real=0.2)
    budget = gpu_budget({"forward": 100.0}, counted(52.0, "nvml"), None, found, usual_tick_s=0.04)
    assert budget.real_work_pct == pytest.approx(25.0)
    assert budget.real_work_source is Source.DEEP
    assert budget.parts[0].known is Known.INFERRED
    shares(budget)


def test_without_gpm_and_without_a_deep_window_busy_is_one_part() -> None:
    budget = gpu_budget({"forward": 100.0}, counted(52.0, "nvml"), lead(forward=(1, 0, 1, 0)))
    assert shares(budget) == {"busy": 52.0, "launching": 48.0}
    assert (budget.real_work_pct, budget.busy_source) == (None, Source.NVML)


def test_without_counters_busy_comes_from_the_deep_window() -> None:
    found = deep({"data": 0.5}, busy_frac=0.5)
    budget = gpu_budget({"data": 50.0, "forward": 50.0}, None, None, found, usual_tick_s=0.05)
    assert shares(budget) == {"busy": 50.0, "data": 50.0}
    assert budget.busy_source is Source.DEEP


def test_figures_that_contradict_each_other_are_scaled_and_said() -> None:
    told = lead(env=(5.18, 5.18, 0, 0), forward=(1.8, 0, 1.8, 0))
    budget = gpu_budget(ENV_HOST, counted(94.0, sm_active_pct=99.0), told)
    assert shares(budget) == {"real work": 94.0, "env": 6.0}
    assert "nothing to do for 52 % of the time" in budget.contradiction
    assert "counted idle for 6 %" in budget.contradiction
    assert budget.told_idle_pct == pytest.approx(51.8)
    close = gpu_budget(ENV_HOST, counted(50.0), told)
    assert shares(close) == {"busy": 50.0, "env": 50.0}
    assert close.contradiction == ""


def test_figures_of_a_mig_slice_count_like_any_other() -> None:
    view = counted(40.0, sm_active_pct=20.0, unverified=True)
    assert shares(gpu_budget({"forward": 100.0}, view, lead(forward=(1, 0, 1, 0)))) == {
        "real work": 20.0, "busy with little work": 20.0, "launching": 60.0
    }  # fmt: skip


def test_a_source_nobody_knows_is_no_source() -> None:
    assert gpu_budget({"forward": 100.0}, counted(40.0, "guess"), None).busy_source is None


percents = st.floats(0, 100)
seconds = st.floats(0, 1e4)
phase_leads = st.builds(PhaseLead, seconds, seconds, seconds, seconds)
by_phase = st.dictionaries(st.sampled_from([*PHASES, "unknown"]), seconds)


@given(
    host=st.dictionaries(st.sampled_from(PHASES), percents, min_size=1),
    busy=st.none() | percents,
    active=st.none() | percents,
    rows=st.none() | st.dictionaries(st.sampled_from(PHASES), phase_leads),
    gaps=st.none() | by_phase,
    busy_frac=st.floats(0, 1),
    real=st.none() | st.floats(0, 1),
    ticks=st.integers(0, 1000),
    tick_s=st.none() | st.floats(1e-4, 100),
)
@example(
    host={"infer": 0.0},
    busy=0.0,
    active=None,
    rows=None,
    gaps={"infer": 2e-309},
    busy_frac=0.0,
    real=None,
    ticks=0,
    tick_s=None,
)
def test_every_budget_adds_up_to_100(
    host: dict[str, float],
    busy: float | None,
    active: float | None,
    rows: dict[str, PhaseLead] | None,
    gaps: dict[str, float] | None,
    busy_frac: float,
    real: float | None,
    ticks: int,
    tick_s: float | None,
) -> None:
    told = None if rows is None else replace(lead(), phases=rows)
    found = None if gaps is None else deep(gaps, busy_frac=busy_frac, real=real, ticks=ticks)
    budget = gpu_budget(host, counted(busy, sm_active_pct=active), told, found, tick_s)
    assert sum(part.pct for part in budget.parts) == pytest.approx(100, abs=1e-6)
    assert all(part.pct > 0 for part in budget.parts)
    if budget.idle_pct is not None and budget.launching_pct is not None:
        told_pct = sum(pct or 0.0 for pct in budget.idle_by_phase_pct.values())
        assert told_pct + budget.launching_pct <= budget.idle_pct + 1e-6
    for one in budget.phases:
        assert one.idle_pct is None or rows is None or one.idle_pct <= one.host_pct + 1e-6
