"""All that a rule may see, made once from a summary: figures, never the names of scripts or functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stoker.diagnose.causes.arrivals import Arrivals, arrivals
from stoker.diagnose.causes.gpu_signals import GpuSignals, gpu_signals
from stoker.diagnose.causes.thresholds import (
    COMPILES_ON_PCT,
    CORE_WAIT_FRAC,
    ELSEWHERE_CORES,
    HIDDEN_LINE_FRAC,
    HIDDEN_WAIT_PCT,
    OTHERS_CORES,
    READS_FRAC,
    READS_STORM,
    RESTS_FRAC,
    WAITED_FOR_CORES,
    WAITING_LINE_FRAC,
    WAITS_FRAC,
)
from stoker.diagnose.env_calls import envs_per_call
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.host import core_shares, host_view
from stoker.diagnose.loading import LoaderView
from stoker.diagnose.model_inputs import inputs_within, one_row_frac
from stoker.diagnose.own_evaluations import OwnEvaluation, asked_ticks_frac, evaluated_at, own_evaluation
from stoker.diagnose.own_steps import OwnMethod, own_loading, own_step
from stoker.diagnose.places import LineShare, call_site
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.tick_kinds import TickKind
from stoker.model.host import HostRecord
from stoker.model.record import COMPUTE, PHASES, OtherThreads, Place
from stoker.model.run import Run

MAY_WAIT = ("data", "env", "h2d", "sync", "save", "compile")
"""Phases, beside the user's own code, in which the training thread may be off its core."""


@dataclass(frozen=True, slots=True)
class BlockingLine:
    phase: str
    place: Place
    per_tick: float
    pct: float
    """Of the window, host clock."""
    inside: str = ""
    """Of torch, in this phase: from a deep window, and its line from looks."""
    idle_pct: float = 0.0
    """Of the window, where that tells: no kernel runs meanwhile."""


@dataclass(frozen=True, slots=True)
class RankSignals:
    rank: int
    tick_ms: float
    phase_ms: Mapping[str, float]
    """Per tick."""


