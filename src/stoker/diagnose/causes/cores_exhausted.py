"""SK103: loading is slow because no core is free. More workers is the wrong advice.

Launching a kernel takes a core, too: where the workers have taken them all, a slow launch is a consequence.
"""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.loading import Blame, blame, evidence, no_core_left, worker_place
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix
from stoker.model.record import COMPUTE

CODE, NAME = "SK103", "no core left for loading"
_ALL_USED = "loading waits for CPU cores, and all are in use: more workers would not help"
_CROWDED = "the training thread waits for a core, and the loader's workers are on them: more would not help"


def starved(found: Signals) -> bool:
    """Then the training thread waits for a core like the workers do."""
    return found.loader is not None and found.loader.workers > 0 and blame(found) is Blame.CORES


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.CORES:
        return None
    launching = _launching(found) if starved(found) else 0.0
    return finding(
        CODE,
        NAME,
        _ALL_USED if no_core_left(found) else _CROWDED,
        found.lost("data") + launching,
        found.lost_of,
        [
            *evidence(found),
            share(
                "of the window the GPU waits for launches, which need a core as well",
                launching or None,
                found.gpu.source if found.gpu else "",
            ),
            share("of the allowed cores' time is in use", found.cores_busy_frac, "host watcher"),
            number("{} cores are used by this training", found.cores_used, "cores", "host watcher"),
            number("it may use {}", found.cores_allowed, "cores", "host watcher"),
        ],
        "one worker more changes nothing; the same run with more cores, or beside nobody, is faster",
        (
            Fix("make a sample cheaper: decode at the size needed, smaller or raw files, cache"),
            Fix("move augmentation to the GPU, a batch at a time"),
            Fix(
                "one thread in each worker: OpenCV starts its own",
                "",
                "cv2.setNumThreads(0)  # in worker_init_fn",
            ),
            Fix("ask for more cores (cpuset, --cpus, Slurm's --cpus-per-task), or leave them to yourself"),
        ),
        worker_place(found),
    )


def _launching(found: Signals) -> float:
    """Also the idle time of the model's phases: a thread without a core may be late by milliseconds."""
    if found.gpu is None:
        return 0.0
    return sum(found.gpu.launching_pct.values()) / 100 + sum(map(found.lost, COMPUTE))


CAUSE = Cause(CODE, NAME, find)
