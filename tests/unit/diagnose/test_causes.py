"""Each cause from signals alone: where it is found, and where something that looks like it is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.causes import CAUSES
from stoker.diagnose.causes.cause import less_often
from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.signals import BlockingLine, RankSignals, Signals
from stoker.diagnose.chains import Chains
from stoker.diagnose.loading import LoaderView
from stoker.diagnose.long_ticks import LongTicks
from stoker.diagnose.memory import MemoryTrend
from stoker.diagnose.own_evaluations import OwnEvaluation
from stoker.diagnose.own_steps import OwnMethod
from stoker.diagnose.places import LineShare
from stoker.diagnose.verdict import judge, verdict_on
from stoker.model.finding import Outcome, Severity
from stoker.model.record import PHASES, Line, Loader, Place
from stoker.trials.knobs.advised import advised

LINE = ("/home/me/train.py", 12, "step")
PLACE = Place(LINE, LINE)


def view(**more: Any) -> LoaderView:
    loader = Loader(0, 2, 32, 2, False, False, 100, "Pictures", 1, 1200, 20.0, 0.2, 0.1, 0.5, 0.7)
    plain = LoaderView(loader, 2, 80.0, 2.4, 8.0, 2.0, 0.95, 0.95, [(LINE, 0.8)], 25.0)
    return replace(plain, **more)


def gpu(**more: Any) -> GpuSignals:
    plain = GpuSignals(
        60.0, 50.0, "gpm", 40.0, {}, 0.0, "events", 20.0, 10.0, 0.6, False, "", True, {}, 1.0, 1.0
    )
    return replace(plain, **more)


def seen(shares: dict[str, float], **more: Any) -> Signals:
    """A training on a CPU in which each phase has its % of the window."""
    host = {**dict.fromkeys(PHASES, 0.0), **shares}
    compute = sum(host[name] for name in ("infer", "forward", "loss", "backward", "optim"))
    plain = Signals(
        window_s=60.0,
        ticks=1200,
        host_pct=host,
        lost_pct=dict(host),
        hidden=frozenset(),
        compute_pct=compute,
        loss_is_work=host["loss"] <= host["infer"] + host["forward"] + host["backward"],
        lines=(),
        blocking=(),
        loader=None,
        demand_per_s=None,
        epochs=0,
        edge_data_frac=None,
        edge_tick_frac=None,
        cores_allowed=8.0,
        cores_used=2.0,
        allowed_cpu_pct=30.0,
        queue_per_core=1.0,
        elsewhere_cores=0.0,
        stages_s={"train": 60.0},
        env_steps_per_s=None,
        envs_per_call=None,
        acting_pct=0.0,
        env_processes=0,
        gpu=None,
        ranks=(),
    )
    return replace(plain, **more)


def loading(**more: Any) -> Signals:
    usual: dict[str, Any] = {"loader": view(), "demand_per_s": 40.0}
    return seen({"data": 45.0, "forward": 25.0, "backward": 30.0}, **{**usual, **more})


def on_gpu(idle: dict[str, float | None], host: dict[str, float], **more: Any) -> Signals:
    lost: dict[str, float | None] = {**dict.fromkeys(PHASES, 0.0), **idle}
    return seen(host, **{"lost_pct": lost, "gpu": gpu(), **more})


def ranks(late_data_ms: float) -> tuple[RankSignals, ...]:
    late = RankSignals(1, 100.0, {"data": late_data_ms, "forward": 30.0, "backward": 70.0 - late_data_ms})
    on_time = [RankSignals(n, 100.0, {"data": 1.0, "forward": 30.0, "backward": 69.0}) for n in (0, 2, 3)]
    return (on_time[0], late, *on_time[1:])


WORK = {"forward": 30.0, "backward": 30.0}
HOT = (LineShare("other", PLACE, 36.0, 200), LineShare("other", Place(None, None), 4.0, 20))
READ = (BlockingLine("sync", PLACE, 1.0, 30.0),)
FOUND = {
    "SK101": loading(loader=view(workers=0)),
    "SK102": loading(),
    "SK103": loading(allowed_cpu_pct=98.0),
    "SK104": loading(loader=view(cpu_frac=0.1)),
    "SK105": loading(loader=view(collate_ms=60.0)),
    "SK106": loading(epochs=12, edge_data_frac=0.9, edge_tick_frac=0.01),
    "SK201": seen({**WORK, "other": 40.0}, lines=HOT),
    "SK202": seen({**WORK, "gc": 40.0}),
    "SK203": seen({**WORK, "save": 40.0}),
    "SK204": seen({"forward": 50.0, "backward": 50.0}, stages_s={"train": 60.0, "eval": 40.0}),
    "SK205": seen({**WORK, "compile": 40.0}),
    "SK206": seen(
        {"forward": 40.0, "backward": 60.0}, off_core_frac=0.36, others_cores=0.5, others_place=PLACE
    ),
    "SK301": seen({**WORK, "env": 40.0}, envs_per_call=8.0, env_steps_per_s=100.0),
    "SK302": seen({**WORK, "infer": 36.0, "env": 4.0}, acting_pct=36.0, envs_per_call=1.0),
    "SK303": seen({**WORK, "env": 40.0}, envs_per_call=8.0, env_steps_per_s=100.0, env_processes=8),
    "SK401": on_gpu({"other": 20.0}, {"sync": 30.0, "other": 20.0, "forward": 50.0}, blocking=READ),
    "SK402": on_gpu({}, {"forward": 50.0, "backward": 50.0}, gpu=gpu(launching_pct={"backward": 35.0})),
    "SK403": on_gpu({"h2d": 25.0}, {"h2d": 30.0, "forward": 70.0}),
    "SK404": on_gpu(
        {}, {"forward": 100.0}, gpu=gpu(busy_pct=95.0, real_work_pct=12.0, idle_pct=5.0, memory_frac=0.1)
    ),
    "SK405": on_gpu(
        {}, {"forward": 100.0}, gpu=gpu(busy_pct=97.0, real_work_pct=90.0, idle_pct=3.0, tensor_pct=0.0)
    ),
    "SK406": on_gpu(
        {},
        {"forward": 60.0, "backward": 40.0},
        gpu=gpu(launching_pct={"forward": 35.0}),
        cpu_trained_frac=0.1,
    ),
    "SK407": on_gpu(
        {"other": 20.0},
        {"other": 30.0, "forward": 70.0},
        gpu=gpu(launching_pct={"forward": 15.0}, memory=MemoryTrend(frees_per_tick=20.0)),
        lines=(LineShare("other", PLACE, 30.0, 200),),
    ),
    "SK408": on_gpu(
        {},
        {"forward": 100.0},
        gpu=gpu(
            busy_pct=97.0, real_work_pct=92.0, idle_pct=3.0, memory=MemoryTrend(0.0, 0.0, 4e8, 5e6, 200.0)
        ),
    ),
    "SK409": on_gpu(
        {},
        {"forward": 100.0},
        gpu=gpu(busy_pct=99.0, real_work_pct=97.0, idle_pct=1.0, tensor_pct=0.0, dram_pct=82.0),
    ),
    "SK501": on_gpu({}, {"forward": 100.0}, gpu=gpu(shared=True, sharing="another process computes there")),
    "SK502": on_gpu(
        {},
        {"forward": 100.0},
        gpu=gpu(busy_pct=97.0, throttled_by={"power cap": 0.9}, power_limit_frac=0.5, clock_frac=0.6),
    ),
    "SK503": seen({"forward": 30.0, "backward": 69.0, "data": 1.0}, ranks=ranks(40.0)),
    "SK504": seen({"forward": 40.0, "backward": 60.0}, core_wait_frac=0.4, allowed_cpu_pct=97.0),
}


def codes(found: Signals) -> list[str]:
    return [finding.code for finding in judge(found).findings]


def test_every_cause_is_tried_here() -> None:
    assert [cause.code for cause in CAUSES] == sorted(FOUND)
    assert len({cause.name for cause in CAUSES}) == len(CAUSES)


@pytest.mark.parametrize("code", FOUND)
def test_a_cause_comes_first_with_evidence_and_a_fix(code: str) -> None:
    told = judge(FOUND[code])
    first = told.findings[0]
    assert first.code == code
    assert told.outcome is (Outcome.CAUSES if first.in_code else Outcome.NOT_FIXABLE)
    assert first.evidence
    assert first.fixes
    assert first.confirm
    assert (first.ceiling is None) == bool(first.no_ceiling)


@pytest.mark.parametrize("code", [code for code in FOUND if code[:3] in ("SK1", "SK2", "SK3")])
def test_on_a_gpu_a_hidden_wait_is_no_cause(code: str) -> None:
    """The same host times, under which the GPU worked all the time."""
    if code == "SK204":
        return  # the evaluation is no wait: it is outside of the window
    host = FOUND[code]
    idle = dict.fromkeys(PHASES, 0.0)
    busy = gpu(busy_pct=98.0, real_work_pct=90.0, idle_pct=2.0)
    told = judge(replace(host, lost_pct=idle, gpu=busy))
    assert told.findings == ()
    assert told.outcome is Outcome.HEALTHY


def test_the_ceiling_is_amdahls_and_sets_the_severity() -> None:
    finding = judge(seen({**WORK, "gc": 40.0})).findings[0]
    assert finding.ceiling == pytest.approx(1 / 0.6)
    assert finding.severity is Severity.CRITICAL
    assert judge(seen({"forward": 70.0, "gc": 12.0, "other": 9.0})).findings[0].severity is Severity.WARNING
    assert judge(seen({"forward": 84.0, "gc": 7.0, "other": 9.0})).findings[0].severity is Severity.NOTE


def test_on_a_gpu_only_the_idle_time_counts() -> None:
    found = on_gpu({"data": 10.0}, {"data": 45.0, "forward": 55.0}, loader=view(workers=0))
    finding = judge(found).findings[0]
    assert finding.recoverable_frac == pytest.approx(0.10)
    assert finding.recoverable_of == "GPU idle time"


def test_workers_that_keep_up_are_not_too_few() -> None:
    told = judge(loading(demand_per_s=20.0))
    assert told.findings == ()
    assert told.outcome is Outcome.CANNOT_TELL
    assert told.would_tell


def test_a_worker_that_waits_for_a_core_does_not_wait_for_storage() -> None:
    crowded = loading(loader=view(cpu_frac=0.3), queue_per_core=3.0, allowed_cpu_pct=99.0)
    assert codes(crowded) == ["SK103"]
    assert codes(replace(crowded, queue_per_core=1.0)) == ["SK104"]


def test_workers_that_compute_on_all_cores_leave_none() -> None:
    """Whatever the machine's own figure says."""
    crowded = loading(loader=view(workers=4, cpu_frac=0.5), cores_allowed=2.0, queue_per_core=2.0)
    assert codes(crowded) == ["SK103"]
    assert codes(replace(crowded, cores_allowed=4.0)) == ["SK102"]


def test_an_even_wait_is_no_restart_of_workers() -> None:
    """An epoch of two batches: half of the ticks are the first of one."""
    assert codes(loading(epochs=600, edge_data_frac=0.55, edge_tick_frac=0.5)) == ["SK102"]


def test_environments_stepped_elsewhere_are_not_serial() -> None:
    assert codes(replace(FOUND["SK301"], env_processes=8)) == ["SK303"]
    assert codes(replace(FOUND["SK301"], elsewhere_cores=3.0)) == ["SK303"]


def test_a_simulator_no_hook_knows_is_an_environment() -> None:
    host = {"infer": 5.0, "other": 50.0, "forward": 45.0}
    found = seen(host, own_step=OwnMethod(0.8, PLACE))
    (first, *_) = judge(found).findings
    assert (first.code, first.place) == ("SK301", PLACE)
    assert first.recoverable_frac == pytest.approx(0.4)
    assert "SK301" not in codes(replace(found, elsewhere_cores=3.0)), "others of the run may step it"


