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
    own_iterator_lost,
    read_whole_by_each,
    waiting_iterator,
    worker_place,
)
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.own_steps import OwnMethod
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK104", "loader workers wait for storage"


def find(found: Signals) -> Finding | None:
    view, own = found.loader, waiting_iterator(found)
    if own is not None:
        return _of_an_iterator(found, own)
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


def _of_an_iterator(found: Signals, own: OwnMethod) -> Finding | None:
    lines, lost = found.own_part_lines(own), own_iterator_lost(found, own)
    return finding(
        CODE,
        "data waits for storage",
        "the training thread rests in an iterator of your own, and nothing of the run computes meanwhile: "
        "storage, network or a lock",
        lost,
        found.lost_of,
        [
            share("of the window goes to it", lost, "looks"),
            share(
                "of the window the thread is off its core, and waits for none",
                found.off_core_frac,
                "schedstat",
            ),
            number("{} cores are used by all of the run", found.cores_used, "cores", "host watcher"),
        ],
        "the same data from /dev/shm, or a second epoch from the page cache, loads much faster",
        (
            Fix(
                "have more reads under way at once: waiting threads and workers cost no core",
                "for batch in MyBatches(data):",
                "for batch in DataLoader(dataset, batch_size, num_workers=8, persistent_workers=True):",
            ),
            Fix("copy the data to a local disk, or to memory where it fits; pack small files into shards"),
        ),
        lines[0].place if lines else own.site,
    )


CAUSE = Cause(CODE, NAME, find)
