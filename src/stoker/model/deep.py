"""A deep window: what the GPU did for about a second, and where the training thread was meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Activity(StrEnum):
    KERNEL = "kernel"
    COPY = "copy"
    FILL = "fill"


@dataclass(frozen=True, slots=True)
class DeepNote:
    """What a process says of its deep window; the events lie in a file of their own."""

    state: str
    """`taken`, `not taken`, `failed`."""
    mode: str
    """`asked` (--deep), `auto`, or `late`: by itself, where counters tell real work."""
    why: str = ""
    """Why it was not taken, or ended before its time."""
    start_s: float = 0.0
    end_s: float = 0.0
    """On the clock of the record; both are ends of ticks."""
    ticks: int = 0
    events: int = 0
    dropped: int = 0
    """Events beyond the bound, which were not kept."""
    details: bool = False
    """Kineto said how broad kernels are and how many bytes copies move."""
    clock_us: float | None = None
    """How far the GPU's times may be off against the host's."""
    stall_s: dict[str, float | None] = field(default_factory=dict)
    """What the training paid: prepare, sync, disable, teardown (None: CUPTI was not seen to go), extract."""
    cuda_graphs: bool = False
    file: str = ""
    names: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    """What the training thread may be called in the waits; none: those were not recorded."""

    @property
    def taken(self) -> bool:
        return self.state == "taken"


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """Seconds count from the start of the window; an event may begin before it or end after it."""

    kind: Activity
    start_s: float
    end_s: float
    device: int
    stream: int
    name: str
    moved_bytes: int | None = None
    blocks_per_sm: float | None = None
    """Known of every n-th kernel; below 1 some multiprocessors have nothing to do."""
    occupancy_pct: int | None = None

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class HostSpan:
    start_s: float
    end_s: float
    phase: str


@dataclass(frozen=True, slots=True)
class HostWait:
    """A call into CUDA that lasted: it waited for a stream, a device or a copy, or asked for memory."""

    start_s: float
    end_s: float
    name: str
    own: bool = True
    """Of the training thread; else of backward's, say."""


@dataclass(frozen=True, slots=True)
class DeepTrace:
    note: DeepNote
    events: tuple[DeviceEvent, ...]
    host: tuple[HostSpan, ...]
    ticks_s: tuple[float, ...]
    waits: tuple[HostWait, ...] = ()

    @property
    def seconds(self) -> float:
        return self.note.end_s - self.note.start_s
