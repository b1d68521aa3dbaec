"""The signals of a run, taken from its summary once: what the rules are given (`signals.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stoker.diagnose.causes.arrivals import Arrivals, arrivals
from stoker.diagnose.causes.gpu_signals import gpu_signals
from stoker.diagnose.causes.signals import BlockingLine, RankSignals, Signals
from stoker.diagnose.causes.thresholds import (
    HIDDEN_LINE_FRAC,
    HIDDEN_WAIT_PCT,
    LOOKS_FIT_FRAC,
)
from stoker.diagnose.env_calls import envs_per_call
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.host import core_shares, host_view
from stoker.diagnose.loading import LoaderView
from stoker.diagnose.long_ticks import LongTicks, long_ticks
from stoker.diagnose.model_inputs import inputs_within, one_row_frac
from stoker.diagnose.own_evaluations import asked_ticks_frac, evaluated_at, own_evaluation
from stoker.diagnose.own_steps import OwnMethod, own_loading, own_step
from stoker.diagnose.places import call_site, lines_of_the_step
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.diagnose.window import spans
from stoker.model.host import HostRecord
from stoker.model.record import PHASES, OtherThreads, Place
from stoker.model.run import Run


def signals(summary: Summary) -> Signals | None:
    """Of the first training process; None where there is none."""
    main = summary.main
    if main is None:
        return None
    use = main.gpus.main
    hidden = frozenset(cause.phase for cause in use.budget.phases if cause.hidden) if use else frozenset()
    host = host_view(summary.run.host, *main.window.span)
    view = main.loaders[0] if main.loaders else None
    edges = _edges(main, view)
    model_pct = sum(main.phase_pct[name] for name in ("infer", "forward", "backward"))
    stepped = _own_step(main)
    simulates = stepped is not None or _has_env(main)
    core_wait, off_core = _off_core(summary, main, use)
    met = arrivals(summary)
    return Signals(
        window_s=main.window.seconds,
        ticks=main.window.content.ticks,
        host_pct=dict(main.phase_pct),
        lost_pct=_lost(main, use, hidden),
        hidden=hidden,
        compute_pct=main.compute_pct,
        loss_is_work=main.phase_pct["loss"] <= model_pct,
        lines=tuple(main.lines),
        blocking=(*_blocking(main), *_hidden(main, use)),
        loader=view,
        demand_per_s=_demand_per_s(main, view),
        epochs=view.loader.epochs if view else 0,
        edge_data_frac=edges[0],
        edge_tick_frac=edges[1],
        cores_allowed=host.cores_allowed if host else None,
        cores_used=host.cores_used if host else None,
        allowed_cpu_pct=host.allowed_cpu_pct if host else None,
        queue_per_core=_queue_per_core(summary.run.host, *main.window.span),
        elsewhere_cores=_elsewhere_cores(summary.run.host, main.record.pid, *main.window.span),
        stages_s=dict(main.stages_s),
        env_steps_per_s=main.throughput.env_steps_per_s,
        envs_per_call=envs_per_call(main.record),
        acting_pct=main.acting_pct,
        env_processes=_env_processes(summary.run, main),
        gpu=gpu_signals(use, main) if use else None,
        ranks=tuple(_ranks(summary)),
        arrivals=met,
        waits_for_ranks_frac=_waits_for_ranks_frac(met, main.record.rank),
        env_calls_per_tick=_env_calls_per_tick(main),
        step_lines=lines_of_the_step(main.record),
        call_sites=_call_sites(main),
        cpu_trained_frac=_cpu_trained_frac(main.record.trained_elements),
        of_functions=main.of_functions,
        updates_by_hand=main.named_step or main.tick_kind is TickKind.BACKWARD_PASS,
        looks_fit=_looks_fit(main),
        own_step=stepped,
        early_own_frac=_early_own_frac(main),
        one_row_frac=one_row_frac(inputs_within(main.record, *main.window.span)),
        own_evaluation=own_evaluation(main.record, main.phase_pct),
        simulates=simulates,
        own_loading=None if simulates else own_loading(main.record),
        evaluated_at=evaluated_at(main.record),
        asked_ticks_frac=asked_ticks_frac(main.record),
        compile_late_pct=_compile_late_pct(main),
        core_wait_frac=core_wait,
        off_core_frac=off_core,
        others_cores=_others_cores(main.record.other_threads),
        others_place=_others_place(main.record.other_threads),
        quota_frac=host.throttled_frac if host else None,
        long_ticks=None if use else _long_ticks(main),
    )


def _long_ticks(main: Trainer) -> LongTicks | None:
    start_s, end_s = main.window.span
    if start_s is None or end_s is None:
        return None
    return long_ticks([tick for tick in main.record.ticks if start_s < tick.end_s <= end_s])


def _looks_fit(main: Trainer) -> bool:
    whole_s = sum(span.content.t_s for span in spans(main.record) if span.stage == "train")
    return main.window.content.t_s >= LOOKS_FIT_FRAC * whole_s


def _waits_for_ranks_frac(met: Arrivals | None, rank: int | None) -> float:
    return next((one.waits_frac for one in met.ranks if one.rank == rank), 0.0) if met else 0.0


def _off_core(summary: Summary, main: Trainer, use: GpuUse | None) -> tuple[float | None, float | None]:
    """Ready and without a core; waiting for something else. On a GPU the first thread waits while another
    runs backward: what else it waits for is known only where that one is counted, too."""
    shares = core_shares(summary.run.host, main.record.pid, *main.window.span)
    if shares is None:
        return None, None
    return shares[0], shares[1] if use is None or shares[2] > 1 else None


def _early_own_frac(main: Trainer) -> float:
    whole_s = sum(span.content.phase("other") for span in spans(main.record) if span.stage == "train")
    late_s = main.window.content.phase("other")
    return max(0.0, 1 - late_s / whole_s) if main.window.warmup_s and whole_s > 0 else 0.0


def _others_cores(threads: OtherThreads | None) -> float | None:
    if threads is None or not threads.trains_first or threads.looked_s <= 0:
        return None
    return sum(seconds for _, seconds in threads.spent) / threads.looked_s


def _others_place(threads: OtherThreads | None) -> Place | None:
    return max(threads.spent, key=lambda one: one[1])[0] if threads and threads.spent else None


def _compile_late_pct(main: Trainer) -> float | None:
    start_s, end_s = main.window.span
    if start_s is None or end_s is None:
        return None
    late_s = end_s - (end_s - start_s) / 3
    rows = [row.sums for row in main.record.seconds if late_s <= row.sums.t_s <= end_s]
    if len(rows) < 2:
        return None
    late = rows[-1].minus(rows[0])
    return 100 * late.phase("compile") / late.t_s if late.t_s > 0 else None


def _lost(main: Trainer, use: GpuUse | None, hidden: frozenset[str]) -> dict[str, float | None]:
    if use is None:
        return {name: main.phase_pct[name] for name in PHASES}
    lost: dict[str, float | None] = dict.fromkeys(PHASES, 0.0)
    lost.update({cause.phase: cause.idle_pct for cause in use.budget.phases})
    return {name: 0.0 if name in hidden else pct for name, pct in lost.items()}


def _blocking(main: Trainer) -> list[BlockingLine]:
    ticks = main.record.last.ticks if main.record.last else 0
    return [
        BlockingLine(line.phase, line.place, (line.count or 0) / ticks, line.pct)
        for line in main.lines
        if line.exact and ticks
    ]


def _hidden(main: Trainer, use: GpuUse | None) -> list[BlockingLine]:
    """Waits inside of torch, as a deep window saw them, each in the line of its phase that looks found most
    often and never computing: it takes at least the wait."""
    if use is None or use.deep is None or not main.window.content.ticks:
        return []
    ticks, found = use.deep.ticks, []
    usual_s = ticks * main.window.seconds / main.window.content.ticks
    for wait in use.deep.hidden_waits if ticks else ():
        pct = min(100 * wait.seconds / usual_s, main.phase_pct[wait.phase])
        lines = (one for one in main.lines if one.phase == wait.phase and one.place.leaf and not one.computes)
        line = next((one for one in lines if one.pct >= HIDDEN_LINE_FRAC * pct), None)
        if line is not None and pct >= HIDDEN_WAIT_PCT:
            idle_pct = pct * wait.idle_s / wait.seconds
            per_tick = wait.count / ticks
            found.append(BlockingLine(wait.kind, line.place, per_tick, pct, wait.phase, idle_pct))
    return found


def _demand_per_s(main: Trainer, view: LoaderView | None) -> float | None:
    """Accumulation takes several batches for one tick, some algorithms several ticks of one batch."""
    content, last = main.window.content, main.record.last
    free_s = content.t_s - content.phase("data")
    if view is None or last is None or not last.ticks or free_s <= 0:
        return None
    return content.ticks * view.loader.batches / last.ticks / free_s


def _edges(main: Trainer, view: LoaderView | None) -> tuple[float | None, float | None]:
    """The longest waits for data, as many as epochs began: their share of all of them, and of the ticks. Of
    the whole training, for so many epochs it had; then those within the window."""
    last = main.record.last
    if view is None or last is None or not last.ticks:
        return None, None
    start_s = main.window.parts[0][0] if main.window.parts else 0.0
    place = PHASES.index("data")
    waits = [(tick.phase_s[place], tick.end_s > start_s) for tick in main.record.ticks if tick.phase_s]
    longest = sorted(waits, reverse=True)[: math.ceil(len(waits) * view.loader.epochs / last.ticks)]
    inside = [wait for wait, within in waits if within]
    edges = [wait for wait, within in longest if within]
    if not edges or sum(inside) <= 0:
        return None, None
    return sum(edges) / sum(inside), len(edges) / len(inside)


def _queue_per_core(record: HostRecord, start_s: float | None, end_s: float | None) -> float | None:
    cores = record.header.cores_machine if record.header else None
    looks = [
        row.running
        for row in record.readings
        if row.running is not None and (start_s or 0.0) <= row.t <= (end_s or math.inf)
    ]
    return max(1.0, sum(looks) / len(looks) / cores) if cores and looks else None


def _elsewhere_cores(
    record: HostRecord, pid: int, start_s: float | None, end_s: float | None
) -> float | None:
    """None under a launcher or a shell: there the training is a process beside the first."""
    if record.header is None or record.header.root_pid != pid:
        return None
    counted = [row for row in record.readings if row.descendants_cpu_s_total is not None]
    rows = [row for row in counted if (start_s or 0.0) <= row.t <= (end_s or math.inf)]
    if len(rows) < 2 or rows[-1].t <= rows[0].t:
        return None
    spent = (rows[-1].descendants_cpu_s_total or 0.0) - (rows[0].descendants_cpu_s_total or 0.0)
    return spent / (rows[-1].t - rows[0].t)


def _call_sites(main: Trainer) -> dict[str, Place]:
    sites = {phase: call_site(main.record, phase) for phase in ("infer", "forward")}
    if sites["infer"] is None:  # too few looks: where a model that is trained was seen to be asked
        asked = max(main.record.acted, key=lambda one: one.count, default=None)
        sites["infer"] = asked.place if asked is not None and asked.place.leaf else None
    return {phase: site for phase, site in sites.items() if site is not None}


def _own_step(main: Trainer) -> OwnMethod | None:
    """None where environments are seen, or the model is never asked without gradients."""
    return None if _has_env(main) or not main.phase_pct["infer"] else own_step(main.record)


def _has_env(main: Trainer) -> bool:
    return main.record.last is not None and main.record.last.env_steps > 0


def _env_calls_per_tick(main: Trainer) -> float:
    last = main.record.seconds[-1] if main.record.seconds else None
    return last.env_calls / last.sums.ticks if last and last.sums.ticks else 0.0


def _cpu_trained_frac(elements: Mapping[str, int]) -> float:
    """0 where nothing is trained on a GPU: then the CPU is the device."""
    total = sum(elements.values())
    return elements.get("cpu", 0) / total if elements.get("cuda") else 0.0


def _env_processes(run: Run, main: Trainer) -> int:
    others = (process for process in run.processes if process.pid != main.record.pid)
    return sum(bool(process.last and process.last.env_steps) for process in others)


def _ranks(summary: Summary) -> list[RankSignals]:
    found = []
    for trainer in summary.trainers:
        ticks, rank = trainer.window.content.ticks, trainer.record.rank
        if rank is None or not ticks or trainer.tick_kind is not TickKind.OPTIMIZER_STEP:
            continue
        tick_ms = 1000 * trainer.window.seconds / ticks
        phases = {name: tick_ms * pct / 100 for name, pct in trainer.phase_pct.items()}
        found.append(RankSignals(rank, tick_ms, phases, tuple(trainer.lines)))
    return found
