"""What one process of a run said about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.model.deep import DeepNote
from stoker.model.knobs import KnobReport, TrainingFacts
from stoker.model.lead import Lead

PHASES: tuple[str, ...] = (
    "other",
    "data",
    "env",
    "infer",
    "h2d",
    "forward",
    "loss",
    "backward",
    "optim",
    "sync",
    "save",
    "gc",
    "compile",
)
COMPUTE: frozenset[str] = frozenset({"infer", "forward", "loss", "backward", "optim"})
"""On a CPU these are the device at work; everything else is waiting."""
STALLS = ("save", "gc", "compile")
"""Phases that come seldom, last long, and give the GPU nothing."""

Line = tuple[str, int, str]
"""File, line, function."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Cumulative sums at one moment; the difference of two is the exact content of the time between."""

    t_s: float
    phase_s: tuple[float, ...]
    ticks: int
    samples: int
    env_steps: int
    backwards: int

    def minus(self, earlier: Sums) -> Sums:
        return Sums(
            self.t_s - earlier.t_s,
            tuple(a - b for a, b in zip(self.phase_s, earlier.phase_s, strict=True)),
            self.ticks - earlier.ticks,
            self.samples - earlier.samples,
            self.env_steps - earlier.env_steps,
            self.backwards - earlier.backwards,
        )

    def plus(self, other: Sums) -> Sums:
        return Sums(
            self.t_s + other.t_s,
            tuple(a + b for a, b in zip(self.phase_s, other.phase_s, strict=True)),
            self.ticks + other.ticks,
            self.samples + other.samples,
            self.env_steps + other.env_steps,
            self.backwards + other.backwards,
        )

    def phase(self, name: str) -> float:
        return self.phase_s[PHASES.index(name)]