def test_one_line_of_python_that_is_most_of_an_environment_is_mended_first() -> None:
    found = FOUND["SK301"]
    line = LineShare("env", PLACE, 0.6 * found.host_pct["env"], 60, computes=12)
    first = judge(replace(found, lines=(line,))).findings[0]
    assert first.fixes[0].text.startswith("make the step itself cheaper")
    for other in (replace(line, computes=0), replace(line, pct=0.3 * found.host_pct["env"])):
        first = judge(replace(found, lines=(other,))).findings[0]
        assert first.fixes[0].text.startswith("environments in processes")


def test_its_name_is_told() -> None:
    host = {"infer": 5.0, "other": 50.0, "forward": 45.0}
    first = judge(seen(host, own_step=OwnMethod(0.8, PLACE, name="advance"))).findings[0]
    assert "in advance() of your own" in first.says
    assert first.confirm == "stoker run --env module:Class.advance -- … times it as an environment"


def test_an_iterator_in_which_the_thread_rests_waits_for_storage() -> None:
    """A thread of its own reads, from a network that is slow; batches come through a queue."""
    host = {"other": 38.0, "forward": 25.0, "backward": 37.0}
    line = LineShare("other", PLACE, 38.0, 60, computes=0)
    own = OwnMethod(1.0, PLACE, frozenset({LINE}))
    found = seen(host, own_loading=own, lines=(line,), off_core_frac=0.37, cores_used=0.64)
    (told,) = judge(found).findings
    assert (told.code, told.place, told.recoverable_frac) == ("SK104", PLACE, pytest.approx(0.38))
    assert [one.value for one in told.evidence] == [38.0, 37.0, 0.64]
    assert codes(replace(found, off_core_frac=0.05)) == ["SK101"], "it reads and computes itself"
    by_others = replace(found, elsewhere_cores=0.9, cores_used=1.5)
    assert codes(by_others) == ["SK303"], "others of the run make the batches"
    unknown = replace(found, cores_used=1.5)
    assert codes(unknown) == ["SK201"], "somebody computes, nobody knows who: it waits, is all that is known"
    at_a_pipe = replace(found, lines=(replace(line, waits_frac=0.9),))
    assert "SK104" not in codes(at_a_pipe)


def test_whether_an_iterator_rests_is_told_of_it_alone() -> None:
    """It computes; a line beside it sleeps."""
    sleeps = Place(("/home/me/train.py", 90, "main"), None)
    lines = (
        LineShare("other", sleeps, 30.0, 60, computes=0),
        LineShare("other", PLACE, 20.0, 40, computes=20),
    )
    own = OwnMethod(0.4, PLACE, frozenset({LINE}))
    host = {"other": 50.0, "forward": 20.0, "backward": 30.0}
    found = seen(host, own_loading=own, lines=lines, off_core_frac=0.3, cores_used=0.7)
    assert told_of(found) == {"SK201": pytest.approx(0.3), "SK101": pytest.approx(0.2)}


OF_FUNCTIONS = seen(
    {"other": 74.0, "backward": 24.0, "optim": 2.0},
    lines=(LineShare("other", PLACE, 74.0, 60, computes=0),),
    of_functions=True,
)


def test_a_model_made_of_functions_is_no_hot_line() -> None:
    told = judge(OF_FUNCTIONS)
    assert (told.outcome, told.findings) == (Outcome.CANNOT_TELL, ())
    assert "the model is among them" in told.text
    assert "record_function" in told.would_tell
    assert codes(replace(OF_FUNCTIONS, of_functions=False)) == ["SK201"]


def test_weights_changed_by_hand_are_no_hot_line() -> None:
    host = {"other": 30.0, "forward": 30.0, "backward": 40.0}
    line = LineShare("other", PLACE, 28.0, 60, computes=0)
    found = seen(host, lines=(line,), updates_by_hand=True)
    told = judge(found)
    assert (told.outcome, told.findings) == (Outcome.CANNOT_TELL, ())
    assert "what changes the weights is a part of it" in told.text
    assert codes(replace(found, lines=(replace(line, computes=12),))) == ["SK201"]
    assert codes(replace(found, updates_by_hand=False)) == ["SK201"]


def test_beside_one_python_that_computes_and_lines_that_wait_are_hot() -> None:
    (line,) = OF_FUNCTIONS.lines
    assert codes(replace(OF_FUNCTIONS, lines=(replace(line, computes=12),))) == ["SK201"]
    assert codes(replace(OF_FUNCTIONS, lines=(replace(line, waits_frac=0.9),))) == ["SK201"]
    assert codes(replace(OF_FUNCTIONS, off_core_frac=0.7)) == ["SK201"], "it rests there"


def test_launches_of_a_model_made_of_functions_are_launches() -> None:
    found = on_gpu(
        {"other": 0.0},
        {"other": 70.0, "backward": 30.0},
        gpu=gpu(idle_pct=40.0, launching_pct={"other": 30.0, "backward": 10.0}),
        lines=OF_FUNCTIONS.lines,
        of_functions=True,
    )
    assert told_of(found) == {"SK402": pytest.approx(0.4)}
    idle = on_gpu(
        {"other": 50.0},
        {"other": 70.0, "backward": 30.0},
        gpu=gpu(idle_pct=50.0),
        lines=OF_FUNCTIONS.lines,
        of_functions=True,
    )
    assert codes(idle) == ["SK201"], "it launches nothing there: it is not the model"


def test_a_line_that_waits_for_own_processes_is_no_hot_line() -> None:
    host = {"other": 40.0, "forward": 30.0, "backward": 30.0}
    line = LineShare("other", PLACE, 36.0, 200, waits_frac=0.9)
    found = seen(host, lines=(line,), elsewhere_cores=0.3)
    (told,) = judge(found).findings
    assert (told.code, told.place, told.recoverable_frac) == ("SK303", PLACE, pytest.approx(0.36))
    assert codes(replace(found, elsewhere_cores=0.05)) == ["SK201"], "nobody computes meanwhile"
    assert codes(replace(found, loader=view(workers=2))) == ["SK201"], "its workers may be all that computes"
    assert codes(replace(found, env_steps_per_s=100.0, envs_per_call=1.0)) == ["SK303"]
    starved = seen({"other": 97.0, "forward": 3.0}, lines=(replace(line, pct=96.0),), elsewhere_cores=8.0)
    (told,) = judge(starved).findings
    assert (told.code, "waiting for another process" in told.says) == ("SK201", True)
    assert codes(replace(found, lines=(replace(line, waits_frac=0.2),))) == ["SK201"]


@pytest.mark.parametrize(("computes", "told"), [(0, []), (1, []), (2, ["SK201"]), (3, ["SK201"])])
def test_python_that_computes_in_the_loss_is_a_hot_line(computes: int, told: list[str]) -> None:
    """Though the loss takes less than the model, and so is work as a rule."""
    line = LineShare("loss", PLACE, 20.0, 40, computes=computes)
    host = {"forward": 30.0, "backward": 48.0, "loss": 22.0}
    assert codes(seen(host, lines=(line,))) == told
    assert codes(seen(host, lines=(replace(line, samples=200),))) == [], "a look or two of many may be chance"


@pytest.mark.parametrize(
    ("computes", "samples", "told"),
    [(0, 20, []), (2, 6, []), (3, 12, ["SK201"]), (3, 13, []), (8, 20, ["SK201"])],
)
@pytest.mark.parametrize("phase", ["infer", "forward", "backward", "optim"])
def test_python_that_computes_in_the_model_is_a_hot_line(
    phase: str, computes: int, samples: int, told: list[str]
) -> None:
    """A model is work as a rule, and healthy. Calls of small layers are found at work, too, now and then."""
    line = LineShare(phase, PLACE, 25.0, samples, computes=computes)
    assert codes(seen({phase: 50.0, "loss": 2.0}, lines=(line,))) == told


def test_ticks_that_are_long_now_and_then_for_no_known_reason_are_not_healthy() -> None:
    plain = seen({"forward": 40.0, "backward": 60.0})
    assert judge(plain).outcome is Outcome.HEALTHY
    told = judge(replace(plain, long_ticks=LongTicks(3, 0.33)))
    assert told.outcome is Outcome.CANNOT_TELL
    assert told.text.startswith("every 3rd tick takes twice as long")
    assert "--eval module:function" in told.would_tell
    named = seen({"data": 40.0, "forward": 60.0}, loader=view(workers=0), long_ticks=LongTicks(3, 0.33))
    assert codes(named) == ["SK101"], "a cause comes first"


def test_a_model_that_is_asked_row_by_row_has_no_hot_line_in_that() -> None:
    line = LineShare("infer", PLACE, 25.0, 40, computes=20)
    found = seen({"infer": 50.0, "forward": 25.0, "backward": 25.0}, lines=(line,))
    assert codes(found) == ["SK201"]
    assert codes(replace(found, one_row_frac=1.0)) == ["SK302"]


def test_looks_into_all_of_a_function_of_the_model_are_counted_together() -> None:
    path, number, function = PLACE.leaf or ("", 0, "")
    far = (path, number + 30, function)
    first = LineShare("forward", PLACE, 6.0, 4, computes=4)
    second = LineShare("forward", Place(far, far), 14.0, 9, computes=0)
    found = seen({"forward": 50.0, "backward": 50.0}, lines=(second, first))
    (told,) = judge(found).findings
    assert (told.code, told.recoverable_frac) == ("SK201", pytest.approx(0.2))
    assert "inside the model's forward pass" in told.says
    other = (path, number + 30, "another")
    apart = replace(second, place=Place(other, other))
    assert judge(replace(found, lines=(apart, first))).outcome is Outcome.HEALTHY


def test_torch_beside_python_in_a_forward_pass_is_not_counted_with_it() -> None:
    path = (PLACE.leaf or ("", 0, ""))[0]
    mask, layers, forward = (path, 10, "mask"), (path, 50, "Net.forward"), (path, 51, "Net.forward")
    python = LineShare("forward", Place(mask, mask), 12.5, 25, computes=25, under=(layers,))
    torch_ops = LineShare("forward", Place(forward, forward), 37.5, 75, computes=0)
    (told,) = judge(seen({"forward": 50.0, "backward": 50.0}, lines=(torch_ops, python))).findings
    assert (told.place, told.recoverable_frac) == (python.place, pytest.approx(0.125))


def test_python_in_the_model_that_is_spread_over_functions_is_what_is_under_one_call() -> None:
    path = (PLACE.leaf or ("", 0, ""))[0]
    step, bits = (path, 80, "Metered.step"), (path, 60, "bits")
    within = [(path, 10, "levels"), (path, 20, "runs"), (path, 30, "gamma")]
    spread = [LineShare("optim", Place(one, one), 10.0, 8, computes=2, under=(bits, step)) for one in within]
    torch_ops = LineShare("optim", Place(step, step), 10.0, 20, computes=0)
    found = seen({"optim": 50.0, "forward": 50.0}, lines=(*spread, torch_ops))
    (told,) = judge(found).findings
    assert (told.code, told.recoverable_frac) == ("SK201", pytest.approx(0.3))
    assert told.says.startswith(
        "3 lines under train.py:60 bits take 30 % of the window: Python that computes"
    )


def test_launches_of_python_that_computes_in_the_model_are_of_its_line() -> None:
    line = LineShare("forward", PLACE, 24.0, 40, computes=20)
    host = {"forward": 48.0, "backward": 52.0}
    found = on_gpu({}, host, gpu=gpu(launching_pct={"forward": 30.0, "backward": 9.0}), lines=(line,))
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK201": pytest.approx(0.15), "SK402": pytest.approx(0.24)}


def test_launches_of_python_that_computes_in_the_loss_are_of_its_line() -> None:
    line = LineShare("loss", PLACE, 20.0, 100, computes=9)
    host = {"forward": 30.0, "backward": 48.0, "loss": 22.0}
    found = on_gpu({}, host, gpu=gpu(launching_pct={"loss": 22.0, "backward": 9.0}), lines=(line,))
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK201": pytest.approx(0.20), "SK402": pytest.approx(0.11)}
    (only,) = judge(replace(found, lines=(replace(line, computes=0),))).findings
    assert (only.code, only.recoverable_frac) == ("SK402", pytest.approx(0.31))


