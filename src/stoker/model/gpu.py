"""What the watcher writes about the GPUs to `outside/gpu.jsonl`: field names are the keys of its rows.

A file is one header, one row per device, then readings: one per device and look. A field that is absent was
not measured, or is looked at less often; `missing` rows say why, once per device and field. A file whose
header names the source `cpu` belongs to a machine without a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stoker.model.rows import RowFormat

SCHEMA = "stoker.gpu/1"


class RowKind(StrEnum):
    HEADER = "header"
    DEVICE = "device"
    READING = "reading"
    MISSING = "missing"
    COST = "cost"
    END = "end"


class BusySource(StrEnum):
    """Where `busy_pct` comes from."""

    GPM = "gpm"
    """Counters of the card (Hopper and newer): exact over the whole interval."""
    NVML = "nvml"
    """The driver's samples of "some kernel ran": right on the time axis within a few points."""


@dataclass(frozen=True, slots=True)
class GpuHeader:
    schema: str
    run_id: str
    interval_s: float
    monotonic_s: float
    """`time.monotonic()` when `wall_s` was taken: puts every row's `t` on the wall clock."""
    wall_s: float
    source: str
    """`nvml`, `replay`, `fake`, or `cpu` where there is no GPU to ask."""
    reason: str | None = None
    """Why there is no GPU to ask."""
    driver: str | None = None
    no_gpm: bool = False
    """GPM was switched off by hand (STOKER_NO_GPM=1)."""
    pids_comparable: bool = False
    """The watcher lives in the machine's first PID namespace: NVML's process IDs are those of /proc."""


POWER_CAP = "power cap"
"""Among the reasons why a clock is held back: the card takes as much power as it may."""


@dataclass(frozen=True, slots=True)
class GpuDevice:
    gpu: int
    """Number in this file. For whole GPUs it is NVML's index, which is not torch's."""
    uuid: str | None = None
    name: str | None = None
    memory_total_bytes: int | None = None
    power_limit_w: float | None = None
    """In force when the watcher began."""
    sm_clock_max_mhz: int | None = None
    gpm: bool = False
    gpm_reason: str | None = None
    """Why there is no GPM."""
    mig: bool = False
    """A slice of a GPU. What is read of slices was never tried on one: unverified."""
    parent_uuid: str | None = None
    """The GPU a slice belongs to."""
    power_default_w: float | None = None
    """What the card is delivered with."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    t: float
    """`time.monotonic()`, the same clock as inside the training."""
    gpu: int
    busy_pct: float | None = None
    """Share of the last `busy_s` in which the card worked: kernels with GPM, which does not see copies to and
    from the host (H200, driver 580, 2026-11: 0.0 % where NVML says 99 %); kernels and copies with NVML."""
    busy_s: float | None = None
    busy_source: str | None = None
    sm_active_pct: float | None = None
    sm_occupancy_pct: float | None = None
    tensor_pct: float | None = None
    dram_pct: float | None = None
    pcie_rx_bytes_per_s: float | None = None
    """To the GPU."""
    pcie_tx_bytes_per_s: float | None = None
    nvlink_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    nvml_util_pct: float | None = None
    """The driver's samples of "something ran", copies too, since the last reading that has this field; at the
    first one, and where the driver keeps no samples, `utilization.gpu` as it stands."""
    memory_used_bytes: int | None = None
    sm_clock_mhz: int | None = None

    throttled_by: tuple[str, ...] | None = None
    """Why the clock is lower than it could be; empty: for no reason."""
    power_w: float | None = None
    energy_mj_total: int | None = None
    """Millijoules since the driver was loaded."""
    temperature_c: int | None = None
    processes: int | None = None
    """Compute processes on this GPU, whosever."""
    own_memory_bytes: int | None = None
    """Of processes of this run."""
    own_pids: tuple[int, ...] | None = None
    foreign_pids: tuple[int, ...] | None = None
    foreign_memory_bytes: int | None = None
    fp32_pct: float | None = None
    """Of the multiprocessors' time in FP32 arithmetic outside of the tensor cores."""


@dataclass(frozen=True, slots=True)
class GpuMissing:
    name: str
    reason: str
    gpu: int | None = None


@dataclass(frozen=True, slots=True)
class GpuCost:
    """What looking at the GPUs has cost so far. The first such row comes after a few looks."""

    t: float
    looks: int
    cpu_s_total: float
    """Of the looks at the GPUs alone."""
    wall_s_total: float
    watcher_cpu_s_total: float
    """Of the whole watcher, with the host and with starting."""


@dataclass(frozen=True, slots=True)
class GpuEnd:
    t: float
    reason: str


GpuRow = GpuHeader | GpuDevice | GpuReading | GpuMissing | GpuCost | GpuEnd

_FORMAT: RowFormat[GpuRow] = RowFormat(
    {
        RowKind.HEADER: GpuHeader,
        RowKind.DEVICE: GpuDevice,
        RowKind.READING: GpuReading,
        RowKind.MISSING: GpuMissing,
        RowKind.COST: GpuCost,
        RowKind.END: GpuEnd,
    }
)
to_row = _FORMAT.to_row
parse = _FORMAT.parse


@dataclass(frozen=True, slots=True)
class GpuRecord:
    """All of it, sorted by kind."""

    header: GpuHeader | None = None
    devices: tuple[GpuDevice, ...] = ()
    readings: tuple[GpuReading, ...] = ()
    missing: tuple[GpuMissing, ...] = ()
    costs: tuple[GpuCost, ...] = ()


def bare_uuid(uuid: str) -> str:
    """Without `GPU-` or `MIG-`, in small letters: NVML writes the prefix, torch does not."""
    text = uuid.strip().lower()
    return text[4:] if text.startswith(("gpu-", "mig-")) else text
