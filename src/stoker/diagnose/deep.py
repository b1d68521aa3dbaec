"""What a deep window tells: how busy the GPU was, with how much work, and what the host did in its gaps.

*Busy* is the union of all intervals of a device: two streams at once count once. *Real work* is an estimate:
the busy time of kernels, each weighted by the share of the multiprocessors that get a block of it (Kineto's
`blocks per SM`, at most 1), from every n-th kernel. It knows nothing of how well a block computes, so it is
an upper bound. It is worked out here, in the reading process; the trained one writes down intervals only,
since reading them there costs no more than Kineto's own export, which would leave tens of MB, not a few.

The profiler slows the host (a launch-bound loop by a third), not the kernels: in the window the GPU is idler
than it usually is. What it does per tick is the same, so `usual_busy_frac` sets that against the usual tick.

A *gap* is a time in which the device does nothing. A short one is the pause between two launches; a longer
one has a cause on the host, and is given to the phases the training thread was in during it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from statistics import median

from stoker.diagnose.chains import Chains, chains
from stoker.diagnose.hidden_waits import HiddenWait, driver_memory_s, hidden_waits
from stoker.model.deep import Activity, DeepTrace, DeviceEvent, HostSpan

SHORT_KERNEL_S = 10e-6
LAUNCH_GAP_S = 20e-6
"""A launch takes 5-20 us; a gap up to that is the host being just too slow, not the host being elsewhere."""
LONG_GAP_S = 1e-3
"""Python launches a kernel in some hundredths of a millisecond: in a longer gap the host does something else.
On an H200 all gaps of launch-bound trainings were shorter; those of a model with a part on the CPU, and of
Python loops, were longer (58 trainings, 2026-11-16)."""
BEHIND_S = 1e-6
"""So much behind each piece of work the counters call busy, if the gap is as long: behind kernels of 1 and
3 us alike (H200, GPM and NVML, benchmarks/accuracy, 2026-11-16)."""
FEW_DETAILS = 20
ROUNDING_S = 1e-6

_PLAIN_FP32 = re.compile(r"_simt_|_ffma_|(?<!tensorop_)\bsgemm|_sgemm_|gemmSN|scudnn", re.IGNORECASE)
"""As cuBLAS, CUTLASS and cuDNN name kernels of the plain FP32 units (`ampere_sgemm_128x64_tn`,
`cutlass_80_simt_sgemm_…`, `sm80_xmma_gemm_f32f32_f32f32_f32_…_ffma_…`). On an H200 they are 97 and 55 % of
the kernel time of two trainings in plain FP32, 63 % of one with tiny products, and at most 3 % of all others
(2026-11-16)."""

_OVER_WEIGHTS = re.compile(r"multi_tensor_apply|fused_?(adam|sgd|lamb)", re.IGNORECASE)
"""torch's optimizers (foreach and fused), clipping, unscaling; those of apex. At most 12 % of the kernel time
of 100 trainings with batches of 8192 rows and layers 4096 wide, and 37 % where the same had 192 rows (H200,
2026-11-19)."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class StreamUse:
    stream: int
    busy_frac: float
    kernels: int


@dataclass(frozen=True, slots=True)
class Gaps:
    count: int
    total_s: float
    launch_count: int
    launch_s: float
    by_phase_s: dict[str, float] = field(default_factory=dict)
    """All gaps, given to the host's phases; `unknown` where the host was not recorded."""
    longest_s: float = 0.0
    long_by_phase_s: dict[str, float] = field(default_factory=dict)
    """Of those, the parts of gaps within one phase that are too long for a launch."""
    behind_s: float = 0.0
    """What the counters call busy of them."""


@dataclass(frozen=True, slots=True)
class Copies:
    direction: str
    """`HtoD`, `DtoH`, `DtoD`, `PtoP`, as CUPTI says it."""
    memory: str
    """Of the host's side: `pageable`, `pinned`; `device`; `unknown`."""
    count: int
    seconds: float
    moved_bytes: int | None