NOTHING = Sums(0.0, (0.0,) * len(PHASES), 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ModelInput:
    graph: bool
    """Gradients are recorded."""
    shape: tuple[int, ...]
    """Of the first tensor."""
    mode: str = ""
    """Of a model that is trained, asked without gradients: `eval` or `train`."""


@dataclass(frozen=True, slots=True)
class Second:
    """One row a second."""

    sums: Sums
    stage: str
    acting_s: float
    tick_max_s: float | None
    env_calls: int
    pulse_s: float
    closely_frac: float = 1.0
    """Of the stretches between ticks and env calls, those in which phases were told apart."""
    inputs: tuple[ModelInput, ...] = ()
    """What the model was given in training, as far as it was looked at."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A stage begins."""

    stage: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class Tick:
    end_s: float
    duration_s: float
    optimizer: int
    phase_s: tuple[float, ...] | None
    """None where the phases of this tick were not told apart."""


@dataclass(frozen=True, slots=True)
class TickTimes:
    """When ticks ended and how long they took, oldest first: what is cheap to read of a tick."""

    end_s: Sequence[float]
    duration_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class Loader:
    """A DataLoader as the process that reads from it sees it."""

    id: int
    num_workers: int
    batch_size: int | None
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory: bool
    length: int | None
    dataset: str
    epochs: int
    batches: int
    wait_s: float
    wait_max_s: float
    open_s: float
    depth_mean: float | None
    empty_frac: float | None
    iterable: bool = False
    """Its data set is an IterableDataset, which every worker reads. (Its length is not known; nor is that of
    a sampler of the script's own.)"""
    made: Place | None = None
    """The line that made it; None in records of 2026-11-18 and before."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A DataLoader worker, or the training thread fetching for itself (`number` is None)."""

    pid: int
    number: int | None
    batches: int
    samples: int
    wall_s: float
    cpu_s: float
    collate_s: float
    sample_max_s: float
    alive_s: float
    lines: tuple[tuple[Line | None, Line | None, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """The innermost line that is not plumbing, and the innermost line of the user's own code."""

    leaf: Line | None
    user: Line | None


@dataclass(frozen=True, slots=True)
class Sampled:
    phase: str
    stage: str
    place: Place
    count: int
    callers: tuple[Line, ...] = ()
    """The lines that led to the place's leaf, from the inside out."""
    waits: int = 0
    """Of `count`: the thread waited for another process."""
    computes: int | None = None
    """Of `count`: it was found at a jump or the beginning of a function, as only code that computes in Python
    itself is, and that only now and then. None: not told (before Python 3.11)."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A line that made the training thread wait for the device, or copied to it: exact time."""

    phase: str
    place: Place
    count: int
    total_s: float
    stage: str = "train"


@dataclass(frozen=True, slots=True)
class OtherThreads:
    """Threads of the process, beside the one that trains, that run Python: what they took of the CPU."""

    looked_s: float
    """Seconds over which it was counted."""
    spent: tuple[tuple[Place, float], ...]
    """By the line they were found in, once a second: seconds of CPU."""
    trains_first: bool
    """The training runs in the first thread of the process."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """A GPU this process uses, with what torch's allocator held there at one moment."""

    t_s: float
    index: int
    """torch's, in this process."""
    uuid: str | None
    name: str | None
    total_bytes: int | None
    allocated_bytes: int | None = None
    allocated_max_bytes: int | None = None
    reserved_bytes: int | None = None
    reserved_max_bytes: int | None = None
    retries: int | None = None
    """Times the allocator had to give all its cached memory back before it could allocate."""
    ooms: int | None = None
    driver_allocs: int | None = None
    """Blocks it took from the driver (cudaMalloc), and gave back to it (cudaFree)."""
    driver_frees: int | None = None
    allocator: str | None = None
    """Where it is not torch's native one, which alone tells the rest."""


@dataclass(frozen=True, slots=True)
class HookFailure:
    name: str
    error: str
    when: str


@dataclass(frozen=True, slots=True)
class Raised:
    """An uncaught exception."""

    type: str
    message: str
    kind: str
    file: str | None
    line: int | None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    pid: int
    ppid: int
    python: str
    torch: str | None
    argv: tuple[str, ...]
    began_s: float
    process_start_s: float | None
    rank: int | None
    world: int | None
    seconds: tuple[Second, ...] = ()
    marks: tuple[Mark, ...] = ()
    ticks: tuple[Tick, ...] = ()
    slow_ticks: tuple[Tick, ...] = ()
    optimizers: tuple[str, ...] = ()
    optimizer_steps: tuple[int, ...] = ()
    trained_elements: dict[str, int] = field(default_factory=dict)
    """Numbers that optimizers train, by kind of device: `cpu`, `cuda`."""
    sequence: tuple[tuple[int | str, int], ...] = ()
    loaders: tuple[Loader, ...] = ()
    workers: tuple[Worker, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    blocking: tuple[Blocking, ...] = ()
    ranges: dict[str, tuple[int, float]] = field(default_factory=dict)
    hook_failures: tuple[HookFailure, ...] = ()
    raised: Raised | None = None
    ended: bool = False
    lost_rows: int = 0
    unreadable_rows: int = 0
    batch_rows: int | None = None
    evaluated: tuple[Sampled, ...] = ()
    """Looks into calls without gradients, once a second: those of a model that is trained, in eval mode."""
    acted: tuple[Sampled, ...] = ()
    """The same in training mode."""
    tick_times: TickTimes | None = None
    """Of all ticks, or of the last minutes of a long run; None where they are too many to read in no time."""
    file: str = ""
    """The name of its .jsonl file."""
    other_threads: OtherThreads | None = None
    devices: tuple[DeviceUse, ...] = ()
    """Oldest first; one row per device now and then."""
    deep: DeepNote | None = None
    lead: Lead | None = None
    knobs: tuple[KnobReport, ...] = ()
    facts: TrainingFacts | None = None
    """Only where knobs were asked for, or a comparison."""
    leads: tuple[tuple[float, Lead], ...] = ()
    """What it said so far at each moment it was written, with that moment: cumulative."""

    @property
    def last(self) -> Sums | None:
        return self.seconds[-1].sums if self.seconds else None
