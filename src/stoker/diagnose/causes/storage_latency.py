"""SK104: loader workers wait for something that is not a core: disk, network, a lock, a sleep."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.loading import (
    DEEPER,
    SHARE_OUT,
    Blame,
    blame,
    evidence,
    faster_between_stalls,
    read_whole_by_each,
    worker_place,
)
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK104", "loader workers wait for storage"


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or view.cpu_frac is None or blame(found) is not Blame.STORAGE:
        return None
    more = max(view.workers * 2, 4)
    return finding(
        CODE,
        NAME,
        "loader workers spend their time waiting, not computing: storage, network or a lock",
        found.lost("data"),
        found.lost_of,
        [
            *evidence(found),
            share("of a worker's fetching time is off the CPU", 1 - view.cpu_frac, "loader workers"),
            number("one sample takes {} ms", view.sample_ms, "ms", "loader workers"),
        ],
        "the same data from /dev/shm, or a second epoch from the page cache, loads much faster",
        (
            *([SHARE_OUT] if read_whole_by_each(found) else []),
            Fix(
                "waiting workers cost no core: have many of them",
                f"DataLoader(dataset, num_workers={view.workers})",
                f"DataLoader(dataset, num_workers={more}, persistent_workers=True)",
            ),
            *([DEEPER] if faster_between_stalls(found) > 1 else []),
            Fix("copy the data to a local disk, or to memory where it fits; pack small files into shards"),
        ),
        worker_place(found),
    )


CAUSE = Cause(CODE, NAME, find)