@dataclass(frozen=True, slots=True)
class Collectives:
    count: int
    seconds: float
    exposed_s: float
    """No other kernel ran meanwhile."""


@dataclass(frozen=True, slots=True)
class RealWork:
    frac: float | None
    """Of the window; estimated, an upper bound."""
    occupancy_pct: float | None
    kernels_seen: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    device: int
    seconds: float
    busy_frac: float
    kernel_busy_frac: float
    streams: tuple[StreamUse, ...]
    kernels: int
    kernels_per_tick: float | None
    busy_per_tick_s: float | None
    median_kernel_us: float | None
    short_kernel_frac: float | None
    """Share of all kernel time that is spent in kernels shorter than 10 us."""
    gaps: Gaps
    copies: tuple[Copies, ...]
    collectives: Collectives
    real_work: RealWork
    top: tuple[tuple[str, int, float], ...]
    """The dearest kernels: name, count, seconds."""
    ticks: int = 0
    host_s: dict[str, float] = field(default_factory=dict)
    """Of the training thread in each phase."""
    plain_fp32_frac: float | None = None
    """Of all kernel time: matrix products in FP32 without tensor cores, by their names."""
    chains: Chains | None = None
    """Of torch's own kernels for element by element operations."""
    hidden_waits: tuple[HiddenWait, ...] = ()
    """Of the training thread, inside of torch."""
    weights_frac: float | None = None
    """Of all kernel time: kernels that go over all weights, whatever the batch, by their names."""
    driver_memory_s: Mapping[str, float] | None = None
    """In which memory was asked of the driver or given back, by phase; None: not recorded."""


def use_by_device(trace: DeepTrace) -> tuple[DeviceUse, ...]:
    devices = sorted({event.device for event in trace.events})
    return tuple(_device(trace, device) for device in devices)


def usual_busy_frac(use: DeviceUse, usual_tick_s: float | None) -> float | None:
    """How busy it is without the profiler; `usual_tick_s`: the mean tick of the training's steady window."""
    if use.busy_per_tick_s is None or not usual_tick_s:
        return None
    return min(1.0, use.busy_per_tick_s / usual_tick_s)


def without_behind(counted_frac: float, use: DeviceUse, usual_tick_s: float | None) -> float:
    """What the counters call busy, less what they count behind each piece of work. How much that is without
    the profiler, under which gaps are longer, the work of a tick tells, and the gaps how much it may be."""
    usual = usual_busy_frac(use, usual_tick_s)
    busy_s = use.busy_frac * use.seconds
    if usual is None or busy_s <= 0:
        return counted_frac
    return less_behind(counted_frac, usual, busy_s, use.gaps.behind_s)


def less_behind(counted_frac: float, usual_frac: float, busy_s: float, behind_s: float) -> float:
    return min(counted_frac, max(usual_frac, counted_frac * busy_s / (busy_s + behind_s)))


def _device(trace: DeepTrace, device: int) -> DeviceUse:
    events = [event for event in trace.events if event.device == device]
    start_s = max(0.0, events[0].start_s)  # before its first event it ran what was queued before the window
    window = (start_s, max(start_s, trace.seconds))
    seconds = window[1] - window[0]
    inside = [event for event in events if event.end_s > window[0] and event.start_s < window[1]]
    kernels = [event for event in inside if event.kind is Activity.KERNEL]
    busy = union(((event.start_s, event.end_s) for event in inside), window)
    kernel_busy = union(((event.start_s, event.end_s) for event in kernels), window)
    ticks = sum(window[0] < tick <= window[1] + ROUNDING_S for tick in trace.ticks_s)
    frac = _share(length(kernel_busy), seconds)
    return DeviceUse(
        device=device,
        seconds=seconds,
        busy_frac=_share(length(busy), seconds),
        kernel_busy_frac=frac,
        streams=_streams(inside, window),
        kernels=len(kernels),
        kernels_per_tick=len(kernels) / ticks if ticks else None,
        busy_per_tick_s=length(busy) / ticks if ticks else None,
        median_kernel_us=median(event.seconds for event in kernels) * 1e6 if kernels else None,
        short_kernel_frac=_short(kernels),
        gaps=gaps(busy, window, trace.host),
        copies=_copies(inside),
        collectives=_collectives(kernels, window),
        real_work=_real_work(trace, kernels, frac),
        top=_dearest(kernels),
        ticks=ticks,
        host_s=by_phase([window], trace.host),
        plain_fp32_frac=_named_frac(kernels, _PLAIN_FP32),
        chains=chains(kernels),
        hidden_waits=tuple(hidden_waits(trace, window, by_phase, lambda part: _free_s(kernel_busy, part))),
        weights_frac=_named_frac(kernels, _OVER_WEIGHTS),
        driver_memory_s=driver_memory_s(trace, window, by_phase),
    )