def test_on_a_gpu_what_it_idles_for_the_loss_is_of_its_lines() -> None:
    line = LineShare("loss", PLACE, 20.0, 100)
    host = {"forward": 30.0, "backward": 48.0, "loss": 22.0}
    (told,) = judge(on_gpu({"loss": 11.0}, host, lines=(line,))).findings
    assert (told.code, told.recoverable_frac) == ("SK201", pytest.approx(0.10))


def test_large_figures_are_written_out() -> None:
    found = judge(replace(FOUND["SK301"], env_steps_per_s=1812.6)).findings[0]
    assert "1,813 env steps/s" in [one.text for one in found.evidence]


def test_reads_gain_no_more_than_the_gpu_idles() -> None:
    found = replace(FOUND["SK401"], gpu=gpu(idle_pct=12.0))
    reads = next(one for one in judge(found).findings if one.code == "SK401")
    assert reads.recoverable_frac == pytest.approx(0.12)
    rare = replace(FOUND["SK401"], blocking=(BlockingLine("sync", PLACE, 0.01, 30.0),))
    assert "SK401" not in codes(rare)


def test_acting_one_by_one_is_not_told_twice_as_launching() -> None:
    found = on_gpu(
        {},
        {"infer": 50.0, "forward": 20.0, "backward": 30.0},
        gpu=gpu(launching_pct={"infer": 30.0, "backward": 6.0}),
        acting_pct=50.0,
        envs_per_call=1.0,
    )
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK302": pytest.approx(0.30), "SK402": pytest.approx(0.06)}


def test_real_work_is_healthy_though_a_little_is_lost() -> None:
    told = judge(seen({"forward": 45.0, "backward": 43.0, "gc": 12.0}))
    assert told.outcome is Outcome.HEALTHY
    assert [one.code for one in told.findings] == ["SK202"]


def test_a_healthy_model_that_is_asked_a_lot_may_be_evaluated() -> None:
    host = {"infer": 30.0, "forward": 30.0, "backward": 38.0, "other": 2.0}
    asked = judge(seen(host))
    assert asked.outcome is Outcome.HEALTHY
    assert "30 % of the thread's time is the model without gradients" in asked.would_tell
    assert judge(seen(host, acting_pct=30.0)).would_tell == ""


def test_no_cause_above_the_least_gain_is_healthy() -> None:
    assert judge(seen({"forward": 80.0, "other": 8.0, "data": 4.0})).outcome is Outcome.HEALTHY


def test_unexplained_idle_time_cannot_be_told() -> None:
    told = judge(on_gpu({}, {"forward": 100.0}, gpu=gpu(unexplained_pct=38.0)))
    assert told.outcome is Outcome.CANNOT_TELL
    assert "--deep" in told.would_tell


def test_a_gpu_left_idle_by_the_model_itself_is_not_healthy() -> None:
    """As where a frozen part of the model is on the CPU: no optimizer tells of it."""
    told = judge(on_gpu({"forward": 40.0}, {"forward": 80.0, "backward": 20.0}))
    assert told.outcome is Outcome.CANNOT_TELL
    assert "forward" in told.text


def test_a_gpu_busy_with_little_work_is_not_healthy() -> None:
    full = gpu(busy_pct=96.0, real_work_pct=20.0, idle_pct=4.0, memory_frac=0.9)
    assert judge(on_gpu({}, {"forward": 100.0}, gpu=full)).outcome is Outcome.CANNOT_TELL
    unmeasured = replace(full, real_work_pct=None)
    told = judge(on_gpu({}, {"forward": 100.0}, gpu=unmeasured))
    assert told.outcome is Outcome.HEALTHY
    assert "not measured" in told.text


def test_a_gpu_nobody_could_measure_cannot_be_told() -> None:
    unmeasured = gpu(busy_pct=None, real_work_pct=None, idle_pct=None, unexplained_pct=100.0)
    told = judge(on_gpu(dict.fromkeys(PHASES, None), {"data": 50.0, "forward": 50.0}, gpu=unmeasured))
    assert told.outcome is Outcome.CANNOT_TELL
    assert "doctor" in told.would_tell


def test_a_gpu_that_spins_in_a_collective_has_no_batch_too_small() -> None:
    found = FOUND["SK404"]
    assert codes(found) == ["SK404"]
    assert "SK404" not in codes(replace(found, waits_for_ranks_frac=0.75))


def test_a_gpu_at_work_mostly_on_the_weights_has_a_batch_too_small() -> None:
    """An optimizer takes as long for 192 rows as for 8192."""
    card = gpu(busy_pct=92.0, real_work_pct=80.0, idle_pct=8.0, memory_frac=0.1, weights_frac=0.37)
    first = judge(on_gpu({}, {"forward": 100.0}, gpu=card)).findings[0]
    assert (first.code, first.recoverable_frac) == ("SK404", pytest.approx(0.34, abs=0.01))
    assert "optimizer" in first.says
    for other in (replace(card, weights_frac=0.12), replace(card, memory_frac=0.9)):
        assert "SK404" not in codes(on_gpu({}, {"forward": 100.0}, gpu=other))


@pytest.mark.parametrize("code", ["SK404", "SK405"])
def test_the_figures_of_a_shared_card_are_not_this_trainings(code: str) -> None:
    found = FOUND[code]
    assert found.gpu is not None
    both = replace(found, gpu=replace(found.gpu, alone=False, shared=True, sharing="another process"))
    told = judge(both)
    assert [one.code for one in told.findings] == ["SK501"]
    assert told.outcome is Outcome.NOT_FIXABLE


def test_a_thread_that_computes_without_the_interpreter_is_no_cause() -> None:
    found = FOUND["SK206"]
    assert codes(replace(found, off_core_frac=0.02)) == [], "it waits for nothing"
    assert codes(replace(found, others_cores=0.05)) == [], "nobody holds it"
    assert codes(replace(found, others_cores=None)) == [], "the training is not in the first thread"


def test_what_may_wait_for_other_reasons_is_not_of_the_interpreter() -> None:
    waiting = seen({"data": 40.0, "forward": 60.0}, off_core_frac=0.45, others_cores=0.5)
    assert "SK206" not in codes(waiting)
    first = judge(replace(FOUND["SK206"], others_cores=0.2)).findings[0]
    assert first.recoverable_frac == pytest.approx(0.2), "no more than the other threads compute"


def test_lines_that_lead_to_the_model_are_late_where_the_interpreter_is_held() -> None:
    """They are found after the call they made, and look hot; other lines may be."""
    line = LineShare("other", PLACE, 15.0, 90, computes=0)
    host = {"other": 15.0, "forward": 35.0, "backward": 50.0}
    card = gpu(idle_pct=39.0, launching_pct={"forward": 20.0})
    leads = frozenset({LINE})
    found = on_gpu(
        {"other": 15.0},
        host,
        gpu=card,
        lines=(line,),
        off_core_frac=0.27,
        others_cores=0.31,
        step_lines=leads,
    )
    assert told_of(found) == {"SK206": pytest.approx(0.27), "SK402": pytest.approx(0.08)}
    limited = told_of(replace(found, others_cores=0.2))
    assert limited["SK206"] == pytest.approx(0.2), "no more than the other thread computes"
    assert limited["SK201"] == pytest.approx(0.07)
    for elsewhere in (
        replace(found, step_lines=frozenset()),  # it may sleep, read, or compute in C
        replace(found, lines=(replace(line, computes=3),)),
        replace(found, lines=(replace(line, waits_frac=0.9),)),
    ):
        assert told_of(elsewhere)["SK206"] == pytest.approx(0.12)
        assert told_of(elsewhere)["SK201"] == pytest.approx(0.15)
    assert told_of(replace(found, off_core_frac=0.18))["SK201"] == pytest.approx(0.15), (
        "the calls do not wait"
    )
    assert told_of(replace(found, off_core_frac=0.24))["SK206"] == pytest.approx(0.24), "they do, a little"


def test_a_late_line_takes_nothing_from_a_hot_line_elsewhere() -> None:
    """Of two that lead to the model most of the waiting is in the other."""

    def line(number: int, function: str, share_pct: float, computes: int) -> LineShare:
        where = ("/home/me/train.py", number, function)
        return LineShare("other", Place(where, where), share_pct, 80, computes=computes)

    call, next_to_it = line(10, "train", 14.0, 0), line(200, "epoch", 1.0, 0)
    lines = (call, next_to_it, line(201, "epoch", 12.0, 70))
    host = {"other": 27.0, "forward": 35.0, "backward": 38.0}
    found = seen(host, lines=lines, off_core_frac=0.45, others_cores=0.6)
    for leads in ({call.place.leaf}, {call.place.leaf, next_to_it.place.leaf}):
        told = told_of(replace(found, step_lines=frozenset(leads)))
        assert told["SK201"] == pytest.approx(0.13, abs=0.012)


