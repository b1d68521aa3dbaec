"""SK102: the loader's workers are busy all the time, cores are free, and it is not enough."""

from __future__ import annotations

import math

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.loading import (
    DEEPER,
    SHARE_OUT,
    Blame,
    blame,
    evidence,
    faster_between_stalls,
    faster_with,
    read_whole_by_each,
    wanted_per_s,
    with_library,
    worker_place,
)
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK102", "too few loader workers"


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.WORKERS:
        return None
    needed, wanted = _needed(found), _wanted(found)
    enough = f"about {needed} would"
    if wanted < needed:
        enough = f"it takes about {needed}, and your cores allow {wanted}"
    return finding(
        CODE,
        NAME,
        f"{view.workers} worker{'s' if view.workers > 1 else ''} cannot keep up; {enough}",
        found.lost("data") * _within_reach(found, wanted),
        found.lost_of,
        [
            *evidence(found),
            share("of the looks find the queue empty", view.loader.empty_frac, "host clock"),
            share("of the allowed cores' time is in use", found.cores_busy_frac, "host watcher"),
        ],
        f"num_workers={wanted}: the queue is no longer empty, the wait falls",
        (
            *([SHARE_OUT] if read_whole_by_each(found) else []),
            Fix(
                f"more workers, up to the cores you may use{with_library(found, wanted)}",
                f"DataLoader(dataset, num_workers={view.workers})",
                f"DataLoader(dataset, num_workers={wanted}, persistent_workers=True)",
            ),
            *([DEEPER] if faster_between_stalls(found) > 1 else []),
            Fix("cheaper samples: decode at the size needed, cache what is the same each epoch"),
        ),
        worker_place(found),
        view.loader.made,
    )


def _needed(found: Signals) -> int:
    """For the training's own pace."""
    view = found.loader
    wanted = wanted_per_s(found)
    if view is None or not view.fetch_ms or not wanted:
        return 2
    return max(view.workers + 1, math.ceil(wanted * view.fetch_ms / 1000))


def _wanted(found: Signals) -> int:
    """No more than one for each allowed core."""
    workers, needed = found.loader.workers if found.loader else 0, _needed(found)
    return min(needed, max(workers + 1, int(found.cores_allowed or needed)))


def _within_reach(found: Signals, wanted: int) -> float:
    """Of the waiting."""
    times, waits = faster_with(found, wanted), found.host_pct["data"] / 100
    return 1.0 if times is None else min(1.0, (1 - 1 / times) / waits)


CAUSE = Cause(CODE, NAME, find)
