"""The GPUs of a run in a few figures, over a given part of it; what is not known, and why."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stoker.model.gpu import BusySource, GpuCost, GpuDevice, GpuMissing, GpuReading, GpuRecord, bare_uuid
from stoker.model.record import DeviceUse
from stoker.model.run import Run

FOREIGN_LOOKS_MIN = 2
"""A process of the run that just began may look foreign once."""
COPYING_MIN_PCT = 8.0
COPYING_MIN_S = 3.0
"""The driver's samples end up to 0.2 s before the look that asks for them: in less time than this a change of
load reads as copies."""
TIME_SLICING = (
    "another process computes on this GPU: the two take turns, and their turns together read as busy"
)
Part = tuple[float, float]
"""A stretch of the run's clock, from and to."""

HIDDEN = "the driver names no process on this GPU (a container): whether it is shared cannot be told"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who else was on the card."""

    shared: bool | None
    """None: cannot be told, see `text`."""
    text: str = ""
    pids: tuple[int, ...] = ()
    looks_frac: float | None = None
    """Share of the looks at processes in which somebody else was there."""
    memory_peak_bytes: int | None = None
    by_count: bool = False
    """There are more processes than the run has there; which ones is not known."""


@dataclass(frozen=True, slots=True)
class AllocatorView:
    """What torch said of its own memory, over all processes of the run on this GPU."""

    allocated_max_bytes: int | None
    reserved_max_bytes: int | None
    retries: int | None
    ooms: int | None


@dataclass(frozen=True, slots=True)
class GpuView:
    gpu: int
    uuid: str | None
    name: str | None
    covered_s: float
    """Time of the window that the busy figures speak of."""
    busy_pct: float | None
    busy_source: str | None
    """`gpm`, `nvml`, or `gpm+nvml` where it changed on the way or NVML saw copies that GPM does not."""
    copying_pct: float | None
    """Part of busy: copies to and from the host beside which no kernel ran. None where they cannot be told
    from kernels: without GPM, and in a window of a few seconds."""
    sm_active_pct: float | None
    sm_occupancy_pct: float | None
    tensor_pct: float | None
    dram_pct: float | None
    pcie_rx_bytes_per_s: float | None
    pcie_tx_bytes_per_s: float | None
    nvlink_rx_bytes_per_s: float | None
    nvlink_tx_bytes_per_s: float | None
    memory_peak_bytes: int | None
    memory_total_bytes: int | None
    own_memory_peak_bytes: int | None
    allocator: AllocatorView | None
    sm_clock_median_mhz: float | None
    sm_clock_max_mhz: int | None
    """What the card can do."""
    throttled_frac: float | None
    throttled_by: tuple[tuple[str, float], ...]
    """Each reason with its share of the looks, most frequent first."""
    power_w: float | None
    power_limit_w: float | None
    power_default_w: float | None
    temperature_max_c: int | None
    sharing: Sharing
    missing: tuple[GpuMissing, ...]
    unverified: bool
    """A MIG slice, or a GPU that is cut into them."""
    gpm_reason: str | None = None
    """Why the card has no counters for real work."""
    fp32_pct: float | None = None
    """Arithmetic in FP32 outside of the tensor cores."""

    @property
    def power_limit_frac(self) -> float | None:
        """The limit in force, of the one the card is delivered with; None where one is not known."""
        if self.power_limit_w is None or not self.power_default_w:
            return None
        return self.power_limit_w / self.power_default_w


@dataclass(frozen=True, slots=True)
class GpusView:
    devices: tuple[GpuView, ...]
    known_from: str
    """How it is known which GPUs are the run's; or why it is not."""


def gpus_view(run: Run, start_s: float, end_s: float, uuids: Collection[str] | None = None) -> GpusView:
    """`uuids` are the job's GPUs where the caller knows better than what was told from inside."""
    record = run.gpu
    if not record.devices:
        return GpusView((), _nothing_seen(record))
    wanted = {bare_uuid(uuid) for uuid in (job_uuids(run) if uuids is None else uuids)}
    devices = [device for device in record.devices if device.uuid and bare_uuid(device.uuid) in wanted]
    known_from = "the training named them"
    if not devices:
        by_pid = {reading.gpu for reading in record.readings if reading.own_pids}
        devices = [device for device in record.devices if device.gpu in by_pid]
        known_from = "processes of the run are on them"
    if not devices:
        return GpusView((), _not_identified(record, wanted))
    views = tuple(device_view(run, device, [(start_s, end_s)]) for device in devices)
    return GpusView(views, known_from)


def job_uuids(run: Run) -> tuple[str, ...]:
    """GPUs on which processes of the run held memory, as they said themselves."""
    found = [use.uuid for process in run.processes for use in process.devices if use.uuid]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class WatcherCost:
    looks: int
    cpu_ms_per_look: float
    gpu_cpu_pct: float
    """Of one core, for looking at the GPUs."""
    watcher_cpu_pct: float
    """Of one core, the whole watcher; from its first figures on, so without its start."""


