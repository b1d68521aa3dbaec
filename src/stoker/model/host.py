"""What the host watcher writes to `outside/host.jsonl`: field names are the keys of its rows.

A file is one header, then readings with a few rows of other kinds between them (`kind` says which). A field
that is absent was not measured, or is looked at less often; `missing` rows say why, once each. Names that end
in `_total` count upwards: rates come from the difference of two rows, so a lost row costs nothing. Counters
of the tree start with the run (with the watcher, where it came later), those of the machine at boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.model.rows import RowFormat

SCHEMA = "stoker.host/1"


class RowKind(StrEnum):
    HEADER = "header"
    READING = "reading"
    MISSING = "missing"
    ISOLATED_PYTHON = "isolated-python"
    CORE_WAIT = "core-wait"
    END = "end"


@dataclass(frozen=True, slots=True)
class HostHeader:
    schema: str
    run_id: str
    root_pid: int
    interval_s: float
    monotonic_s: float
    """`time.monotonic()` when `wall_s` was taken: puts every row's `t` on the wall clock."""
    wall_s: float
    attached: bool = False
    """The process was there before the watcher: found by parentage, its past not counted."""
    cores_machine: int | None = None
    cores_allowed: float | None = None
    """The smaller of affinity and cgroup quota."""
    cores_affinity: int | None = None
    cores_quota: float | None = None
    memory_total_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """Of the cgroup."""
    cgroup_version: int | None = None


@dataclass(frozen=True, slots=True)
class HostReading:
    t: float
    """`time.monotonic()`, the same clock as inside the training."""

    processes: int | None = None
    threads: int | None = None
    cpu_s_total: float | None = None
    """Of the tree, with processes that have ended."""
    main_cpu_s_total: float | None = None
    """Of the command's first process alone."""
    descendants_cpu_s_total: float | None = None
    busiest_pid: int | None = None
    busiest_pct: float | None = None
    """Of one core, since the row before."""
    busiest_thread: str | None = None
    busiest_thread_pid: int | None = None
    busiest_thread_pct: float | None = None
    """Of one core; the busiest thread of the process that was busiest a row before. Every few rows."""
    rss_bytes: int | None = None
    """Sum over the tree; pages shared between processes count in each."""
    major_faults_total: int | None = None
    read_bytes_total: int | None = None
    written_bytes_total: int | None = None
    unreadable: int | None = None
    """Processes of the tree whose disk traffic could not be read."""

    machine_cpu_pct: float | None = None
    allowed_cpu_pct: float | None = None
    """Mean over the cores the command may use, whoever uses them."""
    hottest_core: int | None = None
    hottest_core_pct: float | None = None
    iowait_pct: float | None = None
    running: int | None = None
    """Threads running or ready to run, on the whole machine."""
    blocked: int | None = None
    load_1m: float | None = None

    memory_available_bytes: int | None = None
    swap_used_bytes: int | None = None
    shm_used_bytes: int | None = None
    shm_total_bytes: int | None = None
    oom_kills_total: int | None = None

    disk_read_bytes_total: int | None = None
    disk_written_bytes_total: int | None = None
    net_received_bytes_total: int | None = None
    net_sent_bytes_total: int | None = None

    cpu_pressure_s_total: float | None = None
    io_pressure_s_total: float | None = None
    io_full_pressure_s_total: float | None = None
    memory_pressure_s_total: float | None = None
    memory_full_pressure_s_total: float | None = None

    cores_allowed: float | None = None
    throttled_total: int | None = None
    """Periods in which the cgroup ran out of its quota."""
    throttle_periods_total: int | None = None
    throttled_s_total: float | None = None
    cgroup_memory_bytes: int | None = None

    lost_rows: int | None = None
    """Rows that could not be written so far, for want of space."""
    watcher_cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class MissingField:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class IsolatedPython:
    """A Python started so that nothing can be seen from inside it."""

    pid: int
    flags: str


@dataclass(frozen=True, slots=True)
class CoreWait:
    """The threads that train in one process, as the scheduler counts them, since each was first seen."""

    t: float
    pid: int
    on_core_s_total: float
    waited_s_total: float
    """Ready to run, and without a core: others had it, or the quota was used up."""
    threads: int = 1
    """More than the first: those of torch's backward pass on a GPU are known by name, and counted too."""


@dataclass(frozen=True, slots=True)
class HostEnd:
    t: float
    reason: str


@dataclass(frozen=True, slots=True)
class HostRecord:
    """All of it, sorted by kind."""

    header: HostHeader | None = None
    readings: tuple[HostReading, ...] = ()
    missing: tuple[MissingField, ...] = ()
    isolated: tuple[IsolatedPython, ...] = ()
    core_waits: tuple[CoreWait, ...] = ()


HostRow = HostHeader | HostReading | MissingField | IsolatedPython | CoreWait | HostEnd

_FORMAT: RowFormat[HostRow] = RowFormat(
    {
        RowKind.HEADER: HostHeader,
        RowKind.READING: HostReading,
        RowKind.MISSING: MissingField,
        RowKind.ISOLATED_PYTHON: IsolatedPython,
        RowKind.CORE_WAIT: CoreWait,
        RowKind.END: HostEnd,
    }
)
to_row = _FORMAT.to_row
parse_any = _FORMAT.parse
