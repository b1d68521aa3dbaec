"""Which one cause the waiting for data has: one decision, so that two causes never claim the same wait.

The order matters: what makes "add workers" the wrong advice is asked first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import StrEnum

from stoker.diagnose.causes.cause import number, share
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    COLLATE_FRAC,
    CORES_BUSY_PCT,
    CROWD_FRAC,
    EDGE_FRAC,
    EDGE_LEAN,
    EDGE_NEARLY_ALL,
    EDGES_MIN,
    NOTE_FRAC,
    OPENING_FRAC,
    OTHERS_CORES,
    OWN_CORES_FRAC,
    QUEUE_EMPTY_FRAC,
    SUPPLY_MARGIN,
    WAITS_FRAC,
    WORKER_CPU_FRAC,
    WORKERS_CORES_FRAC,
)
from stoker.diagnose.own_steps import OwnMethod
from stoker.model.finding import Evidence, Fix
from stoker.model.record import STALLS, Place

SHARE_OUT = Fix(
    "workers, each of which reads a part: an IterableDataset is read whole by every one of them",
    "def __iter__(self):\n    yield from self.rows",
    "def __iter__(self):\n    info = torch.utils.data.get_worker_info()\n"
    "    yield from self.rows[info.id :: info.num_workers] if info else self.rows",
)
"""Before there are more."""
DEEPER = Fix(
    "a longer queue: the workers fill it while the training stalls",
    "DataLoader(dataset, num_workers=2)",
    "DataLoader(dataset, num_workers=2, prefetch_factor=16)",
)


_ARGUMENTS: Mapping[str, tuple[str, str]] = {
    "transformers": ("TrainingArguments(dataloader_num_workers={})", "dataloader_persistent_workers=True"),
    "skorch": ("NeuralNet(iterator_train__num_workers={})", "iterator_train__persistent_workers=True"),
    "mmengine": ("train_dataloader=dict(num_workers={})", "train_dataloader=dict(persistent_workers=True)"),
    "ultralytics": ("model.train(workers={})", ""),
    "detectron2": ("cfg.DATALOADER.NUM_WORKERS = {}", ""),
}
"""Of libraries that make the loader themselves: what their user writes for the workers, and to keep them.
Read in their sources, 2026-11."""
_PACKAGE = re.compile(r"/(?:site|dist)-packages/(\w+)/")


def own_iterator(found: Signals) -> OwnMethod | None:
    """Makes the batches; what follows a loader may be the way to the GPU."""
    return found.own_loading if found.loader is None else None


def iterator_rests(found: Signals) -> bool:
    """It makes no batches itself."""
    own = own_iterator(found)
    computes = any(line.computes for line in found.own_part_lines(own))
    return own is not None and not computes and found.own_code_rests(own.frac)


def waiting_iterator(found: Signals) -> OwnMethod | None:
    """The training thread rests in it, and nobody else of the run computes or is waited for: what it waits
    for is outside."""
    if not iterator_rests(found) or found.cores_used is None or found.off_core_frac is None:
        return None
    own = own_iterator(found)
    nobody = found.cores_used - (1 - found.off_core_frac) < OTHERS_CORES
    return own if nobody and all(line.waits_frac < WAITS_FRAC for line in found.own_part_lines(own)) else None


def own_iterator_lost(found: Signals, own: OwnMethod) -> float:
    """Of the window."""
    return max(0.0, found.lost("other") - found.hidden_copies_pct()["other"] / 100) * own.frac


class Blame(StrEnum):
    MAIN_PROCESS = "main process"
    RESTART = "worker restart"
    COLLATE = "collate"
    STORAGE = "storage"
    CORES = "cores"
    WORKERS = "workers"


def blame(found: Signals) -> Blame | None:
    """None where nobody waits for data, or it cannot be told why."""
    view = found.loader
    if view is None or found.lost("data") < NOTE_FRAC:
        return None
    if view.workers == 0:
        alone = found.cores_allowed is not None and found.cores_allowed <= 1
        return Blame.CORES if alone and not _waits(found) else Blame.MAIN_PROCESS
    if _restarts(found):
        return Blame.RESTART
    if not _too_slow(found):
        return Blame.CORES if _crowds_itself(found) else None
    if collate_frac(found) >= COLLATE_FRAC:
        return Blame.COLLATE
    if _waits(found):
        return Blame.STORAGE
    return Blame.CORES if no_core_left(found) or _crowds_out(found) else Blame.WORKERS


def no_core_left(found: Signals) -> bool:
    """All are in use, whoever uses them; or the workers alone compute on most of those there are."""
    view, allowed = found.loader, found.cores_allowed
    if (found.allowed_cpu_pct or 0.0) >= CORES_BUSY_PCT:
        return True
    if view is None or not allowed or view.cpu_frac is None or view.busy_frac is None:
        return False
    return view.workers * view.busy_frac * view.cpu_frac >= WORKERS_CORES_FRAC * allowed


def _crowds_out(found: Signals) -> bool:
    """And there is no core for one worker more."""
    free = (found.cores_allowed or 0.0) - (found.cores_used or 0.0)
    return free < 1 and _crowds_itself(found)


def _crowds_itself(found: Signals) -> bool:
    """The training thread waits for a core, and the run has most of them, its workers a good part: batches
    that are ready are taken over late, too."""
    view, used, allowed = found.loader, found.cores_used, found.cores_allowed
    if view is None or used is None or allowed is None or used < OWN_CORES_FRAC * allowed:
        return False
    workers = view.workers * (view.busy_frac or 0.0) * (view.cpu_frac or 0.0)
    return workers >= CROWD_FRAC * allowed and found.without_core() > 0


def collate_frac(found: Signals) -> float:
    view = found.loader
    if view is None or not view.fetch_ms or view.collate_ms is None:
        return 0.0
    return view.collate_ms / view.fetch_ms


def _restarts(found: Signals) -> bool:
    view = found.loader
    if view is None or view.loader.persistent_workers or found.epochs < EDGES_MIN:
        return False
    if _opening_frac(found) >= OPENING_FRAC:
        return True
    edge, usual = found.edge_data_frac, found.edge_tick_frac
    if edge is None or usual is None:
        return False
    return edge >= EDGE_FRAC and edge >= min(EDGE_LEAN * usual, EDGE_NEARLY_ALL)


def edge_frac(found: Signals) -> float:
    """Of the waiting for data, where epochs begin. The ticks with their phases need not have as many of those
    as there are; what opening takes is known of all, and is less than all of it."""
    return max(found.edge_data_frac or 0.0, _opening_frac(found))


def _opening_frac(found: Signals) -> float:
    loader = found.loader.loader if found.loader else None
    spent = loader.open_s + loader.wait_s if loader else 0.0
    return loader.open_s / spent if loader and spent > 0 else 0.0


def faster_with(found: Signals, workers: int) -> float | None:
    """Times, at the most: each of them at today's pace, and no more in all than the cores can do."""
    view, waits = found.loader, found.host_pct["data"] / 100
    if view is None or not view.fetch_ms or not found.demand_per_s or not 0 < waits < 1:
        return None
    now = found.demand_per_s * (1 - waits)
    fetched = 1000 * workers / view.fetch_ms / now
    return max(1.0, min(1 / (1 - waits), fetched, _cores_allow(found)))


