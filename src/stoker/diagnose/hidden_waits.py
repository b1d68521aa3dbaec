"""What the host's calls into CUDA tell that lasted in a deep window.

*Waits* for the GPU inside of torch, where no hook can be: an index by a mask, `torch.unique`, a number made
into a size. They are calls of the training thread that synchronise, or copy to or from the host's memory, in
a phase that is no wait of its own. A copy within the device may stand in a full queue as any launch does.

*Memory* asked of the driver and given back, which torch's cache is there to avoid; in any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from stoker.model.deep import Activity, DeepTrace, HostSpan, HostWait
from stoker.model.record import COMPUTE

IN = COMPUTE | {"other"}
_MEMORY = ("cudaMalloc", "cudaFree", "cuMem")
WAITED_S = 20e-6
RETURNS_S = 50e-6
"""A call returns so soon after the copy it waited for. Own, 2026-11."""

Interval = tuple[float, float]
ByPhase = Callable[[Sequence[Interval], Sequence[HostSpan]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class HiddenWait:
    count: int
    seconds: float
    per_tick: float | None
    per_tick_s: float | None


def hidden_waits(trace: DeepTrace, window: Interval, by_phase: ByPhase) -> dict[str, HiddenWait]:
    ticks = sum(window[0] < tick <= window[1] + 1e-6 for tick in trace.ticks_s)
    copied = sorted(
        event.end_s for event in trace.events if event.kind is Activity.COPY and _of_host(event.name)
    )
    found: dict[str, list[float]] = {}
    for wait in trace.waits:
        inside = window[0] <= wait.start_s and wait.end_s <= window[1]
        if inside and wait.own and wait.end_s - wait.start_s >= WAITED_S and _waits(wait, copied):
            spent = by_phase([(wait.start_s, wait.end_s)], trace.host)
            phase = next(iter(spent), "")
            if phase in IN:
                found.setdefault(phase, []).append(spent[phase])
    return {phase: _summed(lengths, ticks) for phase, lengths in found.items()}


def _summed(lengths: Sequence[float], ticks: int) -> HiddenWait:
    seconds = sum(lengths)
    return HiddenWait(
        len(lengths), seconds, len(lengths) / ticks if ticks else None, seconds / ticks if ticks else None
    )


def _of_host(name: str) -> bool:
    return "HtoD" in name or "DtoH" in name


def _waits(wait: HostWait, copied: Sequence[float]) -> bool:
    """`copied`: when copies to or from the host were done, in order."""
    if "Synchronize" in wait.name:
        return True
    index = bisect_left(copied, wait.start_s)
    return index < len(copied) and copied[index] <= wait.end_s + RETURNS_S


def driver_memory_s(trace: DeepTrace, window: Interval, by_phase: ByPhase) -> Mapping[str, float] | None:
    """Seconds of the window, by the phase the training thread was in. None: such calls were not recorded."""
    if not trace.note.threads:
        return None
    calls = sorted(
        (max(window[0], wait.start_s), min(window[1], wait.end_s))
        for wait in trace.waits
        if wait.name.startswith(_MEMORY)
    )
    return by_phase([call for call in calls if call[0] < call[1]], trace.host)