def watcher_cost(record: GpuRecord) -> WatcherCost | None:
    """None with fewer than two figures."""
    if len(record.costs) < 2 or record.costs[-1].t <= record.costs[0].t:
        return None
    first, last = record.costs[0], record.costs[-1]
    looks, seconds = last.looks - first.looks, last.t - first.t
    if looks <= 0:
        return None
    return WatcherCost(
        looks=last.looks,
        cpu_ms_per_look=1000 * (last.cpu_s_total - first.cpu_s_total) / looks,
        gpu_cpu_pct=_share_pct(first, last, "cpu_s_total", seconds),
        watcher_cpu_pct=_share_pct(first, last, "watcher_cpu_s_total", seconds),
    )


def _share_pct(first: GpuCost, last: GpuCost, name: str, seconds: float) -> float:
    return float(100 * (getattr(last, name) - getattr(first, name)) / seconds)


def _nothing_seen(record: GpuRecord) -> str:
    if record.header is None:
        return "the GPUs were not looked at"
    lost = next((missing.reason for missing in record.missing if missing.name == "device"), None)
    return record.header.reason or lost or "NVML lists no GPU"


def _not_identified(record: GpuRecord, wanted: set[str]) -> str:
    if wanted:
        return "the GPUs the training named are not among those NVML lists"
    if record.header is not None and not record.header.pids_comparable:
        return "no process of the run named a GPU, and NVML's process IDs are those of another PID namespace"
    return "no process of the run named a GPU, and NVML lists none of them on one"


def _copying_pct(rows: Sequence[GpuReading]) -> float | None:
    """GPM's busy knows kernels only: a card that does nothing but copy reads 0 there, and 88 % in NVML's
    utilisation (H200, driver 580, 2026-11). Where both speak of kernels they agree within some points."""
    told = [row for row in rows if row.nvml_util_pct is not None]
    if not told or told[-1].t - told[0].t < COPYING_MIN_S:
        return None
    kernels = [row for row in rows if row.busy_source == BusySource.GPM]
    kernels_pct = _mean(_covering(kernels, [(told[0].t, told[-1].t)]), "busy_pct")
    if kernels_pct is None:
        return None
    return copying_pct(kernels_pct, _between_looks_pct(told))


def copying_pct(kernels_pct: float, nvml_pct: float) -> float:
    """Two figures of the same time: what NVML has more, where it is more than they differ by."""
    return nvml_pct - kernels_pct if nvml_pct - kernels_pct > COPYING_MIN_PCT else 0.0


def _between_looks_pct(told: Sequence[GpuReading]) -> float:
    """Each figure speaks of the time since the one before; the first one's begin is not known."""
    shares = (later.nvml_util_pct * (later.t - row.t) for row, later in pairwise(told) if later.nvml_util_pct)
    return sum(shares) / (told[-1].t - told[0].t)


def device_view(run: Run, device: GpuDevice, parts: Sequence[Part]) -> GpuView:
    """Over the parts of a window together."""
    record = run.gpu
    of_device = [row for row in record.readings if row.gpu == device.gpu]
    parts = sorted(parts)
    covering = _covering(of_device, parts)
    ends = [end for _, end in parts]
    rows = [row for row in of_device if _within(row.t, parts, ends)]
    end_s = ends[-1] if ends else 0.0
    throttled = [row.throttled_by for row in rows if row.throttled_by is not None]
    sources = sorted({row.busy_source for row, _ in covering if row.busy_source})
    busy_pct = _mean(covering, "busy_pct")
    copying = _copying_pct(rows)
    reasons = Counter(reason for names in throttled for reason in names)
    uses = [
        [use for use in process.devices if same_gpu(use.uuid, device.uuid) and use.t_s <= end_s]
        for process in run.processes
    ]
    return GpuView(
        gpu=device.gpu,
        uuid=device.uuid,
        name=device.name,
        covered_s=sum(weight for row, weight in covering if row.busy_pct is not None),
        busy_pct=None if busy_pct is None else min(100.0, busy_pct + (copying or 0.0)),
        busy_source="gpm+nvml" if copying else "+".join(sources) or None,
        copying_pct=copying,
        sm_active_pct=_mean(covering, "sm_active_pct"),
        sm_occupancy_pct=_mean(covering, "sm_occupancy_pct"),
        tensor_pct=_mean(covering, "tensor_pct"),
        dram_pct=_mean(covering, "dram_pct"),
        pcie_rx_bytes_per_s=_mean(covering, "pcie_rx_bytes_per_s"),
        pcie_tx_bytes_per_s=_mean(covering, "pcie_tx_bytes_per_s"),
        nvlink_rx_bytes_per_s=_mean(covering, "nvlink_rx_bytes_per_s"),
        nvlink_tx_bytes_per_s=_mean(covering, "nvlink_tx_bytes_per_s"),
        memory_peak_bytes=_peak(rows, "memory_used_bytes"),
        memory_total_bytes=device.memory_total_bytes,
        own_memory_peak_bytes=_peak(rows, "own_memory_bytes"),
        allocator=_allocator([use[-1] for use in uses if use]),
        sm_clock_median_mhz=_median(rows, "sm_clock_mhz"),
        sm_clock_max_mhz=device.sm_clock_max_mhz,
        throttled_frac=sum(map(bool, throttled)) / len(throttled) if throttled else None,
        throttled_by=tuple((name, count / len(throttled)) for name, count in reasons.most_common()),
        power_w=_power_w(rows),
        power_limit_w=device.power_limit_w,
        power_default_w=device.power_default_w,
        temperature_max_c=_peak(rows, "temperature_c"),
        sharing=_sharing(rows, own_processes=sum(map(bool, uses))),
        missing=tuple(one for one in record.missing if one.gpu in (device.gpu, None)),
        unverified=device.mig or any(same_gpu(other.parent_uuid, device.uuid) for other in record.devices),
        gpm_reason=device.gpm_reason,
        fp32_pct=_mean(covering, "fp32_pct"),
    )