def test_time_between_calls_in_which_nobody_is_found_waits_for_the_interpreter() -> None:
    """30 % in `other`, and not one of 56 looks."""
    lines = (LineShare("forward", PLACE, 25.0, 20), LineShare("backward", PLACE, 45.0, 36))
    found = seen(
        {"other": 30.0, "forward": 25.0, "backward": 45.0}, lines=lines, off_core_frac=0.38, others_cores=0.32
    )
    assert told_of(found)["SK206"] == pytest.approx(0.38 - 8 / 56), "four looks would not have been told of"
    assert "SK206" not in codes(replace(found, looks_fit=False)), "they may be of a warm-up"
    hot = (*lines, LineShare("other", PLACE, 30.0, 24, computes=9))
    assert "SK206" not in codes(replace(found, lines=hot)), "it may wait there"
    few = tuple(replace(line, samples=line.samples // 4) for line in lines)
    assert "SK206" not in codes(replace(found, lines=few)), "14 looks tell nothing"


def test_a_thread_that_waits_for_the_gpu_stays_on_its_core() -> None:
    """What it is off its core it spends elsewhere: with 40 % in reads, too, the rest waits for the
    interpreter."""
    host = {"sync": 40.0, "forward": 30.0, "backward": 30.0}
    read = (BlockingLine("sync", PLACE, 0.1, 40.0),)
    card = gpu(idle_pct=36.0, host_alone_pct={"forward": 16.0}, launching_pct={"backward": 8.0})
    found = on_gpu({"forward": 16.0}, host, gpu=card, blocking=read, off_core_frac=0.3, others_cores=0.36)
    assert told_of(found) == {"SK206": pytest.approx(0.3), "SK406": pytest.approx(0.07)}
    assert "SK206" not in codes(replace(found, off_core_frac=0.45)), "then it may block there"
    on_cpu = seen(host, off_core_frac=0.3, others_cores=0.36)
    assert "SK206" not in codes(on_cpu), "there it may be the reads"


def test_looks_into_a_warm_up_are_not_put_to_the_window() -> None:
    """They are not dated: were all of the warm-up's in this line, hardly any would be left."""
    line = LineShare("other", PLACE, 20.0, 40, computes=9)
    rest = LineShare("other", Place(("/home/me/train.py", 90, "sample"), None), 7.0, 14, computes=0)
    found = seen({"other": 27.0, "forward": 73.0}, lines=(line, rest))
    assert codes(found) == ["SK201"]
    assert codes(replace(found, early_own_frac=0.7)) == []
    alone = replace(found, lines=(replace(line, pct=27.0, samples=54),), early_own_frac=0.7)
    assert codes(alone) == ["SK201"], "whichever they are"


def test_a_sleep_beside_a_thread_that_computes_now_and_then_is_a_sleep() -> None:
    line = LineShare("other", PLACE, 80.0, 100, computes=0)
    host = {"other": 80.0, "forward": 20.0}
    found = seen(host, lines=(line,), off_core_frac=0.8, others_cores=0.33)
    assert found.own_code_rests()
    assert "asleep" in judge(found).findings[0].says
    assert not replace(found, others_cores=0.5).own_code_rests(), "it may wait for the interpreter"


def test_launches_that_wait_for_the_interpreter_are_not_too_many_launches() -> None:
    late = on_gpu(
        {},
        {"forward": 50.0, "backward": 50.0},
        gpu=gpu(idle_pct=40.0, launching_pct={"forward": 20.0, "backward": 18.0}),
        off_core_frac=0.35,
        others_cores=0.8,
        others_place=PLACE,
    )
    assert codes(late) == ["SK206"]


def test_who_has_the_cores_is_said() -> None:
    others = FOUND["SK504"]
    quota = replace(others, quota_frac=0.3)
    own, bound = replace(others, cores_used=7.5), replace(others, allowed_cpu_pct=15.0)
    says = [judge(found).findings[0].says for found in (others, quota, own, bound)]
    assert [text.partition(": ")[2] for text in says] == [
        "others compute on them",
        "the CPU quota is used up",
        "this run's own processes and threads are on them",
        "it is bound to a few, and others are free",
    ]


def test_own_code_that_rests_while_own_processes_compute_takes_turns_with_them() -> None:
    """A semaphore shows on no stack; that the thread is off its core tells."""
    host = {"other": 40.0, "forward": 30.0, "backward": 30.0}
    found = seen(host, lines=(LineShare("other", PLACE, 36.0, 200),), elsewhere_cores=0.3, off_core_frac=0.35)
    assert codes(found) == ["SK303"]
    assert codes(replace(found, elsewhere_cores=0.0)) == ["SK201"], "nobody computes meanwhile"
    assert codes(replace(found, off_core_frac=0.1)) == ["SK201"], "it computes itself"


def test_a_simulator_on_the_host_launches_nothing() -> None:
    """By counters alone all of `other` is inferred to be launching, since it hands something over now and
    then: what the simulator's answers are copied for."""
    lines = (LineShare("other", PLACE, 36.0, 100, computes=0),)
    host = {"other": 40.0, "h2d": 10.0, "infer": 10.0, "forward": 20.0, "backward": 20.0}
    card = gpu(idle_pct=42.0, launching_pct={"other": 32.0, "infer": 8.0})
    step = OwnMethod(0.9, PLACE, frozenset({LINE}))
    copied = (BlockingLine("h2d", PLACE, 1.0, 10.0),)
    found = on_gpu({}, host, gpu=card, lines=lines, own_step=step, blocking=copied)
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK301": pytest.approx(0.29, abs=0.01), "SK402": pytest.approx(0.11, abs=0.01)}
    asks = (BlockingLine("sync", Place(("/home/me/train.py", 200, "update"), None), 1.0, 1.0),)
    for blocking in ((), asks, (replace(copied[0], per_tick=0.1),)):
        told = {one.code: one.recoverable_frac for one in judge(replace(found, blocking=blocking)).findings}
        assert told["SK402"] == pytest.approx(0.40), "nothing new is copied: it may launch"
    itself = (BlockingLine("sync", PLACE, 1.0, 1.0),)
    assert codes(replace(found, blocking=itself))[0] == "SK301", "it reads what the model answers"
    seen_to_launch = replace(found, gpu=replace(card, own_launches=True))
    assert {one.code: one.recoverable_frac for one in judge(seen_to_launch).findings}["SK402"] > 0.3


def test_who_waits_for_other_processes_launches_nothing() -> None:
    lines = (LineShare("other", PLACE, 36.0, 100, waits_frac=1.0),)
    host = {"other": 38.0, "sync": 36.0, "forward": 10.0, "backward": 16.0}
    card = gpu(idle_pct=41.0, launching_pct={"other": 32.0, "forward": 6.0})
    found = on_gpu({}, host, gpu=card, lines=lines, elsewhere_cores=2.0)
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told["SK303"] == pytest.approx(0.30, abs=0.01)
    assert told["SK402"] == pytest.approx(0.08, abs=0.01)


def told_of(found: Signals) -> dict[str, float | None]:
    return {one.code: one.recoverable_frac for one in judge(found).findings}


@pytest.mark.parametrize(
    ("median_us", "memory_frac", "code"),
    [(12.8, 0.03, "SK404"), (1.4, 0.03, "SK402"), (12.8, 0.7, "SK402"), (None, 0.03, "SK402")],
)
def test_kernels_that_more_rows_would_make_longer(
    median_us: float | None, memory_frac: float, code: str
) -> None:
    card = gpu(
        idle_pct=30.0,
        launching_pct={"forward": 9.0, "backward": 3.0},
        unexplained_pct=10.0,
        memory_frac=memory_frac,
        median_kernel_us=median_us,
        real_work_pct=59.0,
        busy_pct=70.0,
    )
    found = on_gpu({}, {"forward": 40.0, "backward": 60.0}, gpu=card)
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {code: pytest.approx(0.12)}


def test_what_backward_launches_is_told_by_a_line_of_forward() -> None:
    made = Place(("/home/me/train.py", 27, "by_recursion"), None)
    lines = (LineShare("backward", PLACE, 50.0, 60), LineShare("forward", made, 15.0, 20))
    card = gpu(idle_pct=36.0, launching_pct={"backward": 30.0, "forward": 4.0})
    found = on_gpu({}, {"backward": 60.0, "forward": 40.0}, gpu=card, lines=lines)
    assert judge(found).findings[0].place == made
    assert judge(replace(found, lines=lines[:1])).findings[0].place == PLACE


def launching(**more: Any) -> Signals:
    """Half of the kernels are long, and hardly anything else makes the GPU idle."""
    usual: dict[str, Any] = {
        "idle_pct": 45.0, "launching_pct": {"forward": 25.0, "optim": 15.0}, "memory_frac": 0.03,
        "median_kernel_us": 12.0, "busy_pct": 55.0, "real_work_pct": 50.0,
    }  # fmt: skip
    return on_gpu({}, {"forward": 60.0, "optim": 40.0}, gpu=gpu(**{**usual, **more}))


def test_what_a_larger_batch_hides_is_taken_off_what_it_does_not() -> None:
    assert told_of(launching()) == {"SK404": pytest.approx(0.25), "SK402": pytest.approx(0.15)}
    held = replace(launching(), off_core_frac=0.2, others_cores=0.5)
    assert told_of(held) == {"SK206": pytest.approx(0.2), "SK402": pytest.approx(0.2)}, "not mostly"
    weights = told_of(launching(weights_frac=0.4))
    assert weights == {"SK404": pytest.approx(0.55 * 0.4 + 0.25), "SK402": pytest.approx(0.15)}


def test_memory_traffic_is_said_beside_a_healthy_verdict() -> None:
    """Chains beside a good model: nothing is claimed, but what would tell."""
    card = gpu(real_work_pct=91.0, busy_pct=98.0, idle_pct=2.0, tensor_pct=32.0)
    told = [judge(on_gpu({}, WORK, gpu=replace(card, dram_pct=pct))) for pct in (56.0, 30.0)]
    assert [one.outcome for one in told] == [Outcome.HEALTHY] * 2
    assert ["memory traffic at 56 %" in one.would_tell for one in told] == [True, False]


def test_a_larger_batch_is_advised_where_launches_are() -> None:
    waits = replace(launching(launching_pct={"forward": 40.0}), core_wait_frac=0.15)
    assert told_of(waits)["SK404"] == pytest.approx(0.40 - 0.15 * 0.6), (
        "a thread without a core launches nothing"
    )
    assert "SK404" not in codes(launching(memory=MemoryTrend(frees_per_tick=20.0))), "memory, in every tick"
    assert told_of(launching(alone=False)) == {"SK402": pytest.approx(0.40)}, "whose kernels, is not known"
    assert "SK404" not in codes(replace(launching(), cpu_trained_frac=0.2)), "a part of the model on the CPU"
    stood_still = replace(launching(idle_pct=90.0), host_pct={**launching().host_pct, "save": 45.0})
    assert "SK404" not in codes(stood_still), "most of it is idle for something else"
    unknown = launching(launching_pct={"forward": 6.0}, idle_pct=32.0, unexplained_pct=24.0)
    assert codes(unknown) == [], "more than it is not known at all"


def test_the_optimizers_launches_do_not_grow_with_the_batch() -> None:
    card = gpu(
        idle_pct=30.0, launching_pct={"optim": 20.0, "forward": 6.0}, memory_frac=0.03, median_kernel_us=9.0
    )
    assert codes(on_gpu({}, {"optim": 40.0, "forward": 60.0}, gpu=card))[0] == "SK402"


def test_reads_of_answers_asked_for_one_by_one_are_of_the_asking() -> None:
    ask = Place(("/home/me/train.py", 47, "one_by_one"), None)
    host = {"sync": 33.0, "infer": 14.0, "forward": 20.0, "backward": 33.0}
    card = gpu(idle_pct=40.0, launching_pct={"infer": 13.0})
    reads = (BlockingLine("sync", ask, 44.0, 33.0),)
    found = on_gpu({"sync": 3.0}, host, gpu=card, blocking=reads, one_row_frac=0.9, call_sites={"infer": ask})
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK302": pytest.approx(0.13 * 0.9 + 0.03, abs=0.001)}
    elsewhere = Place(("/home/me/train.py", 80, "one_by_one"), None)
    logs = replace(found, blocking=(BlockingLine("sync", elsewhere, 44.0, 33.0),))
    assert "SK401" in codes(logs), "another line reads"
    once = [replace(found, blocking=(replace(reads[0], per_tick=often),)) for often in (1.0, 1.01)]
    assert [codes(one)[0] for one in once] == ["SK401", "SK401"], "one answer a tick"


def test_a_queue_that_runs_dry_between_stalls() -> None:
    """On average one worker delivers more than is taken; a save is longer than its queue of two batches."""
    host = {"data": 30.0, "save": 64.0, "forward": 6.0}
    empty = replace(view(workers=1).loader, empty_frac=0.8)
    slow = view(workers=1, loader=empty, supply_per_s=26.0, cpu_frac=0.06)
    found = seen(host, loader=slow, demand_per_s=15.0)
    told = {one.code: one for one in judge(found).findings}
    assert list(told) == ["SK203", "SK104"]
    assert any("prefetch_factor" in fix.after for fix in told["SK104"].fixes)
    steady = judge(loading(loader=view(cpu_frac=0.1))).findings[0]
    assert steady.code == "SK104"
    assert not any("prefetch_factor" in fix.after for fix in steady.fixes), "a longer queue runs dry as well"
    said = [one.text for one in told["SK104"].evidence]
    assert "the training could take 175 between stalls" in said
    full = replace(found, loader=replace(slow, loader=replace(empty, empty_frac=0.1)))
    assert "SK104" not in codes(full), "a batch was waiting: it is something else"
    assert "SK104" not in codes(replace(found, host_pct={**found.host_pct, "save": 0.0, "forward": 70.0}))


def test_workers_that_crowd_the_training_thread_out_are_not_too_few() -> None:
    """Their share of the cores is below 90 % by a little, and the training thread waits for one."""
    busy = replace(
        loading(loader=view(cpu_frac=0.73)), cores_allowed=2.0, cores_used=1.8, allowed_cpu_pct=89.0
    )
    assert codes(busy)[0] == "SK102"
    crowded = judge(replace(busy, core_wait_frac=0.34)).findings[0]
    assert (crowded.code, "all are in use" in crowded.says) == ("SK103", False)
    free = replace(busy, core_wait_frac=0.34, cores_allowed=4.0, cores_used=3.0, allowed_cpu_pct=76.0)
    assert codes(free)[0] == "SK102", "there is a core for one more"


def test_lines_of_a_simulator_of_ones_own_are_told_with_it() -> None:
    inside, beside = (("/home/me/train.py", at, name) for at, name in ((30, "Maze.moved"), (80, "main")))
    lines = tuple(
        LineShare("other", Place(leaf, leaf), pct, 100) for leaf, pct in ((inside, 30.0), (beside, 10.0))
    )
    stepped = OwnMethod(0.75, PLACE, frozenset({inside}))
    found = seen({**WORK, "other": 40.0}, lines=lines, own_step=stepped)
    told = judge(found).findings
    assert [one.code for one in told] == ["SK301", "SK201"]
    assert told[1].place is not None
    assert told[1].place.leaf == beside
    elsewhere = judge(replace(found, env_processes=4)).findings
    assert [one.code for one in elsewhere] == ["SK201"], "no cause of its own"
    assert elsewhere[0].recoverable_frac == pytest.approx(0.3)


def test_a_line_that_can_be_mended_comes_before_cores_that_others_have() -> None:
    slow = seen({**WORK, "other": 20.0}, lines=(LineShare("other", PLACE, 20.0, 100),), core_wait_frac=0.4)
    told = judge(slow)
    assert told.outcome is Outcome.CAUSES
    assert [one.code for one in told.findings] == ["SK201", "SK504"]


def test_a_thread_without_a_core_behind_a_full_queue_costs_the_gpu_nothing() -> None:
    busy = on_gpu({}, {"forward": 100.0}, gpu=gpu(idle_pct=2.0), core_wait_frac=0.4)
    assert codes(busy) == []
    idle = on_gpu({}, {"forward": 100.0}, gpu=gpu(idle_pct=30.0), core_wait_frac=0.4)
    assert judge(idle).findings[0].recoverable_frac == pytest.approx(0.3)


def test_cores_that_the_workers_have_are_told_once() -> None:
    starved = loading(loader=view(workers=8, cpu_frac=0.9, busy_frac=1.0), core_wait_frac=0.4)
    assert codes(starved) == ["SK103"]


def test_ranks_that_arrive_together_have_no_straggler() -> None:
    assert codes(seen({"forward": 99.0}, ranks=ranks(5.0))) == []
    assert "in data" in judge(FOUND["SK503"]).findings[0].says


def test_lines_of_one_loop_are_one_cause() -> None:
    """A loop and its body, each with half of the time."""
    lines = tuple(
        LineShare("other", Place(("/home/me/train.py", number, "step"), None), pct, 100)
        for number, pct in ((12, 16.0), (13, 20.0), (40, 4.0))
    )
    first = judge(seen({**WORK, "other": 40.0}, lines=lines)).findings[0]
    assert first.recoverable_frac == pytest.approx(0.36)
    assert first.place is not None
    assert first.place.leaf == ("/home/me/train.py", 13, "step")
    assert first.says.startswith("2 lines")


def test_a_line_that_is_off_its_core_waits_and_needs_another_fix() -> None:
    slow = seen({**WORK, "other": 40.0}, lines=(LineShare("other", PLACE, 40.0, 100),))
    computes, rests = (judge(replace(slow, off_core_frac=off)).findings[0] for off in (0.05, 0.38))
    assert "waits" not in computes.says
    assert "it waits" in rests.says
    assert {fix.text for fix in rests.fixes}.isdisjoint(fix.text for fix in computes.fixes)


def test_whether_a_line_waits_is_not_claimed_where_something_else_may_have_waited() -> None:
    slow = seen({**WORK, "other": 30.0, "data": 20.0}, lines=(LineShare("other", PLACE, 30.0, 100),))
    for other in ({"off_core_frac": 0.2}, {"off_core_frac": 0.5, "others_cores": 0.4}, {}):
        assert "it waits" not in judge(replace(slow, **other)).findings[0].says


def test_lines_of_two_functions_are_not_one_cause() -> None:
    lines = tuple(
        LineShare("other", Place(("/home/me/train.py", number, name), None), 20.0, 100)
        for number, name in ((12, "step"), (13, "log"))
    )
    assert judge(seen({**WORK, "other": 40.0}, lines=lines)).findings[0].recoverable_frac == pytest.approx(
        0.2
    )


def test_turns_win_no_more_than_the_shorter_side() -> None:
    """Environments that take 80 %: beside them the update is free, no more."""
    found = seen({"forward": 20.0, "env": 80.0}, env_steps_per_s=100.0, env_processes=8)
    assert judge(found).findings[0].recoverable_frac == pytest.approx(0.2)


def test_copies_the_counters_call_busy_are_lost_all_the_same() -> None:
    found = on_gpu({"h2d": 2.0}, {"h2d": 50.0, "forward": 50.0}, gpu=gpu(busy_pct=98.0, copying_pct=46.0))
    first = judge(found).findings[0]
    assert first.code == "SK403"
    assert first.recoverable_frac == pytest.approx(0.48)
    works = replace(found, gpu=gpu(busy_pct=98.0, copying_pct=46.0, real_work_pct=70.0))
    assert judge(works).findings[0].recoverable_frac == pytest.approx(0.3), "work is not copying"
    seldom = replace(found, host_pct={**found.host_pct, "h2d": 10.0})
    assert judge(seldom).findings[0].recoverable_frac == pytest.approx(0.10)


def test_an_environment_waits_for_its_actions_whenever_they_are_read() -> None:
    found = on_gpu(
        {"env": 38.0}, {"env": 40.0, "sync": 50.0, "forward": 10.0}, blocking=READ, env_steps_per_s=100.0
    )
    assert codes(found) == ["SK301"]


def test_reads_of_actions_are_told_as_acting() -> None:
    reads = (BlockingLine("sync", PLACE, 24.0, 30.0),)
    found = on_gpu(
        {"infer": 30.0},
        {"infer": 50.0, "sync": 30.0, "forward": 20.0},
        blocking=reads,
        acting_pct=50.0,
        envs_per_call=1.0,
        env_calls_per_tick=24.0,
    )
    assert codes(found) == ["SK302"]
    assert "SK401" in codes(replace(found, env_calls_per_tick=2.0))


def test_launches_between_many_reads_are_of_the_reads() -> None:
    found = on_gpu(
        {},
        {"sync": 50.0, "other": 30.0, "forward": 20.0},
        gpu=gpu(launching_pct={"other": 35.0}),
        blocking=(BlockingLine("sync", PLACE, 100.0, 50.0),),
    )
    assert codes(found) == ["SK401"]
    one = replace(found, blocking=(BlockingLine("sync", PLACE, 1.0, 50.0),))
    assert codes(one) == ["SK401", "SK402"]


def test_a_row_at_a_time_is_seen_without_an_environment() -> None:
    found = seen({**WORK, "infer": 36.0, "other": 4.0}, one_row_frac=0.9)
    (told,) = judge(found).findings
    assert (told.code, told.recoverable_frac) == ("SK302", pytest.approx(0.36 * 0.9))
    assert "one row at a time" in told.says
    assert codes(replace(found, one_row_frac=0.4)) == []
    vector = replace(found, envs_per_call=8.0, acting_pct=36.0)
    assert codes(vector) == ["SK302"], "many environments to a step, and a call of the model for each"


@pytest.mark.parametrize("code", ["SK101", "SK102", "SK106", "SK403", "SK404"])
def test_where_workers_batches_and_pinning_are_set_is_where_the_loader_is_made(code: str) -> None:
    made = Place(("/home/me/train.py", 71, "build"), None)
    seen_by = FOUND[code].loader or view()
    found = replace(FOUND[code], loader=replace(seen_by, loader=replace(seen_by.loader, made=made)))
    first = judge(found).findings[0]
    assert (first.code, first.mend_at) == (code, made)
    assert judge(FOUND["SK104"]).findings[0].mend_at is None


def test_a_line_and_what_it_calls_are_one_thing_to_mend() -> None:
    """Its collections are a second: none of its lines alone would come before them."""
    known, encode = (("/home/me/train.py", 123, "known"), ("/home/me/encode.py", 59, "encode"))
    leads = LineShare("other", Place(known, known), 15.0, 30, inclusive=True)
    inner = LineShare("other", Place(encode, encode), 11.0, 20, under=(known,))
    apart = replace(inner, under=())
    found = seen({**WORK, "gc": 16.0, "other": 26.0}, lines=(leads, inner))
    first = judge(found).findings[0]
    assert (first.code, first.place) == ("SK201", inner.place)
    assert first.recoverable_frac == pytest.approx(0.26)
    assert "2 lines under train.py:123 known take 26 %" in first.says
    assert codes(replace(found, lines=(leads, apart)))[0] == "SK202"
    of_the_step = judge(replace(found, step_lines=frozenset({known}))).findings[1]
    assert of_the_step.recoverable_frac == pytest.approx(0.15), "it calls the model, too"
    loss = (leads, replace(inner, phase="loss"))
    assert judge(replace(found, lines=loss)).findings[1].recoverable_frac == pytest.approx(0.15)


def test_workers_that_take_long_to_start_are_told_though_few_of_those_ticks_were_looked_at() -> None:
    """Evaluations in between hide them: their ticks are no fair sample."""
    started = replace(view().loader, open_s=9.2, wait_s=10.8)
    found = loading(epochs=12, edge_data_frac=0.3, edge_tick_frac=0.06, loader=view(loader=started))
    first = judge(found).findings[0]
    assert (first.code, first.recoverable_frac) == ("SK106", pytest.approx(0.45 * 0.46))
    quick = replace(started, open_s=0.2)
    assert codes(replace(found, loader=view(loader=quick))) == ["SK102"]
    persists = replace(started, persistent_workers=True)
    assert codes(replace(found, loader=view(loader=persists))) == ["SK102"]


def test_a_data_set_that_each_worker_reads_whole_is_shared_out_first() -> None:
    """With num_workers=2 every sample would come twice."""
    for code, workers in (("SK101", 0), ("SK102", 1)):
        seen_by = FOUND[code].loader or view()
        loader = replace(seen_by.loader, iterable=True)
        found = replace(FOUND[code], loader=replace(seen_by, loader=loader, workers=workers))
        first = judge(found).findings[0]
        assert (first.code, advised(first)) == (code, None)
        assert "get_worker_info" in first.fixes[0].after
    assert advised(judge(FOUND["SK102"]).findings[0]) == "num_workers=4"


def test_more_workers_than_cores_are_not_promised() -> None:
    """Sixteen would be needed, two cores are there: twice as fast at most."""
    slow = view(workers=1, fetch_ms=400.0, supply_per_s=2.5, cpu_frac=0.5, busy_frac=0.9)
    found = seen({"data": 93.75, "forward": 6.25}, loader=slow, demand_per_s=40.0, cores_allowed=2.0)
    found = replace(found, cores_used=0.6, allowed_cpu_pct=35.0)
    first = judge(found).findings[0]
    assert "it takes about 16, and your cores allow 2" in first.says
    assert first.ceiling == pytest.approx(2.0, abs=0.01)
    assert "num_workers=2" in first.fixes[0].after


def test_workers_are_not_promised_more_than_the_cores_can_do() -> None:
    """1.5 of 2 cores compute already, and somebody else has a tenth of one: at most 1.27 times as much."""
    own = view(workers=0, fetch_ms=20.0)
    found = seen({"data": 56.0, "forward": 44.0}, loader=own, demand_per_s=60.0, cores_allowed=2.0)
    crowded = judge(replace(found, cores_used=1.5, allowed_cpu_pct=80.0)).findings[0]
    assert crowded.ceiling == pytest.approx(2.27, abs=0.01), "if it were free"
    assert crowded.by_workers == pytest.approx(1.27, abs=0.01)
    assert advised(crowded) == "num_workers=2"
    free = judge(replace(found, cores_used=0.3, allowed_cpu_pct=20.0)).findings[0]
    assert free.by_workers is None
    full = judge(replace(found, cores_used=1.95, allowed_cpu_pct=98.0)).findings[0]
    assert ("all cores are in use" in full.fixes[0].text, advised(full), full.by_workers) == (
        True,
        None,
        None,
    )
    slow = judge(replace(found, cores_used=0.3, loader=replace(own, fetch_ms=60.0))).findings[0]
    assert slow.by_workers == pytest.approx(1.26, abs=0.01), "two workers fetch 33 a second, it has 26 now"


@pytest.mark.parametrize(
    ("pct", "named", "asks"), [(15.0, False, False), (25.0, True, False), (39.0, True, True)]
)
def test_the_line_in_which_collections_begin(pct: float, named: bool, asks: bool) -> None:
    """40 % is in the collector."""
    leaf = ("/home/me/train.py", 12, "tidy")
    line = LineShare("gc", Place(leaf, leaf), pct, 40)
    first = judge(replace(FOUND["SK202"], lines=(line,))).findings[0]
    assert (first.place is not None, "gc.collect() in that line" in first.fixes[0].text) == (named, asks)


@pytest.mark.parametrize(("frac", "times"), [(0.5, 49), (0.1, 6), (0.03, 2)])
def test_how_much_less_often(frac: float, times: int) -> None:
    told = less_often("save", frac, "before", "after").text
    assert told == f"save {times} times as seldom, and it takes 2 %"
    left = frac / times / (frac / times + 1 - frac)
    assert left <= 0.0200001


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("SK101", "(transformers: TrainingArguments(dataloader_num_workers=4))"),
        ("SK102", "(transformers: TrainingArguments(dataloader_num_workers=4))"),
        ("SK106", "(transformers: dataloader_persistent_workers=True)"),
    ],
)
def test_a_library_that_makes_the_loader_has_its_own_word_for_workers(code: str, words: str) -> None:
    trainer = ("/env/lib/python3.11/site-packages/transformers/trainer.py", 816, "Trainer._get_dataloader")

    def fix(made: Line) -> str:
        seen_by = FOUND[code].loader or view()
        loader = replace(seen_by, loader=replace(seen_by.loader, made=Place(made, None)))
        first = judge(replace(FOUND[code], loader=loader)).findings[0]
        assert advised(first), "and the knob works all the same"
        return first.fixes[0].text

    assert words in fix(trainer)
    assert "(" not in fix(("/home/me/train.py", 3, "make"))