@dataclass(frozen=True, slots=True)
class Signals:
    window_s: float
    ticks: int
    host_pct: Mapping[str, float]
    """Phases of the training thread, % of the window."""
    lost_pct: Mapping[str, float | None]
    """What a phase costs: on a GPU the idle time it caused, on a CPU its time. None: not known. Hidden waits
    cost nothing."""
    hidden: frozenset[str]
    compute_pct: float
    loss_is_work: bool
    lines: tuple[LineShare, ...]
    blocking: tuple[BlockingLine, ...]
    loader: LoaderView | None
    demand_per_s: float | None
    """Batches a second the training could take."""
    epochs: int
    edge_data_frac: float | None
    """Of the waiting for data: on the first ticks of epochs."""
    edge_tick_frac: float | None
    cores_allowed: float | None
    cores_used: float | None
    allowed_cpu_pct: float | None
    queue_per_core: float | None
    """Threads that run or want to, for each core of the machine; never below 1."""
    elsewhere_cores: float | None
    """Used by processes of the run other than the command's first."""
    stages_s: Mapping[str, float]
    env_steps_per_s: float | None
    envs_per_call: float | None
    acting_pct: float
    env_processes: int
    """Other processes of the run that stepped environments."""
    gpu: GpuSignals | None
    ranks: tuple[RankSignals, ...]
    arrivals: Arrivals | None = None
    waits_for_ranks_frac: float = 0.0
    """Of the time, for ranks that come later; its GPU may be spinning meanwhile."""
    env_calls_per_tick: float = 0.0
    call_sites: Mapping[str, Place] = field(default_factory=dict)
    """Of the model, by phase: the line that calls it most often."""
    cpu_trained_frac: float = 0.0
    """Of what optimizers train, where some of it is on a GPU: the share on the CPU."""
    own_loading: OwnMethod | None = None
    """Only where no environment is stepped: a replay buffer may be an iterator, too."""
    own_step: OwnMethod | None = None
    """A simulator no hook knows, where the model is asked for actions."""
    one_row_frac: float | None = None
    """Of the model's calls without gradients: those with one row of what is trained in batches."""
    own_evaluation: OwnEvaluation | None = None
    """Of tensors in memory, where no environment is seen."""
    simulates: bool = False
    """It steps environments, or something that is one by its name."""
    evaluated_at: Place | None = None
    """The line that evaluates, where that is a stage of its own."""
    asked_ticks_frac: float | None = None
    """Of the ticks: those in which some model is asked without gradients."""
    compile_late_pct: float | None = None
    """Of the last third of the window, in torch.compile; None: not known."""
    core_wait_frac: float | None = None
    """Of the window: the training thread was ready to run and had no core."""
    off_core_frac: float | None = None
    """Of the window: the training thread waited for something else than a core."""
    others_cores: float | None = None
    """Used by other threads of its process that run Python; None: not known, or it is no first thread."""
    others_place: Place | None = None
    """Where those are found most."""
    quota_frac: float | None = None
    """Of the window: held back because a CPU quota was used up."""

    @property
    def compiles_on(self) -> bool:
        """Not just once, at the beginning."""
        return self.compile_late_pct is None or self.compile_late_pct >= COMPILES_ON_PCT

    @property
    def lost_of(self) -> str:
        return "GPU idle time" if self.gpu else "time of the training thread"

    def lost(self, phase: str) -> float:
        """Known loss, as a share of the window."""
        return (self.lost_pct.get(phase) or 0.0) / 100

    def line_lost(self, line: LineShare) -> float:
        """The part of its phase's loss that is the line's."""
        return self._lost_at_work(line.phase) * self.line_part(line)

    def line_part(self, line: LineShare) -> float:
        """Of its phase."""
        whole = self._at_work_pct(line.phase)
        return min(1.0, line.pct / whole) if whole > 0 else 0.0

    def _at_work_pct(self, phase: str) -> float:
        """Without what is waited for the GPU, or for a copy to it, inside of torch."""
        waits = sum(one.pct for one in self.blocking if one.inside == phase)
        return max(0.0, self.host_pct.get(phase, 0.0) - waits)

    def _lost_at_work(self, phase: str) -> float:
        """Of the window, in what is left of the phase without those waits: but for copies the GPU is at work
        in them."""
        lost = self.own_code_lost() if phase == "other" else self.lost(phase)
        return max(0.0, lost - self.hidden_copies_pct().get(phase, 0.0) / 100)

    def own_code_lost(self) -> float:
        """Of the window, in `other`."""
        return self.lost("other") + self.own_launching()

    def without_core(self) -> float:
        """Of the window, in whatever phase: the training thread is ready and has no core, so that it does
        nothing. As much as SK504 speaks of; less may be anywhere."""
        waits = self.core_wait_frac or 0.0
        return waits if waits >= CORE_WAIT_FRAC else 0.0

    def lost_of_waiting(self, frac: float) -> float:
        """Of the window, where the training thread waited for so much of it: on a GPU no more than its idle
        time, since behind a full queue the thread may wait for nothing."""
        return frac if self.gpu is None else min(frac, (self.gpu.idle_pct or 0.0) / 100)

    def own_code_rests(self) -> bool:
        """Most of `other` the thread is off its core and waits for none, nor for the interpreter: asleep, at
        a lock, for a file or the network. What it may have waited for in other phases is taken off."""
        own = self.host_pct["other"] / 100
        if self.off_core_frac is None or (self.others_cores or 0.0) >= OTHERS_CORES:
            return False
        elsewhere = sum(self.host_pct[phase] for phase in MAY_WAIT) / 100
        return own > 0 and self.off_core_frac - elsewhere >= RESTS_FRAC * own

    def own_part_lost(self, own: OwnMethod) -> float:
        """Of the window, with the launches of that part."""
        at_work_pct = self._at_work_pct("other")
        return self._lost_at_work("other") * min(
            1.0, own.frac * self.host_pct["other"] / at_work_pct if at_work_pct else 0
        )

    def own_part_lines(self, own: OwnMethod | None) -> list[LineShare]:
        lines = own.lines if own is not None else ()
        return [line for line in self.lines if line.phase == "other" and line.place.leaf in lines]

    def own_launching(self) -> float:
        """Of the window: the GPU waits while the thread is in the user's own code, which gives it something
        now and then. Between many reads a tick each launch finds the GPU empty: that is of the reads."""
        if self.gpu is None or self.reads_storm():
            return 0.0
        return self.gpu.launching_pct.get("other", 0.0) / 100

    def with_edges_of(self, whole: Signals) -> Signals:
        """The part of a run, with what is told from single ticks and is known for all of it only."""
        return replace(self, edge_data_frac=whole.edge_data_frac, edge_tick_frac=whole.edge_tick_frac)

    def hidden_copies_pct(self) -> dict[str, float]:
        """By phase: no kernel runs, since something is copied to the GPU inside of torch."""
        copies = [one for one in self.blocking if one.phase == "h2d" and one.inside]
        return {phase: sum(one.idle_pct for one in copies if one.inside == phase) for phase in PHASES}

    def reads_storm(self) -> bool:
        """Many reads a tick, which take some time: launches between them are small because of them."""
        waiting = self.host_pct.get("sync", 0.0) / 100
        return self.reads_per_tick() >= READS_STORM and waiting >= READS_FRAC

    def reads_per_tick(self) -> float:
        return sum(line.per_tick for line in self.blocking if line.phase == "sync")

    def top_line(self, phase: str) -> LineShare | None:
        return next((line for line in self.lines if line.phase == phase and line.place.leaf), None)

    def waits_for_gpu(self, line: LineShare) -> bool:
        """It is known to wait there, and long enough: then what looks found in it is that wait, whatever
        phase they were put in. A line that computes for long and reads one number is another thing."""
        waits = (one for one in self.blocking if one.phase == "sync" or one.inside)
        here = sum(one.pct for one in waits if one.place.leaf == line.place.leaf)
        return here >= WAITING_LINE_FRAC * line.pct

    def waits_for_own_processes(self) -> list[LineShare]:
        """Lines outside of model, loader and environment in which it waits for processes of the run: by what
        they call, or since it rests there."""
        rests = self.own_code_rests()
        lines = [
            line
            for line in self.lines
            if line.phase in ("other", "loss") and line.place.leaf
            if line.waits_frac >= WAITS_FRAC or (rests and line.phase == "other")
        ]
        waiting = sum(line.pct for line in lines) / 100
        needed = max(ELSEWHERE_CORES * waiting, WAITED_FOR_CORES)
        loads = self.loader is not None and self.loader.workers > 0  # then they may be its workers
        return lines if (self.elsewhere_cores or 0.0) >= needed and not loads else []


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
        call_sites=_call_sites(main),
        cpu_trained_frac=_cpu_trained_frac(main.record.trained_elements),
        own_step=stepped,
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
    )


def _waits_for_ranks_frac(met: Arrivals | None, rank: int | None) -> float:
    return next((one.waits_frac for one in met.ranks if one.rank == rank), 0.0) if met else 0.0


def _off_core(summary: Summary, main: Trainer, use: GpuUse | None) -> tuple[float | None, float | None]:
    """Ready and without a core; waiting for something else. On a GPU the first thread waits while another
    runs backward: what else it waits for is known only where that one is counted, too."""
    shares = core_shares(summary.run.host, main.record.pid, *main.window.span)
    if shares is None:
        return None, None
    return shares[0], shares[1] if use is None or shares[2] > 1 else None


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
        found.append(RankSignals(rank, tick_ms, phases))
    return found


def waits(found: Signals) -> dict[str, float]:
    """What each phase costs, % of the window. On a CPU the model's own phases are work; on a GPU one
    that leaves it idle is a loss like any other."""
    work = COMPUTE if found.loss_is_work else COMPUTE - {"loss"}
    if found.gpu:
        work = frozenset()
    return {name: pct or 0.0 for name, pct in found.lost_pct.items() if name not in work}