def same_gpu(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and bare_uuid(one) == bare_uuid(other)


def _covering(rows: Sequence[GpuReading], parts: Sequence[Part]) -> list[tuple[GpuReading, float]]:
    """Those that speak of some of the time, and of how much."""
    ends = [end for _, end in parts]
    return [(row, weight) for row in rows if (weight := _overlap_s(row, parts, ends)) > 0]


def _overlap_s(row: GpuReading, parts: Sequence[Part], ends: Sequence[float]) -> float:
    """How much of the window the reading's interval covers."""
    begun_s = row.t - (row.busy_s or 0.0)
    shared_s, index = 0.0, bisect_left(ends, begun_s)
    while index < len(parts) and parts[index][0] < row.t:
        shared_s += min(row.t, ends[index]) - max(begun_s, parts[index][0])
        index += 1
    return shared_s


def _within(t_s: float, parts: Sequence[Part], ends: Sequence[float]) -> bool:
    index = bisect_left(ends, t_s)
    return index < len(parts) and parts[index][0] <= t_s


def _mean(covering: Sequence[tuple[GpuReading, float]], name: str) -> float | None:
    known = [(value, weight) for row, weight in covering if (value := getattr(row, name)) is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _peak(rows: Sequence[GpuReading], name: str) -> int | None:
    return max((value for row in rows if (value := getattr(row, name)) is not None), default=None)


def _median(rows: Sequence[GpuReading], name: str) -> float | None:
    values = [value for row in rows if (value := getattr(row, name)) is not None]
    return float(median(values)) if values else None


def _power_w(rows: Sequence[GpuReading]) -> float | None:
    """From the energy counter; single readings of the sensor cover only a part of the time."""
    counted = [(row.t, row.energy_mj_total) for row in rows if row.energy_mj_total is not None]
    if len(counted) >= 2 and counted[-1][0] > counted[0][0] and counted[-1][1] > counted[0][1]:
        return (counted[-1][1] - counted[0][1]) / 1000 / (counted[-1][0] - counted[0][0])
    read = [row.power_w for row in rows if row.power_w is not None]
    return sum(read) / len(read) if read else None


def _allocator(last: Sequence[DeviceUse]) -> AllocatorView | None:
    if not last:
        return None
    return AllocatorView(
        _sum([use.allocated_max_bytes for use in last]),
        _sum([use.reserved_max_bytes for use in last]),
        _sum([use.retries for use in last]),
        _sum([use.ooms for use in last]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _sharing(rows: Sequence[GpuReading], own_processes: int) -> Sharing:
    looks = [row for row in rows if row.processes is not None]
    if not looks:
        return Sharing(None, "the processes on this GPU were not looked at, or the driver does not tell them")
    told = [row for row in looks if row.foreign_pids is not None]
    strangers = own_processes and not any(row.own_pids for row in told)
    if not told or strangers:  # the run is there, but not under its own process IDs
        return _sharing_by_count([row.processes or 0 for row in looks], own_processes)
    with_others = [row for row in told if row.foreign_pids]
    pids = Counter(pid for row in with_others for pid in row.foreign_pids or ())
    staying = tuple(sorted(pid for pid, count in pids.items() if count >= FOREIGN_LOOKS_MIN))
    if not staying:
        return Sharing(False, looks_frac=0.0)
    share = len(with_others) / len(told)
    return Sharing(True, TIME_SLICING, staying, share, _peak(with_others, "foreign_memory_bytes"))


def _sharing_by_count(counts: Sequence[int], own_processes: int) -> Sharing:
    """Whose the processes are is hidden; that there are more than the run's own is not."""
    most = sorted(counts)[len(counts) // 2]
    if most == 0 or not own_processes:
        return Sharing(None, HIDDEN)
    if most <= own_processes:
        return Sharing(False, "as many processes as the run has there", by_count=True)
    more = most - own_processes
    text = f"{more} more process(es) than the run named a GPU in: {TIME_SLICING}, if they are not the run's"
    return Sharing(True, text, by_count=True)
