"""SK101: the training thread fetches its own data (`num_workers=0`, or an iterator of the user's own)."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.loading import (
    SHARE_OUT,
    Blame,
    blame,
    collate_frac,
    evidence,
    faster_with,
    iterator_rests,
    own_iterator,
    own_iterator_lost,
    read_whole_by_each,
    waiting_iterator,
    with_library,
    worker_place,
)
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    HANDED_OVER_MS,
    HEALTHY_CEILING,
    LESS_FRAC,
    NOTE_FRAC,
)
from stoker.diagnose.places import LineShare
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK101", "data loaded by the training thread"
WORKERS_MAX = 4
_ONE_BATCH = "train on one batch again and again: ticks/s rise by up to the ceiling"
_QUICK_FIXES = (
    Fix(
        "data in memory: index whole batches, not samples",
        "for x, y in DataLoader(TensorDataset(xs, ys), 256, shuffle=True):",
        "for at in torch.randperm(len(xs)).split(256):\n    x, y = xs[at], ys[at]",
    ),
    Fix("larger batches, where the training allows: fewer calls for as many samples"),
)


_IN_MEMORY = Fix("data that fits in memory: decode once, keep tensors, index them without a DataLoader")
_NO_CORE_FIXES = (
    Fix(
        "make a sample cheaper: all cores are in use, workers would find none (smaller files, less to decode)"
    ),
    _IN_MEMORY,
)
_ITERATOR_FIXES = (
    Fix(
        "a loader whose workers make batches while the model computes",
        "for batch in MyBatches(data):",
        "for batch in DataLoader(dataset, batch_size, num_workers=4, persistent_workers=True):",
    ),
    Fix("make it cheaper: its hottest line is named above"),
)


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.MAIN_PROCESS:
        return _by_an_iterator(found)
    collate = collate_frac(found)
    quick = view.fetch_ms is not None and view.fetch_ms < HANDED_OVER_MS
    but = "; its batches are so quick that workers would cost more than they save" if quick else ""
    return finding(
        CODE,
        NAME,
        f"the training thread loads every batch itself (num_workers=0) and computes nothing meanwhile{but}",
        found.lost("data"),
        found.lost_of,
        [
            *evidence(found),
            number("one batch takes {} ms to fetch", view.fetch_ms, "ms", "loader workers"),
            share("of that in collate", collate, "loader workers") if collate >= NOTE_FRAC else None,
        ],
        _ONE_BATCH if quick else "the same script with num_workers=2: the wait falls and ticks/s rise",
        _QUICK_FIXES if quick else _fixes(found),
        worker_place(found),
        view.loader.made,
        by_workers=None if quick else _times_by_workers(found),
    )


def _by_an_iterator(found: Signals) -> Finding | None:
    own = own_iterator(found)
    if own is None or iterator_rests(found):  # somebody else makes them
        return None
    lines, lost = found.own_part_lines(own), own_iterator_lost(found, own)
    return finding(
        CODE,
        NAME,
        "the training thread makes every batch itself, in an iterator of your own",
        lost,
        found.lost_of,
        [
            share("of the training thread's own code is under an iterator's __next__", own.frac, "looks"),
            share("of the window goes to it", lost, "looks"),
        ],
        "train on one batch again and again: ticks/s rise by up to the ceiling",
        _ITERATOR_FIXES,
        lines[0].place if lines else own.site,
    )


def loaded(found: Signals) -> list[LineShare]:
    """Lines of such an iterator: they are told with it, here or, where it waits, as SK104."""
    own = own_iterator(found)
    if own is None or own_iterator_lost(found, own) < NOTE_FRAC:
        return []
    told = waiting_iterator(found) is not None or not iterator_rests(found)
    return found.own_part_lines(own) if told else []


def _fixes(found: Signals) -> tuple[Fix, ...]:
    workers = _workers(found)
    times = faster_with(found, workers)
    if times is not None and times < HEALTHY_CEILING:
        return _NO_CORE_FIXES
    return (
        *([SHARE_OUT] if read_whole_by_each(found) else []),
        Fix(
            f"let workers load while the model computes{with_library(found, workers)}",
            "DataLoader(dataset, …)",
            f"DataLoader(dataset, …, num_workers={workers}, persistent_workers=True)",
        ),
        _IN_MEMORY,
    )


def _workers(found: Signals) -> int:
    """As many as there are cores, to begin with; SK102 says when more are needed."""
    return max(1, min(WORKERS_MAX, int(found.cores_allowed or WORKERS_MAX)))


def _times_by_workers(found: Signals) -> float | None:
    """By workers; where they would find no core, other fixes are named, which have no such bound."""
    times, waits = faster_with(found, _workers(found)), found.host_pct["data"] / 100
    known = times is not None and HEALTHY_CEILING <= times < LESS_FRAC / (1 - waits)
    return times if known else None


CAUSE = Cause(CODE, NAME, find)
