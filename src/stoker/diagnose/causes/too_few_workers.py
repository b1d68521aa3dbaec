"""SK102: the loader's workers are busy all the time, cores are free, and it is not enough."""

from __future__ import annotations

import math

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.loading import Blame, blame, evidence, worker_place
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK102", "too few loader workers"


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.WORKERS:
        return None
    wanted = _wanted(found)
    return finding(
        CODE,
        NAME,
        f"{view.workers} worker{'s' if view.workers > 1 else ''} cannot keep up; about {wanted} would",
        found.lost("data"),
        found.lost_of,
        [
            *evidence(found),
            share("of the looks find the queue empty", view.loader.empty_frac, "host clock"),
            share("of the allowed cores' time is in use", _busy(found), "host watcher"),
        ],
        f"num_workers={wanted}: the queue is no longer empty, the wait falls",
        (
            Fix(
                "more workers, up to the cores you may use",
                f"DataLoader(dataset, num_workers={view.workers})",
                f"DataLoader(dataset, num_workers={wanted}, persistent_workers=True)",
            ),
            Fix("cheaper samples: decode at the size needed, cache what is the same each epoch"),
        ),
        worker_place(found),
        view.loader.made,
    )


def _wanted(found: Signals) -> int:
    """For the training's own pace, no more than one for each allowed core."""
    view = found.loader
    if view is None or not view.fetch_ms or not found.demand_per_s:
        return 2
    wanted = max(view.workers + 1, math.ceil(found.demand_per_s * view.fetch_ms / 1000))
    return min(wanted, max(view.workers + 1, int(found.cores_allowed or wanted)))


def _busy(found: Signals) -> float | None:
    return None if found.allowed_cpu_pct is None else found.allowed_cpu_pct / 100


CAUSE = Cause(CODE, NAME, find)