def _cores_allow(found: Signals) -> float:
    """Times as much of what the run computes now, all at once, beside what others do on these cores."""
    used, allowed, busy_pct = found.cores_used, found.cores_allowed, found.allowed_cpu_pct
    if not used or allowed is None or busy_pct is None:
        return math.inf
    others = max(0.0, allowed * busy_pct / 100 - used)
    return (allowed - others) / used


def _too_slow(found: Signals) -> bool:
    """The workers together cannot deliver what the training could take."""
    supply, demand = found.loader.supply_per_s if found.loader else None, wanted_per_s(found)
    return bool(supply and demand and supply < SUPPLY_MARGIN * demand)


def wanted_per_s(found: Signals) -> float | None:
    """Batches; where the queue is mostly empty, between stalls: it holds a few, and a stall is longer."""
    return found.demand_per_s * faster_between_stalls(found) if found.demand_per_s else None


def faster_between_stalls(found: Signals) -> float:
    """Times what it could take on average."""
    empty = found.loader.loader.empty_frac if found.loader else None
    stalls = sum(found.host_pct[phase] for phase in STALLS) / 100
    taking = 1 - found.host_pct["data"] / 100
    if empty is None or empty < QUEUE_EMPTY_FRAC or not 0 < stalls < taking:
        return 1.0
    return taking / (taking - stalls)


def _waits(found: Signals) -> bool:
    """A worker is off the CPU, and not because others are on it: that share of the time it would have had
    to wait for a core is allowed for."""
    cpu = found.loader.cpu_frac if found.loader else None
    return cpu is not None and cpu * (found.queue_per_core or 1.0) < WORKER_CPU_FRAC


def evidence(found: Signals) -> list[Evidence | None]:
    """What all causes of this family show."""
    view = found.loader
    supply = view.supply_per_s if view and view.workers else None
    return [
        share(
            f"of the window {'the GPU idles' if found.gpu else 'goes to'} waiting for data",
            found.lost("data"),
            found.gpu.source if found.gpu else "host clock",
        ),
        number("the workers can deliver {} batches/s", supply, "batches/s", "loader workers"),
        number(
            f"the training could take {{}}{' between stalls' if faster_between_stalls(found) > 1 else ''}",
            wanted_per_s(found) if supply else None,
            "batches/s",
            "host clock",
        ),
    ]


def worker_place(found: Signals) -> Place | None:
    """The line workers are most often found in; or the training thread, where it loads by itself."""
    lines = found.loader.lines if found.loader else []
    own = found.top_line("data")
    if found.loader and not found.loader.workers and own:
        return own.place
    return Place(lines[0][0], lines[0][0]) if lines else None


def with_library(found: Signals, workers: int | None = None) -> str:
    """How so many workers, or to keep them, is asked of the library that makes the loader."""
    made = found.loader.loader.made if found.loader else None
    package = _PACKAGE.search(made.leaf[0]) if made is not None and made.leaf else None
    many, keep = _ARGUMENTS.get(package[1] if package else "", ("", ""))
    told = keep if workers is None else many.format(workers)
    return f" ({package[1]}: {told})" if package and told else ""


def read_whole_by_each(found: Signals) -> bool:
    """With a second worker every sample would come twice, unless the data set sees to that."""
    view = found.loader
    return view is not None and view.loader.iterable and view.workers < 2
