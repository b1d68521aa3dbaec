"""A run in figures: what the page, the JSON and later the causes are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from stoker.diagnose.chosen import Chosen
from stoker.diagnose.classes import LIMITS, Limits
from stoker.diagnose.env_calls import envs_per_call
from stoker.diagnose.gpu_use import GpusUsed, gpus_used
from stoker.diagnose.iteration import Iteration, find_iteration
from stoker.diagnose.loading import LoaderView, loader_views
from stoker.diagnose.places import LineShare, line_shares, pct
from stoker.diagnose.recurring import known_periods
from stoker.diagnose.tick_kinds import TickKind, tick_kind, with_ticks
from stoker.diagnose.window import Window, stage_seconds, training_window
from stoker.model.record import COMPUTE, PHASES, ProcessRecord
from stoker.model.run import Run
from stoker.store.deep_files import read_trace

NO_FORWARD_FRAC = 0.05
"""Of the backward pass. Of 131 recordings with a torch module the least is 0.10, of a rank that waits for
another in backward, and the next 0.18; of a loss alone that is a module 0.02. Own, 2026-11-19."""
GRAPH, CALLED = "CUDAGraph", "()"
"""Among the names of optimizers: it steps by being replayed; it is a function, whose name ends so."""


@dataclass(frozen=True, slots=True)
class Throughput:
    ticks_per_s: float | None
    samples_per_s: float | None
    env_steps_per_s: float | None
    updates_per_env_step: float | None
    backwards_per_tick: float | None


@dataclass(frozen=True, slots=True)
class Trainer:
    """One training process."""

    record: ProcessRecord
    window: Window
    stages_s: dict[str, float]
    phase_pct: dict[str, float]
    acting_pct: float
    """Of the window; part of `infer`."""
    throughput: Throughput
    iteration: Iteration | None
    lines: list[LineShare]
    loaders: list[LoaderView]
    gpus: GpusUsed = field(default_factory=GpusUsed)

    @property
    def stage_pct(self) -> dict[str, float]:
        """Of the wall time of the process."""
        life = sum(self.stages_s.values())
        return {stage: 100 * value / life for stage, value in self.stages_s.items()} if life > 0 else {}

    @property
    def of_functions(self) -> bool:
        """A backward pass with next to no forward one, which may be a loss that is a torch module: the model
        is none, and counts as `other`."""
        return self.phase_pct["forward"] < NO_FORWARD_FRAC * self.phase_pct["backward"]

    @property
    def graphed(self) -> bool:
        """The step that ticks is the replay of a CUDA graph."""
        return self._ticks_by == GRAPH

    @property
    def named_step(self) -> bool:
        """It is a function the user named (`--step`)."""
        return self._ticks_by.endswith(CALLED)

    @property
    def _ticks_by(self) -> str:
        steps = zip(self.record.optimizer_steps, self.record.optimizers, strict=False)
        return max(steps, key=lambda one: one[0], default=(0, ""))[1]  # of several the first

    @property
    def rest_pct(self) -> float:
        """Of the wall time: everything that is not training. (A warm-up is, though not in the budget.)"""
        return sum(pct for stage, pct in self.stage_pct.items() if stage not in ("train", "warm-up"))

    @property
    def compute_pct(self) -> float:
        return sum(self.phase_pct[name] for name in COMPUTE)

    @property
    def tick_kind(self) -> TickKind:
        return tick_kind(self.record)


@dataclass(frozen=True, slots=True)
class Length:
    """How long the whole training would take, and where that is known from."""

    seconds: float
    total: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Summary:
    run: Run
    trainers: list[Trainer]
    length: Length | None
    chosen: Chosen | None = None
    """A window the user asked for beside the steady one."""
    limits: Limits = LIMITS
    """Between the classes of runs."""

    @property
    def main(self) -> Trainer | None:
        return self.trainers[0] if self.trainers else None


def summarise(run: Run) -> Summary:
    trainers = [_with_gpus(run, trainer(record)) for record in run.trainers]
    return Summary(run, trainers, _length(run, trainers[0]) if trainers else None)


def _with_gpus(run: Run, one: Trainer) -> Trainer:
    trace = read_trace(run.folder, one.record.deep) if one.record.deep else None
    return replace(one, gpus=gpus_used(run, one.record, one.window, one.phase_pct, trace))


def trainer(record: ProcessRecord) -> Trainer:
    record = with_ticks(record)
    iteration = find_iteration(record.sequence)
    window = training_window(record, known_periods(record, iteration))
    return Trainer(
        record=record,
        window=window,
        stages_s=stage_seconds(record, window),
        phase_pct={name: pct(window.content, name) for name in PHASES},
        acting_pct=_acting_pct(record, window),
        throughput=throughput(record, window, iteration),
        iteration=iteration,
        lines=line_shares(record, window.content),
        loaders=loader_views(record),
    )


def _acting_pct(record: ProcessRecord, window: Window) -> float:
    """Known for the whole life; the share within `infer` is taken over to the window."""
    last = record.seconds[-1] if record.seconds else None
    infer_s = last.sums.phase("infer") if last else 0.0
    if last is None or infer_s <= 0:
        return 0.0
    return pct(window.content, "infer") * min(1.0, last.acting_s / infer_s)


def throughput(record: ProcessRecord, window: Window, iteration: Iteration | None) -> Throughput:
    content, seconds = window.content, window.seconds

    def rate(count: int) -> float | None:
        return count / seconds if count and seconds > 0 else None

    ratio = _updates_per_env_step(record, window, iteration)
    accumulated = content.backwards / content.ticks if content.ticks and content.backwards else None
    return Throughput(rate(content.ticks), rate(content.samples), rate(content.env_steps), ratio, accumulated)


def _updates_per_env_step(record: ProcessRecord, window: Window, iteration: Iteration | None) -> float | None:
    """From whole iterations where they are known: a window may cut a rollout in two."""
    content = window.content
    if not content.env_steps or not content.ticks or not sum(record.optimizer_steps):
        return None
    envs = envs_per_call(record)
    if iteration is None or not iteration.env_calls or envs is None:
        return content.ticks / content.env_steps
    return max(iteration.optimizer_steps.values(), default=0.0) / (iteration.env_calls * envs)


_TOTAL = re.compile(r"^\s*([\d_]+(?:\.\d+)?(?:e\d+)?)\s*(ticks|steps|samples|env_steps|epochs)?\s*$", re.I)
_FLAGS = {
    "total-timesteps": "env_steps",
    "max-steps": "ticks",
    "max-iters": "ticks",
    "epochs": "epochs",
    "max-epochs": "epochs",
    "num-epochs": "epochs",
}


def parse_total(text: str) -> tuple[float, str] | None:
    """`100000 ticks`, `5e6 env_steps`, `90 epochs`; a bare number counts ticks."""
    match = _TOTAL.match(text)
    if not match:
        return None
    unit = (match[2] or "ticks").lower()
    count = _count(match[1])
    return (count, "ticks" if unit == "steps" else unit) if count else None


def _count(text: str) -> float | None:
    """A positive number; None for anything else, such as the -1 that means no limit."""
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return None
    return value if 0 < value < 1e15 else None


def _length(run: Run, main: Trainer) -> Length | None:
    if run.info.total:
        given = parse_total(run.info.total)
        return _time_for(*given, main, "--total") if given else None
    if run.info.ended_by == "itself" and run.info.failure is None:
        return None  # it was the whole training
    for flag, value in _flags(run.info.command):
        unit = _FLAGS.get(flag)
        if unit:
            found = _time_for(value, unit, main, f"--{flag} in the command")
            if found is not None:
                return found
    return None


def _time_for(total: float, unit: str, main: Trainer, source: str) -> Length | None:
    """Training time only, at the speed of the window, plus the share that evaluation and saving took."""
    if unit == "epochs":
        per_epoch = _ticks_per_epoch(main)
        if per_epoch is None:
            return None
        count, rate = total * per_epoch, main.throughput.ticks_per_s
    else:
        rates = {
            "ticks": main.throughput.ticks_per_s,
            "samples": main.throughput.samples_per_s,
            "env_steps": main.throughput.env_steps_per_s,
        }
        count, rate = total, rates.get(unit)
    if not rate:
        return None
    return Length(count / rate * _overhead(main), total, unit, source)


def _ticks_per_epoch(main: Trainer) -> float | None:
    """Batches of the main loader, and how many ticks came of each so far: accumulation takes several batches
    for one tick, some algorithms make several ticks of one batch."""
    loader = next((view.loader for view in main.loaders if view.loader.length), None)
    if loader is None or loader.length is None or not loader.batches or main.record.last is None:
        return None
    return loader.length * main.record.last.ticks / loader.batches


def _overhead(main: Trainer) -> float:
    """Wall time per second of training, once started: evaluation and saving come on top."""
    train = main.stages_s.get("train", 0.0)
    extra = main.stages_s.get("eval", 0.0) + main.stages_s.get("save", 0.0)
    return 1.0 + extra / train if train > 0 else 1.0


def _flags(command: tuple[str, ...]) -> list[tuple[str, float]]:
    found = []
    for index, part in enumerate(command):
        if not part.startswith("--"):
            continue
        name, _, value = part[2:].partition("=")
        if not value and index + 1 < len(command):
            value = command[index + 1]
        if count := _count(value):
            found.append((name.replace("_", "-").lower(), count))
    return found
