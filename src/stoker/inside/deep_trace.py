"""From Kineto's events to the rows of a deep window: kernels, copies and fills of the GPU, on our own clock.

Kineto gives unix nanoseconds (torch >= 2.4). They are put on the clock of `perf_counter` with two anchors,
one at each end of the window: a pair of readings of both clocks, the best of several. What is left of doubt
is said: half the width of the worse anchor, and how far the two clocks went apart in between.

Reading an event's fields costs under 2 us (torch 2.13, CPU events, 2026-11), no more than Kineto's own JSON
export, which for a launch-bound second would be tens of MB and is not written. A kernel's breadth (blocks
per SM) and its estimated occupancy stand only in a text per event (`metadata_json`, pytorch PR 161624 of
2025-09): it is read for a few thousand kernels, every n-th, and for copies, to have their bytes.

Of the host's calls into CUDA those are kept that lasted, and waited or asked for memory: an index by a mask
waits for the GPU inside of torch, where no hook can be.
"""

import re
from itertools import islice

from . import wire
from .originals import perf_counter_ns, wall_time_ns

DETAILS_MAX = 5_000
FAR_NS = 60_000_000_000
LASTED_NS = 10_000
"""A launch, and a call that only asks or hands a copy over, is done sooner."""
WAITS_MAX = 20_000
_KINDS = {"kernel": wire.KERNEL, "gpu_memcpy": wire.COPY, "gpu_memset": wire.FILL}
_KEPT_CALLS = re.compile(
    r"cu(da)?\w*(Synchronize|Memcpy)|cuda(Malloc|Free)(Async)?(_|$)|cuMem(Create|Map|Unmap|Release)"
)
_NO_WORK = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event", "Activity Buffer Request")
_BLOCKS = re.compile(r'"blocks per SM": ([0-9.]+)')
_OCCUPANCY = re.compile(r'"est\. achieved occupancy %": ([0-9.]+)')
_BYTES = re.compile(r'"bytes": ([0-9]+)')

HEADER = "\t".join(wire.DEEP_COLUMNS) + "\n"
_ROW = "\t".join(["%d"] * len(wire.DEEP_COLUMNS)) + "\n"


def anchor():
    """The same moment on both clocks, (unix ns, perf_counter ns), and half the width of the reading."""
    best = None
    for _ in range(9):
        before = perf_counter_ns()
        unix = wall_time_ns()
        after = perf_counter_ns()
        if best is None or after - before < best[2]:
            best = (unix, before, after - before)
    unix, before, width = best
    return unix, before + width // 2, (width + 1) // 2


class Clock:
    """Unix nanoseconds to nanoseconds of `perf_counter`, between two anchors."""

    def __init__(self, first, last):
        self.first, self.last = first, last
        self.drift_ns = (last[1] - last[0]) - (first[1] - first[0])
        self.doubt_ns = max(first[2], last[2]) + abs(self.drift_ns)

    def perf_ns(self, unix_ns):
        span = max(1, self.last[0] - self.first[0])
        share = min(1.0, max(0.0, (unix_ns - self.first[0]) / span))
        return unix_ns - self.first[0] + self.first[1] + int(self.drift_ns * share)


class Names:
    def __init__(self):
        self.ids = {}

    def of(self, name):
        known = self.ids.get(name)
        if known is None:
            if len(self.ids) >= wire.DEEP_NAMES_MAX:
                return self.ids.setdefault("(other)", len(self.ids))
            known = self.ids[name] = len(self.ids)
        return known

    def table(self):
        return [name[: wire.DEEP_NAME_MAX] for name in self.ids]


class Extract:
    """Rows of the device's events, of the host's phases and of the ticks; `origin_ns` is their zero."""

    def __init__(self, clock, origin_ns):
        self.clock, self.origin_ns = clock, origin_ns
        self.names = Names()
        self.rows = []
        self.dropped = 0
        self.device_events = 0
        self.detailed = False

    def take_events(self, events, cuda):
        """`cuda`: the DeviceType of events of the GPU."""
        kind_of = _by_activity if events and hasattr(events[0], "activity_type") else _by_name(cuda)
        wanted = [(kind, event) for event in events for kind in (kind_of(event),) if kind is not None]
        self.dropped = max(0, len(wanted) - wire.DEEP_EVENTS_MAX)
        wanted = wanted[: wire.DEEP_EVENTS_MAX]
        self.device_events = len(wanted)
        self.detailed = bool(wanted) and hasattr(wanted[0][1], "metadata_json")
        every = 1 + sum(kind == wire.KERNEL for kind, _ in wanted) // DETAILS_MAX
        copies = 0
        for number, (kind, event) in enumerate(wanted):
            copies += kind == wire.COPY
            detailed = number % every == 0 if kind == wire.KERNEL else copies <= DETAILS_MAX
            self.rows.append(self._row(kind, event, detailed and self.detailed))

    def take_waits(self, events, cuda):
        calls = (event for event in events if event.device_type() != cuda)
        lasting = (event for event in calls if event.duration_ns() >= LASTED_NS)
        waits = (event for event in lasting if _KEPT_CALLS.match(event.name()))
        self.rows += [self._row(wire.WAIT, event, False) for event in islice(waits, WAITS_MAX)]

    def _row(self, kind, event, detailed):
        start_ns = self.clock.perf_ns(event.start_ns()) - self.origin_ns
        if abs(start_ns) > FAR_NS:
            raise ValueError("the profiler's clock is not the clock of this machine")
        details = _details(event.metadata_json()) if detailed else (-1, -1, -1)
        where = (event.device_index(), event.device_resource_id(), self.names.of(event.name()))
        return (kind, start_ns, event.duration_ns(), *where, *details)

    def take_host(self, spans, ticks):
        for start, end, phase in spans:
            start_ns = int(start * 1e9) - self.origin_ns
            length_ns = int((end - start) * 1e9)
            self.rows.append((wire.HOST, start_ns, length_ns, -1, -1, phase, -1, -1, -1))
        for tick in ticks:
            self.rows.append((wire.TICK, int(tick * 1e9) - self.origin_ns, 0, -1, -1, -1, -1, -1, -1))

    def text(self):
        return HEADER + "".join([_ROW % row for row in self.rows])


def _by_activity(event):
    return _KINDS.get(event.activity_type())


def _by_name(cuda):
    """Older torch does not say what an event is."""

    def kind_of(event):
        if event.device_type() != cuda:
            return None
        name = event.name()
        if name.startswith("Memcpy"):
            return wire.COPY
        if name.startswith("Memset"):
            return wire.FILL
        return None if name.startswith(_NO_WORK) else wire.KERNEL

    return kind_of


def _details(text):
    """(bytes, blocks per SM in thousandths, estimated occupancy in percent); -1 for what is not said."""
    found = [pattern.search(text) for pattern in (_BYTES, _BLOCKS, _OCCUPANCY)]
    moved, blocks, occupancy = (float(match.group(1)) if match else -1.0 for match in found)
    return int(moved), int(1000 * blocks) if blocks >= 0 else -1, int(occupancy)
