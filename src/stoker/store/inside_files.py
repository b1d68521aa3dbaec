"""From the files a trained process wrote (`stoker.inside.wire`) to a `ProcessRecord`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.inside import wire
from stoker.model.record import (
    PHASES,
    Blocking,
    HookFailure,
    Line,
    Loader,
    Mark,
    Place,
    ProcessRecord,
    Raised,
    Sampled,
    Second,
    Sums,
    Tick,
    Worker,
)
from stoker.store.rows import Row, json_rows, tsv_rows


def read_process(path: Path) -> ProcessRecord | None:
    """None where there is not even a header."""
    collected = _Collected()
    for row in json_rows(path):
        collected.take(row)
    if collected.header is None:
        return None
    for row in _last_words(path.with_name(f"workers-{collected.header['pid']}.jsonl")):
        collected.take(row)
    return collected.record(read_ticks(path, "first"), read_ticks(path, "slow"))


def _last_words(path: Path) -> Iterable[Row]:
    """The last row of each worker that ever lived."""
    rows = json_rows(path) if path.exists() else ()
    return {row.get("pid"): row for row in rows if row and row.get("schema") == wire.WORKER_SCHEMA}.values()


def read_ticks(path: Path, *names: str) -> tuple[Tick, ...]:
    """Ticks of one process, oldest first; names: `first`, `tail0`, `tail1`, `slow`. Tails may be large."""
    stem = path.with_suffix("")
    rows: dict[int, list[int]] = {}
    for name in names:
        path = stem.with_name(f"{stem.name}.{name}.tsv")
        if path.exists():
            rows |= {row[0]: row for row in tsv_rows(path) if len(row) == len(wire.TICK_COLUMNS)}
    return tuple(
        Tick(row[0] / 1e6, row[1] / 1e6, row[2], tuple(us / 1e6 for us in row[3:]))
        for _, row in sorted(rows.items())
    )


class _Collected:
    """Rows sorted by kind; of cumulative rows the last one counts."""

    def __init__(self) -> None:
        self.header: Row | None = None
        self.rank: Row = {}
        self.seconds: list[Second] = []
        self.last_second: Row = {}
        self.marks: list[Mark] = []
        self.optimizers: list[str] = []
        self.sequence: list[tuple[int | str, int]] = []
        self.growing: list[tuple[int | str, int]] = []
        self.loaders: dict[int, Loader] = {}
        self.own_fetching: Worker | None = None
        self.workers: list[Worker] = []
        self.places: dict[int, Place] = {}
        self.lines: list[tuple[str, str, int, int]] = []
        self.syncs: list[tuple[str, int, int, float]] = []
        self.ranges: dict[str, tuple[int, float]] = {}
        self.hooks: list[HookFailure] = []
        self.raised: Raised | None = None
        self.ended = False
        self.lost = 0
        self.unreadable = 0

    def take(self, row: Row | None) -> None:
        if row is None:
            self.unreadable += 1
            return
        try:
            self._sort(row)
        except (KeyError, TypeError, ValueError, IndexError):
            self.unreadable += 1

    def _sort_worker(self, row: Row) -> None:
        """Workers that fail, fail alike: one of each kind is enough."""
        for hook in row.get("hooks", ()):
            if all(known.name != hook["name"] for known in self.hooks):
                self.hooks.append(HookFailure(hook["name"], hook["error"], f"{hook['when']}, in a worker"))
        if "batches" in row:
            self.workers.append(_worker(row))

    def _sort(self, row: Row) -> None:
        if row.get("schema") == wire.WORKER_SCHEMA:
            self._sort_worker(row)
            return
        match row.get("k"):
            case wire.HEADER if row["schema"] == wire.SCHEMA:
                self.header = _header(row)
            case wire.SECOND:
                self.seconds.append(_second(row))
                self.last_second = row
            case wire.MARK:
                self.marks.append(Mark(row["stage"], _sums(row)))
            case wire.OPTIMIZER:
                self.optimizers.append(row["name"])
            case wire.SEQUENCE:
                self.sequence += [(symbol, count) for symbol, count in row["runs"]]
                self.growing = [(symbol, count) for symbol, count in [row["growing"]]]
            case wire.LOADER:
                self.loaders[row["id"]] = _loader(row)
            case wire.WORKER:
                self.own_fetching = _worker({**row, "pid": 0})
            case wire.PLACE:
                self.places[row["id"]] = Place(_line(row["leaf"]), _line(row["user"]))
            case wire.LINES:
                self.lines = [(_phase(p), str(stage), place, int(n)) for p, stage, place, n in row["lines"]]
            case wire.SYNCS:
                self.syncs = [(_phase(p), place, int(n), float(s)) for p, place, n, s in row["syncs"]]
            case wire.RANGES:
                self.ranges = {name: (n, s) for name, (n, s) in row["ranges"].items()}
            case wire.HOOK:
                self.hooks.append(HookFailure(row["name"], row["error"], row["when"]))
            case wire.FAILURE:
                self.raised = Raised(row["type"], row["message"], row["class"], row["file"], row["line"])
            case wire.RANK:
                self.rank = row
            case wire.LOST:
                self.lost += row["rows"]
            case wire.END:
                self.ended = True

    def record(self, ticks: tuple[Tick, ...], slow: tuple[Tick, ...]) -> ProcessRecord:
        header = self.header or {}
        own = (replace(self.own_fetching, pid=header["pid"]),) if self.own_fetching else ()
        return ProcessRecord(
            pid=header["pid"],
            ppid=header["ppid"],
            python=header["python"],
            torch=header["torch"],
            argv=tuple(header["argv"]),
            began_s=header["t"],
            process_start_s=header["process_start"],
            rank=self.rank.get("rank"),
            world=self.rank.get("world"),
            seconds=tuple(self.seconds),
            marks=tuple(self.marks),
            ticks=ticks,
            slow_ticks=slow,
            optimizers=tuple(self.optimizers),
            optimizer_steps=tuple(self.last_second.get("steps") or ()),
            sequence=(*self.sequence, *self.growing),
            loaders=tuple(self.loaders.values()),
            workers=(*own, *self.workers),
            sampled=tuple(self._sampled()),
            blocking=tuple(self._blocking()),
            ranges=self.ranges,
            hook_failures=tuple(self.hooks),
            raised=self.raised,
            ended=self.ended,
            lost_rows=self.lost,
            unreadable_rows=self.unreadable,
            batch_rows=self.last_second.get("batch_rows"),
        )

    def _sampled(self) -> Iterable[Sampled]:
        for phase, stage, place, count in self.lines:
            yield Sampled(phase, stage, self.places.get(place, Place(None, None)), count)

    def _blocking(self) -> Iterable[Blocking]:
        for phase, place, count, seconds in self.syncs:
            yield Blocking(phase, self.places.get(place, Place(None, None)), count, seconds)


def _header(row: Row) -> Row:
    """With all a record needs, or not at all."""
    for name in ("pid", "ppid", "python", "torch", "argv", "t", "process_start"):
        row[name]
    int(row["pid"]), float(row["t"]), float(row["process_start"] or 0), list(row["argv"])
    return row


def _phase(name: object) -> str:
    if name not in PHASES:
        raise ValueError(f"unknown phase {name!r}")
    return str(name)


def _sums(row: Row) -> Sums:
    phase_s = tuple(float(value) for value in row["s"])
    if len(phase_s) != len(PHASES):
        raise ValueError("phases of another version")
    counts = (int(row[name]) for name in ("ticks", "samples", "env_steps", "backwards"))
    return Sums(float(row["t"]), phase_s, *counts)


def _second(row: Row) -> Second:
    return Second(
        _sums(row), row["stage"], row["acting_s"], row["tick_max_s"], row["env_calls"], row["pulse_s"]
    )


def _line(value: list[Any] | None) -> Line | None:
    return None if value is None else (str(value[0]), int(value[1]), str(value[2]))


def _loader(row: Row) -> Loader:
    seen = row["depth_seen"]
    return Loader(
        id=row["id"],
        num_workers=row["num_workers"],
        batch_size=row["batch_size"],
        prefetch_factor=row["prefetch_factor"],
        persistent_workers=row["persistent_workers"],
        pin_memory=row["pin_memory"],
        length=row["length"],
        dataset=row["dataset"],
        epochs=row["epochs"],
        batches=row["batches"],
        wait_s=row["wait_s"],
        wait_max_s=row["wait_max_s"],
        open_s=row["open_s"],
        depth_mean=row["depth_sum"] / seen if seen else None,
        empty_frac=row["empty"] / seen if seen else None,
    )


def _worker(row: Row) -> Worker:
    return Worker(
        pid=row["pid"],
        number=row["worker"],
        batches=row["batches"],
        samples=row["samples"],
        wall_s=row["wall_s"],
        cpu_s=row["cpu_s"],
        collate_s=row["collate_s"],
        sample_max_s=row["sample_max_s"],
        alive_s=row["alive_s"],
        lines=tuple((_line(leaf), _line(user), n) for leaf, user, n in row.get("lines", ())),
    )
