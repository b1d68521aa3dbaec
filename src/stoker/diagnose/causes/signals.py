"""All that a rule may see: figures, never the names of scripts or functions. Made in `taken.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stoker.diagnose.causes.arrivals import Arrivals
from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.thresholds import (
    COMPILES_ON_PCT,
    CORE_WAIT_FRAC,
    ELSEWHERE_CORES,
    LINES_APART,
    OTHERS_CORES,
    READS_FRAC,
    READS_STORM,
    RESTS_FRAC,
    WAITED_FOR_CORES,
    WAITING_LINE_FRAC,
    WAITS_FRAC,
)
from stoker.diagnose.loading import LoaderView
from stoker.diagnose.long_ticks import LongTicks
from stoker.diagnose.own_evaluations import OwnEvaluation
from stoker.diagnose.own_steps import OwnMethod
from stoker.diagnose.places import LineShare
from stoker.model.record import COMPUTE, PHASES, Line, Place

_MAY_WAIT = ("data", "env", "save", "compile")
_MAY_SPIN = ("h2d", "sync")
"""Waiting for a GPU the thread usually stays on its core: CUDA asks again and again. (Of 25 trainings on an
H200 with up to 88 % of their time there all were off their core for 0 to 2 %, 2026-11-19.) It may be told to
block, too."""


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
    lines: tuple[LineShare, ...] = ()

    def line_ms(self, leaf: Line | None) -> float:
        """Per tick."""
        return sum(line.pct for line in self.lines if line.place.leaf == leaf) / 100 * self.tick_ms


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
    step_lines: frozenset[Line] = frozenset()
    """Lines that lead to the model, an environment or a batch."""
    call_sites: Mapping[str, Place] = field(default_factory=dict)
    """Of the model, by phase: the line that calls it most often."""
    cpu_trained_frac: float = 0.0
    """Of what optimizers train, where some of it is on a GPU: the share on the CPU."""
    of_functions: bool = False
    """The model is no torch module: what of the user's own code it is, nobody knows."""
    updates_by_hand: bool = False
    """No optimizer of torch's steps: what of the user's own code changes the weights, nobody knows."""
    looks_fit: bool = True
    """Looks are not dated. Hardly any were before the window, or after it."""
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
    early_own_frac: float = 0.0
    """Of the time in `other`, as far as looks tell of it: in the warm-up. A look is not dated."""
    long_ticks: LongTicks | None = None
    """At a fixed distance, in the model's own phases."""
    quota_frac: float | None = None
    """Of the window: held back because a CPU quota was used up."""

    @property
    def own_code_trains(self) -> bool:
        """What is the training's of the user's own code cannot be told apart, since no GPU tells work from
        waiting."""
        return (self.of_functions or self.updates_by_hand) and self.gpu is None

    @property
    def may_wait(self) -> tuple[str, ...]:
        """Phases, beside the user's own code, in which the training thread may be off its core. It spins if
        it waits for the GPU longer than it is off its core in all."""
        waits = sum(self.host_pct[phase] for phase in _MAY_SPIN) / 100
        spins = self.gpu is not None and self.off_core_frac is not None and self.off_core_frac < waits
        return _MAY_WAIT if spins else (*_MAY_WAIT, *_MAY_SPIN)

    @property
    def compiles_on(self) -> bool:
        """Not just once, at the beginning."""
        return self.compile_late_pct is None or self.compile_late_pct >= COMPILES_ON_PCT

    @property
    def cores_busy_frac(self) -> float | None:
        return None if self.allowed_cpu_pct is None else self.allowed_cpu_pct / 100

    @property
    def lost_of(self) -> str:
        return "GPU idle time" if self.gpu else "time of the training thread"

    def lost(self, phase: str) -> float:
        """Known loss, as a share of the window."""
        return (self.lost_pct.get(phase) or 0.0) / 100

    def idle_in(self, phases: Iterable[str]) -> float:
        """Of the window: the GPU idles in them, waits for launches anywhere, or it is not told why."""
        if self.gpu is None:
            return 0.0
        told = sum(map(self.lost, phases))
        told += (sum(self.gpu.launching_pct.values()) + self.gpu.unexplained_pct) / 100
        return min(told, (self.gpu.idle_pct or 100.0) / 100)

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

    def own_code_rests(self, part: float = 1.0) -> bool:
        """Most of `other`, or of a part of it, the thread is off its core and waits for none, nor for the
        interpreter: asleep, at a lock, for a file or the network. What it may have waited for in other
        phases, in the rest of `other`, or while another thread had the interpreter, is taken off."""
        whole, others = self.host_pct["other"] / 100, self.others_cores or 0.0
        if self.off_core_frac is None:
            return False
        own, elsewhere = part * whole, (1 - part) * whole
        elsewhere += sum(self.host_pct[phase] for phase in self.may_wait) / 100
        elsewhere += others if others >= OTHERS_CORES else 0.0
        return own > 0 and self.off_core_frac - elsewhere >= RESTS_FRAC * own

    def own_part_lost(self, own: OwnMethod) -> float:
        """Of the window, with the launches of that part."""
        return self._lost_at_work("other") * self.own_part(own)

    def own_part(self, own: OwnMethod) -> float:
        """Of what the thread is at work in `other`."""
        at_work_pct = self._at_work_pct("other")
        return min(1.0, own.frac * self.host_pct["other"] / at_work_pct) if at_work_pct else 0.0

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

    def beside_saving(self) -> list[LineShare]:
        """Lines of the user's own right beside one that saves: a rename, the making of what is saved, a wait
        until it is on the disk."""
        saves = [line.place.user or line.place.leaf for line in self.lines if line.phase == "save"]
        own = (line for line in self.lines if line.phase == "other")
        return [line for line in own if any(beside(line.place.leaf, save) for save in saves)]

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


def beside(line: Line | None, other: Line | None) -> bool:
    """Lines of one function, no further apart than a loop and its body."""
    if line is None or other is None:
        return False
    return line[::2] == other[::2] and abs(line[1] - other[1]) <= LINES_APART


def waits(found: Signals) -> dict[str, float]:
    """What each phase costs, % of the window. On a CPU the model's own phases are work; on a GPU one
    that leaves it idle is a loss like any other."""
    work = COMPUTE if found.loss_is_work else COMPUTE - {"loss"}
    if found.gpu:
        work = frozenset()
    return {name: pct or 0.0 for name, pct in found.lost_pct.items() if name not in work}
