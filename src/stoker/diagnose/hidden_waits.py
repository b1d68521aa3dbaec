"""What the host's calls into CUDA tell that lasted in a deep window.

*Waits* for the GPU inside of torch, where no hook can be: an index by a mask, `torch.unique`, a number made
into a size. They are calls of the training thread that synchronise, or copy to or from the host's memory, in
a phase that is no wait of its own. A copy within the device may stand in a full queue as any launch does.

*Memory* asked of the driver and given back, which torch's cache is there to avoid; in any thread.
"""

from __future__ import annotations

from bisect import bisect_right
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
Gaps = Callable[[Interval], float]
ByPhase = Callable[[Sequence[Interval], Sequence[HostSpan]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class HiddenWait:
    """Of one kind, in one phase."""

    kind: str
    """`h2d`: it copied to the GPU; `sync`: it read, or asked for a size."""
    phase: str
    count: int
    seconds: float
    idle_s: float
    """No kernel ran meanwhile."""


def hidden_waits(trace: DeepTrace, window: Interval, by_phase: ByPhase, kernels: Gaps) -> list[HiddenWait]:
    """`kernels` cuts what an interval has without any kernel."""
    copies = sorted(
        (event.end_s, "h2d" if "HtoD" in event.name else "sync")
        for event in trace.events
        if event.kind is Activity.COPY and ("HtoD" in event.name or "DtoH" in event.name)
    )
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for wait in trace.waits:
        inside = window[0] <= wait.start_s and wait.end_s <= window[1]
        kind = _kind(wait, copies) if inside and wait.own and wait.end_s - wait.start_s >= WAITED_S else None
        spent = by_phase([(wait.start_s, wait.end_s)], trace.host) if kind else {}
        phase = next(iter(spent), "")
        if kind and phase in IN:
            idle_s = kernels((wait.start_s, wait.end_s))
            found.setdefault((kind, phase), []).append((spent[phase], min(idle_s, spent[phase])))
    return [
        HiddenWait(kind, phase, len(waits), sum(one for one, _ in waits), sum(idle for _, idle in waits))
        for (kind, phase), waits in found.items()
    ]


def _kind(wait: HostWait, copies: Sequence[tuple[float, str]]) -> str | None:
    """By the last copy to or from the host that it saw the end of; None of a copy within the device.
    `copies`: when they were done, in order, and what a wait for one is."""
    last = bisect_right(copies, (wait.end_s + RETURNS_S, "")) - 1
    if last >= 0 and copies[last][0] >= wait.start_s:
        return copies[last][1]
    return "sync" if "Synchronize" in wait.name else None


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
