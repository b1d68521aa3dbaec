"""The loader: what its workers deliver, what the training could take, and where a sample's time goes."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.diagnose.places import MIN_SAMPLES
from stoker.model.record import Line, Loader, ProcessRecord, Sums, Worker


@dataclass(frozen=True, slots=True)
class LoaderView:
    loader: Loader
    workers: int
    """Alive at one time; 0 when the training thread fetches for itself."""
    fetch_ms: float | None
    """One batch, wall time in the worker."""
    sample_ms: float | None
    sample_max_ms: float | None
    collate_ms: float | None
    cpu_frac: float | None
    """Of the fetching time; the rest is waiting: storage, network, sleep, or for a core."""
    busy_frac: float | None
    """Of the workers' lives."""
    lines: list[tuple[Line, float]]
    """Lines of the user's in which workers were found, with their share of the looks."""
    supply_per_s: float | None
    """Batches a second that the workers could deliver if they never had to wait."""


def loader_views(record: ProcessRecord) -> list[LoaderView]:
    """The main loader first. Workers do not say which loader is theirs: with one loader in use that is plain,
    with several their figures are of all together."""
    active = [loader for loader in record.loaders if loader.batches]
    ordered = sorted(active, key=lambda loader: -loader.batches)
    return [_view(loader, record) for loader in ordered]


def _view(loader: Loader, record: ProcessRecord) -> LoaderView:
    own = loader.num_workers == 0
    workers = [w for w in record.workers if (w.number is None) == own]
    batches = sum(w.batches for w in workers)
    samples = sum(w.samples for w in workers)
    wall = sum(w.wall_s for w in workers)
    collate = sum(w.collate_s for w in workers)
    alive = sum(w.alive_s for w in workers)
    fetch_s = wall / batches if batches else None
    return LoaderView(
        loader=loader,
        workers=loader.num_workers,
        fetch_ms=_ms(fetch_s),
        sample_ms=_ms((wall - collate) / samples) if samples else None,
        sample_max_ms=_ms(max((w.sample_max_s for w in workers), default=0.0) or None),
        collate_ms=_ms(collate / batches) if batches else None,
        cpu_frac=min(1.0, sum(w.cpu_s for w in workers) / wall) if wall else None,
        busy_frac=wall / alive if alive and not own else None,
        lines=_lines(workers),
        supply_per_s=max(1, loader.num_workers) / fetch_s if fetch_s else None,
    )


def _lines(workers: list[Worker]) -> list[tuple[Line, float]]:
    """A worker outside all code of the user's waits for work, or is in torch's own."""
    looks: dict[Line, int] = {}
    for worker in workers:
        for leaf, user, count in worker.lines:
            line = user or leaf
            if line is not None:
                looks[line] = looks.get(line, 0) + count
    total = sum(looks.values())
    if total < MIN_SAMPLES:
        return []
    ordered = sorted(looks.items(), key=lambda item: -item[1])
    return [(line, count / total) for line, count in ordered]


def demand_per_s(window: Sums) -> float | None:
    """Ticks a second if data cost nothing."""
    free_s = window.t_s - window.phase("data")
    return window.ticks / free_s if window.ticks and free_s > 0 else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000.0 * seconds