def test_quick_environments_are_not_for_processes() -> None:
    found = seen({**WORK, "env": 40.0}, envs_per_call=16.0, env_steps_per_s=80_000.0)
    first = judge(found).findings[0]
    assert (first.code, "so quick" in first.says) == ("SK301", True)
    assert "Async" not in first.fixes[0].after
    slow = judge(replace(found, env_steps_per_s=400.0)).findings[0]
    assert ("so quick" in slow.says, "Async" in slow.fixes[0].after) == (False, True)


def test_what_stands_beside_a_save_is_saving() -> None:
    """`torch.save(state, new)`, then `os.replace(new, path)`."""
    save, rename, far = (("/home/me/train.py", number, "keep") for number in (20, 21, 40))
    lines = tuple(
        LineShare(phase, Place(line, line), 20.0, 80)
        for phase, line in (("save", save), ("other", rename), ("other", far))
    )
    found = seen({**WORK, "save": 20.0, "other": 40.0}, lines=lines)
    told = [(one.code, one.recoverable_frac, one.place) for one in judge(found).findings]
    assert told == [
        ("SK203", pytest.approx(0.4), lines[0].place),
        ("SK201", pytest.approx(0.2), lines[2].place),
    ]


def test_what_stands_beside_any_save_is_saving() -> None:
    """`torch.save`, and a buffer pickled behind it; then `os.fsync`."""
    first, second, fsync = (("/home/me/train.py", number, "keep") for number in (20, 30, 32))
    lines = tuple(
        LineShare(phase, Place(line, line), pct, 80)
        for phase, line, pct in (("save", first, 20.0), ("save", second, 5.0), ("other", fsync, 15.0))
    )
    found = seen({**WORK, "save": 25.0, "other": 15.0}, lines=lines)
    assert [(one.code, one.recoverable_frac) for one in judge(found).findings] == [
        ("SK203", pytest.approx(0.4))
    ]