def union(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    """Merged and cut to the window."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        start, end = max(start, window[0]), min(end, window[1])
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def without(busy: Sequence[Interval], window: Interval) -> list[Interval]:
    """What `busy` (merged) leaves free of the window."""
    free, since = [], window[0]
    for start, end in busy:
        if start > since:
            free.append((since, start))
        since = max(since, end)
    if window[1] > since:
        free.append((since, window[1]))
    return free


def _free_s(busy: Sequence[Interval], part: Interval) -> float:
    """`busy` (merged) leaves so much of the part free."""
    first = max(0, bisect_right(busy, part) - 1)
    inside = takewhile(lambda one: one[0] < part[1], islice(busy, first, None))
    covered = sum(max(0.0, min(end, part[1]) - max(start, part[0])) for start, end in inside)
    return max(0.0, part[1] - part[0] - covered)


def gaps(busy: Sequence[Interval], window: Interval, host: Sequence[HostSpan]) -> Gaps:
    free = without(busy, window)
    launch = [gap for gap in free if gap[1] - gap[0] <= LAUNCH_GAP_S]
    return Gaps(
        count=len(free),
        total_s=length(free),
        launch_count=len(launch),
        launch_s=length(launch),
        by_phase_s=by_phase(free, host),
        longest_s=max((end - start for start, end in free), default=0.0),
        long_by_phase_s=_long_by_phase([gap for gap in free if gap[1] - gap[0] > LONG_GAP_S], host),
        behind_s=behind_s(free),
    )


def behind_s(free: Iterable[Interval]) -> float:
    return sum(min(end - start, BEHIND_S) for start, end in free)


def _long_by_phase(free: Iterable[Interval], host: Sequence[HostSpan]) -> dict[str, float]:
    """The end of a wait lies in the phase after it, until the first launch there: that is launching."""
    found: dict[str, float] = {}
    for gap in free:
        for phase, seconds in by_phase([gap], host).items():
            if seconds > LONG_GAP_S:
                found[phase] = found.get(phase, 0.0) + seconds
    return found


def by_phase(free: Iterable[Interval], host: Sequence[HostSpan]) -> dict[str, float]:
    """Seconds of the gaps in each phase of the host; the host's spans are in order and do not overlap."""
    starts = [span.start_s for span in host]
    found: dict[str, float] = {}
    for start, end in free:
        left = end - start
        index = max(0, bisect_right(starts, start) - 1)
        while index < len(host) and host[index].start_s < end:
            span = host[index]
            shared = min(end, span.end_s) - max(start, span.start_s)
            if shared > 0:
                found[span.phase] = found.get(span.phase, 0.0) + shared
                left -= shared
            index += 1
        if left > 1e-12:
            found["unknown"] = found.get("unknown", 0.0) + left
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _streams(events: Sequence[DeviceEvent], window: Interval) -> tuple[StreamUse, ...]:
    seconds = window[1] - window[0]
    uses = []
    for stream in {event.stream for event in events}:
        own = [event for event in events if event.stream == stream]
        busy = length(union(((event.start_s, event.end_s) for event in own), window))
        kernels = sum(event.kind is Activity.KERNEL for event in own)
        uses.append(StreamUse(stream, _share(busy, seconds), kernels))
    return tuple(sorted(uses, key=lambda use: -use.busy_frac))


def _short(kernels: Sequence[DeviceEvent]) -> float | None:
    total = sum(event.seconds for event in kernels)
    short = sum(event.seconds for event in kernels if event.seconds < SHORT_KERNEL_S)
    return short / total if total else None


def _named_frac(kernels: Sequence[DeviceEvent], name: re.Pattern[str]) -> float | None:
    total = sum(event.seconds for event in kernels)
    return sum(event.seconds for event in kernels if name.search(event.name)) / total if total else None


def _copies(events: Sequence[DeviceEvent]) -> tuple[Copies, ...]:
    groups: dict[tuple[str, str], list[DeviceEvent]] = {}
    for event in events:
        if event.kind is Activity.COPY:
            groups.setdefault(copy_kind(event.name), []).append(event)
    found = []
    for (direction, memory), group in groups.items():
        known = [event.moved_bytes for event in group if event.moved_bytes is not None]
        moved = sum(known) if len(known) == len(group) else None
        found.append(Copies(direction, memory, len(group), sum(event.seconds for event in group), moved))
    return tuple(sorted(found, key=lambda copies: -copies.seconds))


def copy_kind(name: str) -> tuple[str, str]:
    """`Memcpy HtoD (Pageable -> Device)` -> HtoD, pageable."""
    words = name.replace("(", " ").replace(")", " ").split()
    direction = words[1] if len(words) > 1 and "to" in words[1] else "unknown"
    lower = {word.lower() for word in words[2:]}
    for memory in ("pageable", "pinned", "managed"):
        if memory in lower:
            return direction, memory
    return direction, "device" if lower >= {"device"} else "unknown"


def _collectives(kernels: Sequence[DeviceEvent], window: Interval) -> Collectives:
    talking = [event for event in kernels if is_collective(event.name)]
    other = [event for event in kernels if not is_collective(event.name)]
    computing = union(((event.start_s, event.end_s) for event in other), window)
    together = union(((event.start_s, event.end_s) for event in talking), window)
    both = union([*computing, *together], window)
    return Collectives(len(talking), length(together), max(0.0, length(both) - length(computing)))


def is_collective(name: str) -> bool:
    """`ncclDevKernel_AllReduce_…`, before NCCL 2.19 `ncclKernel_…`."""
    return name.startswith(("ncclDevKernel", "ncclKernel", "nccl_", "void nccl"))


def _real_work(trace: DeepTrace, kernels: Sequence[DeviceEvent], kernel_busy_frac: float) -> RealWork:
    if not trace.note.details:
        return RealWork(None, None, 0, "this torch does not say how broad a kernel is; newer ones do")
    seen = [event for event in kernels if event.blocks_per_sm is not None]
    weight = sum(event.seconds for event in seen)
    if len(seen) < FEW_DETAILS or not weight:
        return RealWork(None, None, len(seen), f"only {len(seen)} kernels were looked at")
    breadth = sum(event.seconds * min(1.0, event.blocks_per_sm or 0.0) for event in seen) / weight
    rated = [event for event in seen if event.occupancy_pct is not None]
    rated_s = sum(event.seconds for event in rated)
    occupancy = (
        sum(event.seconds * (event.occupancy_pct or 0) for event in rated) / rated_s if rated_s else None
    )
    return RealWork(kernel_busy_frac * breadth, occupancy, len(seen))


def _dearest(kernels: Sequence[DeviceEvent], shown: int = 10) -> tuple[tuple[str, int, float], ...]:
    sums: dict[str, tuple[int, float]] = {}
    for event in kernels:
        count, seconds = sums.get(event.name, (0, 0.0))
        sums[event.name] = (count + 1, seconds + event.seconds)
    ranked = sorted(sums.items(), key=lambda item: -item[1][1])[:shown]
    return tuple((name, count, seconds) for name, (count, seconds) in ranked)


def _share(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0