def test_who_waits_for_processes_that_step_nothing_is_told_nothing_of_environments() -> None:
    waits = LineShare("other", PLACE, 40.0, 100, waits_frac=1.0)
    found = seen({**WORK, "other": 40.0}, lines=(waits,), elsewhere_cores=2.0)
    first = judge(found).findings[0]
    assert (first.code, first.name) == ("SK303", "waits for processes of its own")
    assert "env" not in first.fixes[0].text + first.fixes[0].after
    assert "step_async" in judge(replace(found, simulates=True)).findings[0].fixes[0].after


def test_what_a_call_leads_to_is_one_thing_unless_it_calls_the_model() -> None:
    """Rewards that augment and log are; an epoch is not: to mend the one does nothing for the other."""
    epoch = ("/home/me/train.py", 50, "epoch")
    leads = LineShare("other", Place(epoch, epoch), 14.0, 56, inclusive=True)
    augment, log = (
        LineShare("other", Place(line, line), pct, 70, under=(epoch,))
        for line, pct in ((("/home/me/aug.py", 5, "augment"), 18.0), (("/home/me/log.py", 9, "log"), 17.0))
    )
    found = seen({**WORK, "other": 49.0}, lines=(augment, log, leads))
    first = judge(found).findings[0]
    assert (first.place, first.recoverable_frac) == (augment.place, pytest.approx(0.49))
    assert "3 lines under train.py:50 epoch take 49 %" in first.says
    epochs = replace(found, step_lines=frozenset({epoch}))
    assert judge(epochs).findings[0].recoverable_frac == pytest.approx(0.18)
    deeper = replace(log, under=(augment.place.leaf, epoch))
    nested = judge(replace(epochs, lines=(augment, deeper, leads))).findings[0]
    assert (nested.place, nested.recoverable_frac) == (augment.place, pytest.approx(0.35))
    simulator = replace(
        epochs,
        lines=(augment, deeper, leads),
        own_step=OwnMethod(0.4, log.place, frozenset({log.place.leaf})),
    )
    assert judge(simulator).findings[0].recoverable_frac != pytest.approx(0.35)


def test_of_the_calls_around_the_innermost_with_nearly_all_of_it_is_named() -> None:
    tick, reward, shape = (
        ("/home/me/train.py", n, name) for n, name in ((50, "<module>"), (12, "tick"), (30, "reward"))
    )
    parts = tuple(
        LineShare("other", Place(line, line), pct, 60, under=(shape, reward, tick))
        for line, pct in (
            (("/home/me/shape.py", 5, "angle"), 18.0),
            (("/home/me/shape.py", 29, "contact"), 17.0),
        )
    )
    rest = LineShare("other", Place(reward, reward), 4.0, 20, under=(tick,))
    found = seen({**WORK, "other": 39.0}, lines=(*parts, rest), step_lines=frozenset({tick}))
    first = judge(found).findings[0]
    assert "2 lines under train.py:30 reward take 35 %" in first.says
    more = seen({**WORK, "other": 50.0}, lines=(*parts, replace(rest, pct=15.0)), step_lines=found.step_lines)
    assert "3 lines under train.py:12 tick take 50 %" in judge(more).findings[0].says


def test_only_what_launches_beside_a_call_row_by_row_is_its() -> None:
    """Lines beside the call that leave the GPU idle take nothing from the launches elsewhere."""
    call, beside = (("/home/me/train.py", number, "decide") for number in (82, 83))
    line = LineShare("other", Place(beside, beside), 20.0, 80)
    host = {"infer": 15.0, "other": 20.0, "forward": 30.0, "backward": 35.0}
    card = gpu(launching_pct={"infer": 5.0, "forward": 12.0, "backward": 13.0}, idle_pct=50.0)
    sites = {"infer": Place(call, call)}
    found = on_gpu({"other": 20.0}, host, gpu=card, one_row_frac=1.0, call_sites=sites, lines=(line,))
    told = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert told == {"SK302": pytest.approx(0.25), "SK402": pytest.approx(0.25)}
    launches = replace(found, lost_pct=dict.fromkeys(PHASES, 0.0), gpu=replace(card, launching_pct={
        **card.launching_pct, "other": 20.0
    }))  # fmt: skip
    told = {one.code: one.recoverable_frac for one in judge(launches).findings}
    assert told == {"SK302": pytest.approx(0.25), "SK402": pytest.approx(0.25)}


def hidden_copy(phase: str, pct: float) -> BlockingLine:
    return BlockingLine("h2d", Place(("/home/me/copies.py", 3, "send"), None), 1.0, pct, phase, pct)


def test_copies_inside_of_torch_are_counted_once() -> None:
    asked = on_gpu(
        {},
        {"infer": 40.0, "forward": 30.0, "backward": 30.0},
        gpu=gpu(launching_pct={"infer": 30.0}, idle_pct=30.0),
        one_row_frac=1.0,
        blocking=(hidden_copy("infer", 20.0),),
    )
    told = {one.code: one.recoverable_frac for one in judge(asked).findings}
    assert told == {"SK403": pytest.approx(0.2), "SK302": pytest.approx(0.1)}
    launched = replace(asked, one_row_frac=None)
    told = {one.code: one.recoverable_frac for one in judge(launched).findings}
    assert told == {"SK403": pytest.approx(0.2), "SK402": pytest.approx(0.1)}
    batches = on_gpu(
        {"other": 40.0},
        {"other": 60.0, "forward": 40.0},
        gpu=gpu(idle_pct=40.0),
        own_loading=OwnMethod(1.0, PLACE),
        blocking=(hidden_copy("other", 30.0),),
    )
    told = {one.code: one.recoverable_frac for one in judge(batches).findings}
    assert told == {"SK403": pytest.approx(0.3), "SK101": pytest.approx(0.1)}


def test_copies_that_are_told_as_idle_take_nothing_from_launches() -> None:
    found = on_gpu(
        {"other": 20.0},
        {"other": 50.0, "forward": 50.0},
        gpu=gpu(launching_pct={"other": 15.0}, idle_pct=40.0),
        blocking=(hidden_copy("other", 20.0),),
    )
    assert {one.code: one.recoverable_frac for one in judge(found).findings}["SK402"] == pytest.approx(0.15)


def test_a_line_that_waits_for_a_copy_inside_of_torch_is_no_hot_line() -> None:
    """As any that waits for the GPU."""
    waits = BlockingLine("h2d", PLACE, 1.0, 30.0, "other", 30.0)
    found = on_gpu({"other": 36.0}, {"other": 40.0, "forward": 60.0}, gpu=gpu(idle_pct=40.0), lines=HOT)
    assert codes(found) == ["SK201"]
    assert codes(replace(found, blocking=(waits,))) == ["SK403"]


def test_a_gpu_that_works_enough_is_healthy_beside_copies() -> None:
    card = gpu(busy_pct=96.0, real_work_pct=90.0, real_work_source="gpm", idle_pct=4.0, copying_pct=9.0)
    found = on_gpu({"h2d": 1.0}, {"h2d": 20.0, "forward": 80.0}, gpu=card)
    told = judge(found)
    assert [one.code for one in told.findings] == ["SK403"]
    assert told.outcome is Outcome.HEALTHY


def test_what_stands_beside_a_call_row_by_row_belongs_to_it_unless_it_is_larger() -> None:
    def at(number: int, pct: float, phase: str = "other", **more: Any) -> LineShare:
        leaf = ("/home/me/train.py", number, "decide")
        return LineShare(phase, Place(leaf, leaf), pct, 50, **more)

    def told(around: LineShare, **more: Any) -> list[str]:
        host = {**WORK, "infer": 12.0, "other": 30.0}
        sites = {"infer": at(82, 12.0).place}
        return codes(seen(host, one_row_frac=1.0, call_sites=sites, lines=(around,), **more))

    assert told(at(83, 24.0)) == ["SK302"]
    assert told(at(90, 24.0)) == ["SK201", "SK302"], "further away"
    assert told(at(83, 30.5)) == ["SK201", "SK302"], "a simulator"
    assert told(at(83, 24.0, waits_frac=1.0), elsewhere_cores=2.0) == ["SK303", "SK302"]


def test_beside_a_call_for_a_known_environment_only_what_is_smaller_than_it_belongs_to_it() -> None:
    """The way to a tensor and the draw do; the line that stacks frames is one of its own."""

    def at(number: int, pct: float) -> LineShare:
        leaf = ("/home/me/train.py", number, "act")
        return LineShare("other", Place(leaf, leaf), pct, 80)

    host = {**WORK, "infer": 20.0, "other": 35.0}
    lines = (at(81, 6.0), at(84, 12.0))
    acts = {"acting_pct": 20.0, "envs_per_call": 1.0, "call_sites": {"infer": at(82, 20.0).place}}
    (first, *others) = judge(seen(host, lines=lines, **acts)).findings
    assert (first.code, first.recoverable_frac, others) == ("SK302", pytest.approx(0.38), [])
    assert "18 % is in the lines beside the call" in [one.text for one in first.evidence]
    assert codes(seen(host, lines=(at(81, 6.0), at(83, 25.0)), **acts)) == ["SK302", "SK201"]


def test_reads_that_take_next_to_nothing_are_no_storm() -> None:
    reads = tuple(BlockingLine("sync", PLACE, 1.0, 0.5) for _ in range(5))
    host = {"sync": 2.5, "other": 37.5, "forward": 60.0}
    found = on_gpu({}, host, gpu=gpu(launching_pct={"other": 25.0, "forward": 40.0}), blocking=reads)
    (told,) = judge(found).findings
    assert (told.code, told.recoverable_frac) == ("SK402", pytest.approx(0.65))


@pytest.mark.parametrize(
    ("other_pct", "pct", "looks", "told"),
    [
        (19.5, 7.3, 3, []),
        (19.5, 7.3, 30, ["SK201"]),
        (60.0, 30.0, 5, ["SK201"]),
        (8.0, 8.0, 20, ["SK201"]),
        (8.0, 8.0, 3, []),
        (0.0, 0.0, 3, []),
    ],
)
def test_a_line_is_hot_only_if_the_looks_are_enough_to_know(
    other_pct: float, pct: float, looks: int, told: list[str]
) -> None:
    found = seen({**WORK, "other": other_pct}, lines=(LineShare("other", PLACE, pct, looks),))
    assert codes(found) == told


def test_without_counters_the_names_of_kernels_tell() -> None:
    dark = gpu(busy_pct=97.0, real_work_pct=90.0, idle_pct=3.0, tensor_pct=None, dram_pct=None)
    host = {"forward": 100.0}
    assert codes(on_gpu({}, host, gpu=dark)) == []
    assert codes(on_gpu({}, host, gpu=replace(dark, plain_fp32_frac=0.8))) == ["SK405"]
    mixed = replace(dark, plain_fp32_frac=0.6, tensor_pct=12.0, dram_pct=27.0)
    (told,) = judge(on_gpu({}, host, gpu=mixed)).findings
    assert (told.code, told.recoverable_frac) == ("SK405", pytest.approx(0.6 * 0.97 * 15 / 16))


def test_an_evaluation_in_memory_is_part_of_the_window() -> None:
    own = OwnEvaluation(0.4, 40, PLACE, asked=6, model_frac=0.8)
    found = seen({"infer": 30.0, "forward": 30.0, "backward": 40.0}, own_evaluation=own)
    (told,) = judge(found).findings
    assert (told.code, told.recoverable_frac, told.place) == ("SK204", pytest.approx(0.4), PLACE)
    both = replace(found, stages_s={"train": 80.0, "eval": 20.0})
    assert judge(both).findings[0].recoverable_frac == pytest.approx(0.52)
    assert codes(replace(found, one_row_frac=0.9)) == ["SK302"], "it acts"
    for doubtful in (replace(own, asked=1), replace(own, model_frac=0.3)):
        assert codes(replace(found, own_evaluation=doubtful)) == []


@pytest.mark.parametrize(
    ("asked", "acts_elsewhere", "told"),
    [(6, 0, []), (3, 1, ["SK204"]), (1, 1, []), (60, 1, []), (60, 8, ["SK204"])],
)
def test_beside_an_environment_an_evaluation_is_told_where_acting_is_known(
    asked: int, acts_elsewhere: int, told: list[str]
) -> None:
    own = OwnEvaluation(0.4, 40, PLACE, asked=asked, model_frac=0.2, acts_elsewhere=acts_elsewhere)
    host = {"infer": 20.0, "other": 2.0, "forward": 38.0, "backward": 40.0}
    assert codes(seen(host, own_evaluation=own, simulates=True)) == told


def test_a_wait_for_data_that_nothing_explains_is_said_beside_what_is() -> None:
    """Batches are ready, and still it waits: handing them over takes its time."""
    stages, ready = {"train": 60.0, "eval": 20.0}, replace(view().loader, empty_frac=0.01)
    shares = {"data": 24.0, "forward": 36.0, "backward": 40.0}
    found = seen(shares, loader=view(loader=ready), demand_per_s=20.0, stages_s=stages)
    told = judge(found)
    assert [one.code for one in told.findings] == ["SK204"]
    assert told.would_tell.startswith(
        "why 24 % of the window is waiting for data; at 99 % of the reads a batch"
    )
    alone = judge(replace(found, stages_s={"train": 60.0}))
    assert alone.outcome is Outcome.CANNOT_TELL
    assert alone.would_tell.startswith("at 99 % of the reads a batch was ready")
    empty = judge(replace(found, loader=view()))
    assert empty.would_tell == "why 24 % of the window is waiting for data; a longer run gives more lines"
    assert judge(replace(found, loader=view(workers=0))).would_tell == "", "SK101 explains it"


@pytest.mark.parametrize(
    ("inline", "infer_frac", "ticks_frac", "told"),
    [
        (True, 1.0, 0.01, True),
        (True, 1.0, 1.0, False),
        (True, 1.0, None, False),
        (False, 1.0, 0.01, True),
        (False, 1.0, 1.0, False),
        (False, 0.3, 1.0, True),
        (False, 1.0, None, True),
    ],
)
def test_what_is_asked_in_every_tick_is_no_evaluation(
    inline: bool, infer_frac: float, ticks_frac: float | None, told: bool
) -> None:
    own = OwnEvaluation(0.4, 40, PLACE, 6, 0.8, inline, infer_frac, ticks_frac)
    found = seen({"infer": 30.0, "forward": 30.0, "backward": 40.0}, own_evaluation=own)
    assert (codes(found) == ["SK204"]) is told
    if not inline:
        target = replace(own, asked_elsewhere=1)
        assert codes(replace(found, own_evaluation=target)) == ["SK204"], "the asks of the step are others"


def test_fp32_units_at_work_tell_where_no_kernel_was_named() -> None:
    half = gpu(busy_pct=90.0, real_work_pct=80.0, idle_pct=10.0, tensor_pct=25.0, dram_pct=20.0)
    host = {"forward": 100.0}
    assert codes(on_gpu({}, host, gpu=replace(half, fp32_pct=29.5))) == ["SK405"]
    assert codes(on_gpu({}, host, gpu=replace(half, fp32_pct=8.0))) == []
    assert codes(on_gpu({}, host, gpu=replace(half, fp32_pct=21.0, tensor_pct=55.0))) == []
    named = replace(half, fp32_pct=29.5, plain_fp32_frac=0.03)
    assert codes(on_gpu({}, host, gpu=named)) == [], "other arithmetic than matrix products"


def test_health_by_counters_alone_says_what_would_tell_more() -> None:
    full = gpu(busy_pct=95.0, real_work_pct=88.0, idle_pct=5.0, tensor_pct=12.0, dram_pct=27.0, fp32_pct=11.0)
    told = judge(on_gpu({}, {"forward": 100.0}, gpu=full))
    assert (told.outcome, "--deep" in told.would_tell) == (Outcome.HEALTHY, True)
    assert "tensor cores are at 12 %, plain FP32 at 11 %" in told.would_tell
    for seen in (replace(full, tensor_pct=60.0), replace(full, chains=Chains(0.0, 0.0, 0.0))):
        assert judge(on_gpu({}, {"forward": 100.0}, gpu=seen)).would_tell == ""


def test_long_chains_of_element_by_element_kernels_are_a_cause_with_a_ceiling() -> None:
    full = gpu(busy_pct=90.0, real_work_pct=90.0, idle_pct=10.0, tensor_pct=None, dram_pct=None)
    other = Place(("/home/me/train.py", 70, "augment"), ("/home/me/train.py", 70, "augment"))
    host = {"other": 40.0, "forward": 60.0}
    chained = on_gpu(
        {},
        host,
        gpu=replace(full, chains=Chains(0.5, 0.48, 60.0)),
        lines=(LineShare("forward", PLACE, 20.0, 50), LineShare("other", other, 30.0, 75)),
    )
    first = judge(chained).findings[0]
    assert (first.code, first.recoverable_frac, first.place) == ("SK409", pytest.approx(0.432), other)
    assert codes(on_gpu({}, host, gpu=replace(full, chains=Chains(0.1, 0.09, 9.0)))) == []
    small = replace(full, chains=Chains(0.5, 0.48, 60.0), real_work_pct=20.0, memory_frac=0.9)
    assert codes(on_gpu({}, host, gpu=small)) == []


def test_a_line_that_waits_for_the_gpu_is_no_hot_line() -> None:
    """Looks that fell into the wait were put into the phase around it."""
    lines = (LineShare("other", PLACE, 30.0, 75),)
    found = on_gpu({"other": 20.0}, {"other": 30.0, "sync": 10.0, "forward": 60.0}, lines=lines)
    assert codes(found) == ["SK201"]
    waits = (BlockingLine("sync", PLACE, 0.05, 10.0),)
    assert codes(replace(found, blocking=waits)) == []
    reads_once = (BlockingLine("sync", PLACE, 0.05, 2.0),)
    assert codes(replace(found, blocking=reads_once)) == ["SK201"]


def test_a_scalar_on_the_cpu_is_no_split_model() -> None:
    found = FOUND["SK406"]
    assert codes(replace(found, cpu_trained_frac=1e-6)) == ["SK402"]
    assert codes(found) == ["SK406"]


def test_memory_that_fills_in_days_is_no_leak() -> None:
    found = FOUND["SK408"]
    assert found.gpu is not None
    slow = replace(found.gpu, memory=MemoryTrend(0.0, 0.0, 1e4, 1e2, 3e6))
    assert judge(replace(found, gpu=slow)).outcome is Outcome.HEALTHY
    assert judge(found).findings[0].severity is Severity.CRITICAL


def test_a_training_that_is_evaluated_most_of_the_time_leaves_a_short_window() -> None:
    short = seen({"forward": 40.0, "backward": 60.0}, window_s=1.6, ticks=106)
    assert verdict_on(short).outcome is Outcome.CANNOT_TELL
    evaluated = replace(short, stages_s={"train": 1.6, "eval": 2.5})
    assert [one.code for one in verdict_on(evaluated).findings] == ["SK204"]
    assert verdict_on(replace(evaluated, ticks=5)).outcome is Outcome.CANNOT_TELL


def held(reason: str, limit_frac: float | None, looks_frac: float = 0.9) -> list[str]:
    full = gpu(busy_pct=97.0, real_work_pct=92.0, idle_pct=3.0, clock_frac=0.8)
    slow = replace(full, throttled_by={reason: looks_frac}, power_limit_frac=limit_frac)
    return codes(on_gpu({}, {"forward": 100.0}, gpu=slow))


def test_full_load_at_the_power_limit_the_card_came_with_is_no_cause() -> None:
    assert held("power cap", 1.0) == []
    assert held("power cap", None) == [], "the default limit is not known: nothing is claimed"
    assert held("power cap", 0.7) == ["SK502"]


def test_heat_and_clocks_somebody_set_are_causes_at_any_power_limit() -> None:
    assert held("thermal slowdown (hardware)", 1.0) == ["SK502"]
    assert held("application clocks setting", None) == ["SK502"]
    assert held("thermal slowdown (software)", 1.0, looks_frac=0.1) == []


def test_waiting_for_launches_in_a_few_lines_of_the_users_code_is_of_those_lines() -> None:
    """A tree walked in Python between two copies: the GPU is given something now and then."""
    walks = (LineShare("other", PLACE, 36.0, 60),)
    waiting = gpu(launching_pct={"other": 30.0, "backward": 6.0})
    host = {"other": 40.0, "forward": 30.0, "backward": 30.0}
    told = judge(on_gpu({}, host, gpu=waiting, lines=walks)).findings
    assert [finding.code for finding in told] == ["SK201", "SK402"]
    assert told[0].recoverable_frac == pytest.approx(0.27)
    assert told[1].recoverable_frac == pytest.approx(0.09)
    assert codes(on_gpu({}, host, gpu=waiting)) == ["SK402"], "no line stands out"


def test_a_loop_of_small_kernels_of_ones_own_is_launch_bound_in_its_line() -> None:
    line = LineShare("other", PLACE, 36.0, 24, computes=0)
    waiting = gpu(launching_pct={"other": 30.0, "backward": 6.0}, own_launches=True)
    host = {"other": 40.0, "forward": 30.0, "backward": 30.0}
    (told,) = judge(on_gpu({}, host, gpu=waiting, lines=(line,))).findings
    assert (told.code, told.place, told.recoverable_frac) == ("SK402", PLACE, pytest.approx(0.36))
    for other in (replace(line, computes=1), replace(line, computes=None), replace(line, samples=9)):
        assert codes(on_gpu({}, host, gpu=waiting, lines=(other,)))[0] == "SK201"
    assert codes(on_gpu({"other": 30.0}, host, lines=(line,))) == ["SK201"], "nothing is launched there"
    unseen = replace(waiting, own_launches=False)
    assert codes(on_gpu({}, host, gpu=unseen, lines=(line,)))[0] == "SK201", "it may be NumPy between copies"


def test_a_little_launching_beside_more_that_is_not_known_is_not_named() -> None:
    host = {"forward": 50.0, "backward": 50.0}
    little = gpu(launching_pct={"backward": 6.0}, idle_pct=16.0, unexplained_pct=10.0)
    assert codes(on_gpu({}, host, gpu=little)) == []
    assert codes(on_gpu({}, host, gpu=replace(little, unexplained_pct=3.0))) == ["SK402"]
    assert codes(on_gpu({}, host, gpu=replace(little, launching_pct={"backward": 11.0}))) == ["SK402"]


def test_a_thread_without_a_core_launches_late() -> None:
    late = on_gpu({}, {"forward": 50.0, "backward": 50.0}, gpu=gpu(launching_pct={"backward": 25.0}))
    assert codes(late) == ["SK402"]
    told = {one.code: one.recoverable_frac for one in judge(replace(late, core_wait_frac=0.22)).findings}
    assert told == {"SK402": pytest.approx(0.25 - 0.22 / 2), "SK504": pytest.approx(0.22)}


def test_workers_that_crowd_out_the_training_thread_leave_no_core() -> None:
    """Batches are ready; to take them over takes a core, too."""
    busy = view(workers=8, cpu_frac=0.6, busy_frac=0.9)
    found = loading(loader=busy, core_wait_frac=0.15, cores_used=7.0, cores_allowed=8.0, demand_per_s=1.0)
    assert codes(found) == ["SK103"]
    assert "SK103" not in codes(replace(found, loader=replace(busy, busy_frac=0.1))), "it is not the workers"
    assert "SK103" not in codes(replace(found, cores_used=3.0)), "others have them"
    assert "SK103" not in codes(replace(found, core_wait_frac=0.02))


def test_a_copy_that_waits_for_nothing_is_no_read() -> None:
    """It is made in every tick; the waiting is in a read that comes now and then."""
    other = Place(("/home/me/train.py", 99, "log"), None)
    copied = (BlockingLine("sync", PLACE, 1.0, 0.3), BlockingLine("sync", other, 0.1, 29.7))
    assert codes(replace(FOUND["SK401"], blocking=copied)) == []
    both = (replace(copied[0], pct=20.0), copied[1])
    reads = next(one for one in judge(replace(FOUND["SK401"], blocking=both)).findings if one.code == "SK401")
    assert (reads.place, reads.recoverable_frac) == (PLACE, pytest.approx(0.20))


def test_a_part_on_the_cpu_has_its_backward_too() -> None:
    host = {"forward": 40.0, "backward": 45.0, "sync": 15.0}
    alone = gpu(idle_pct=50.0, host_alone_pct={"forward": 9.0, "backward": 29.0})
    (told, *_) = judge(on_gpu({"forward": 9.0, "backward": 29.0}, host, gpu=alone)).findings
    assert (told.code, told.recoverable_frac) == ("SK406", pytest.approx(0.38))
    crowded = on_gpu({"forward": 9.0, "backward": 29.0}, host, gpu=alone, core_wait_frac=0.2)
    assert {one.code: one.recoverable_frac for one in judge(crowded).findings}["SK406"] == pytest.approx(0.18)
    only = replace(alone, host_alone_pct={"backward": 29.0})
    assert "SK406" not in codes(on_gpu({"backward": 29.0}, host, gpu=only)), "no call of the model tells"


def test_an_iterator_of_ones_own_is_loading_by_the_training_thread() -> None:
    line = LineShare("other", PLACE, 36.0, 200)
    loads = OwnMethod(0.8, Place(("/home/me/train.py", 30, "main"), None), frozenset({LINE}))
    found = seen({"other": 40.0, "forward": 60.0}, lines=(line,), own_loading=loads)
    (told,) = judge(found).findings
    assert (told.code, told.place, told.recoverable_frac) == ("SK101", PLACE, pytest.approx(0.32))
    assert codes(replace(found, own_loading=replace(loads, frac=0.1))) == ["SK201"]
    assert "SK101" not in codes(replace(found, loader=view(workers=8))), "it hands on what workers made"


def test_launches_are_slow_where_the_workers_have_taken_the_cores() -> None:
    crowded = view(workers=16, cpu_frac=0.9, busy_frac=1.0)
    starved = on_gpu(
        {"data": 18.0},
        {"data": 40.0, "forward": 30.0, "backward": 30.0},
        gpu=gpu(launching_pct={"backward": 17.0, "forward": 12.0}),
        loader=crowded,
        demand_per_s=60.0,
        cores_allowed=16.0,
        allowed_cpu_pct=75.0,
    )
    told = judge(starved).findings
    assert [finding.code for finding in told] == ["SK103"]
    assert told[0].recoverable_frac == pytest.approx(0.47)
    free = replace(starved, loader=view(workers=2))
    assert "SK402" in codes(free)


@pytest.mark.parametrize(
    ("work_pct", "idle_pct", "outcome"),
    [(91.0, 7.0, Outcome.HEALTHY), (91.0, 12.0, Outcome.CAUSES), (88.0, 7.0, Outcome.CAUSES)],
)
def test_an_estimate_of_real_work_outweighs_a_small_loss(
    work_pct: float, idle_pct: float, outcome: Outcome
) -> None:
    """A loss printed in every tick, of a model that fills the card."""
    card = gpu(busy_pct=100 - idle_pct, real_work_pct=work_pct, real_work_source="deep", idle_pct=idle_pct)
    found = on_gpu({"sync": 2.0}, {"sync": 60.0, "forward": 40.0}, gpu=card, blocking=READ)
    assert judge(found).outcome is outcome


def test_an_upper_bound_of_real_work_does_not_outweigh_a_measured_loss() -> None:
    thrash = gpu(busy_pct=91.0, real_work_pct=86.0, idle_pct=9.0, memory=MemoryTrend(frees_per_tick=20.0))
    found = on_gpu({"other": 9.0}, {"other": 70.0, "forward": 30.0}, gpu=thrash)
    assert judge(found).outcome is Outcome.HEALTHY
    estimated = replace(found, gpu=replace(thrash, real_work_source="deep"))
    assert judge(estimated).outcome is Outcome.CAUSES


def test_a_part_of_the_model_that_is_not_trained_shows_in_the_models_calls() -> None:
    alone = gpu(launching_pct={"infer": 40.0, "backward": 8.0}, host_alone_pct={"infer": 36.0})
    host = {"infer": 66.0, "forward": 14.0, "backward": 20.0}
    told = judge(on_gpu({}, host, gpu=alone)).findings
    assert [finding.code for finding in told] == ["SK406", "SK402"]
    assert told[0].recoverable_frac == pytest.approx(0.36)
    assert told[1].recoverable_frac == pytest.approx(0.12), "what is left of launching"
    small = replace(alone, host_alone_pct={"infer": 2.0})
    assert codes(on_gpu({}, host, gpu=small)) == ["SK402"]
    assert "SK406" not in codes(on_gpu({}, host, gpu=alone, acting_pct=64.0)), "a policy on the CPU"
    thrash = replace(alone, memory=MemoryTrend(frees_per_tick=20.0))
    assert codes(on_gpu({}, host, gpu=thrash)) == ["SK407"], "cudaFree waits as long"


def test_quick_batches_are_not_for_workers() -> None:
    told = judge(loading(loader=view(workers=0, fetch_ms=0.8))).findings[0]
    assert (told.code, "workers would cost more" in told.says) == ("SK101", True)
    assert not any("num_workers" in fix.after for fix in told.fixes)
    assert "num_workers" in judge(FOUND["SK101"]).findings[0].fixes[0].after


def test_compiling_that_has_finished_is_no_cause() -> None:
    """A short run shows the first compiling, which every compiled training has."""
    storm = FOUND["SK205"]
    assert verdict_on(replace(storm, compile_late_pct=30.0)).findings[0].code == "SK205"
    told = verdict_on(replace(storm, window_s=8.0, compile_late_pct=0.0))
    assert told.outcome is Outcome.CANNOT_TELL
    assert told.text.startswith("torch.compile was at work for 40 % of the 8 s of training, and then had fin")
    assert not told.findings


def test_a_model_asked_in_every_tick_is_a_part_of_the_step() -> None:
    """A target network, a teacher."""
    asked = seen({"infer": 30.0, "forward": 30.0, "backward": 40.0})
    assert "evaluated too often" in judge(asked).would_tell
    assert judge(replace(asked, asked_ticks_frac=1.0)).would_tell == ""


@pytest.mark.parametrize(("edge", "restarts"), [(0.95, True), (0.7, False)])
def test_epochs_of_two_batches(edge: float, restarts: bool) -> None:
    found = loading(epochs=60, edge_data_frac=edge, edge_tick_frac=0.5)
    assert (judge(found).findings[0].code == "SK106") is restarts


def test_an_emptied_cache_hides_nothing_where_a_deep_window_tells_what_its_calls_take() -> None:
    words = Place(("/home/me/train.py", 30, "words"), None)
    lines = (
        LineShare("other", words, 40.0, 150, computes=30),
        LineShare("other", PLACE, 20.0, 80, computes=0),
    )
    memory = MemoryTrend(frees_per_tick=20.0)
    card = gpu(idle_pct=70.0, launching_pct={"forward": 15.0}, memory=memory)
    found = on_gpu({"other": 50.0}, {"other": 60.0, "forward": 40.0}, gpu=card, lines=lines)
    assert codes(found) == ["SK407"], "nobody knows what is left"
    told = {"other": 18.0, "forward": 5.0}
    said = judge(replace(found, gpu=replace(card, driver_memory_pct=told))).findings
    assert {one.code: one.recoverable_frac for one in said} == {
        "SK201": pytest.approx(0.33, abs=0.01),
        "SK407": pytest.approx(0.23),
        "SK402": pytest.approx(0.10),
    }
    places = {one.code: one.place for one in said}
    assert (places["SK201"], places["SK407"]) == (words, PLACE)


def test_reads_are_not_blamed_for_what_stalls_or_computes_on_the_cpu() -> None:
    card = gpu(idle_pct=60.0, host_alone_pct={"infer": 25.0})
    host = {"sync": 40.0, "infer": 30.0, "save": 16.0, "forward": 14.0}
    found = on_gpu(
        {"infer": 25.0, "save": 16.0}, host, gpu=card, blocking=(BlockingLine("sync", PLACE, 1.0, 40.0),)
    )
    said = {one.code: one.recoverable_frac for one in judge(found).findings}
    assert list(said) == ["SK406", "SK401", "SK203"]
    assert said["SK401"] == pytest.approx(0.19), "60 - 25 - 16"


def test_a_line_that_waits_inside_of_torch_takes_no_idle_time_from_the_others() -> None:
    """`torch.tensor(seen, device="cuda")` waits until the GPU is done; it idles while the simulator runs."""
    tensor = Place(("/home/me/train.py", 75, "sail"), None)
    lines = (
        LineShare("other", tensor, 45.0, 60, computes=0),
        LineShare("other", PLACE, 30.0, 40, computes=0),
    )
    step = OwnMethod(0.4, Place(("/home/me/train.py", 79, "sail"), None), frozenset({LINE}))
    host = {"other": 75.0, "forward": 25.0}
    found = on_gpu({"other": 36.0}, host, gpu=gpu(idle_pct=36.0), lines=lines, own_step=step)
    assert codes(found)[0] == "SK201", "who waits there is not known"
    waits = (BlockingLine("sync", tensor, 1.0, 44.0, inside="other"),)
    first = judge(replace(found, blocking=waits)).findings[0]
    assert (first.code, first.recoverable_frac) == ("SK301", pytest.approx(0.35, abs=0.01))
