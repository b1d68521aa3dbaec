"""From the files a trained process wrote (`stoker.inside.wire`) to a `ProcessRecord`."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from stoker.inside import wire
from stoker.model.deep import DeepNote
from stoker.model.knobs import KnobReport, TrainingFacts
from stoker.model.lead import Lead, PhaseLead
from stoker.model.record import (
    PHASES,
    Blocking,
    DeviceUse,
    HookFailure,
    Line,
    Loader,
    Mark,
    ModelInput,
    OtherThreads,
    Place,
    ProcessRecord,
    Raised,
    Sampled,
    Second,
    Sums,
    Tick,
    TickTimes,
    Worker,
)
from stoker.store.deep_files import read_note
from stoker.store.knob_rows import read_facts, read_reports
from stoker.store.rows import Row, json_rows, tsv_pairs, tsv_rows

_T = TypeVar("_T")
_SHORT = 3
"""Columns of a tick whose phases were not told apart."""

TICKS_READ_BYTES_MAX = 24_000_000
"""About 200,000 ticks, a third of a second to read."""
_DEVICE_COUNTS = (
    "total_bytes",
    "allocated_bytes",
    "allocated_max_bytes",
    "reserved_bytes",
    "reserved_max_bytes",
    "retries",
    "ooms",
    "driver_allocs",
    "driver_frees",
)


def read_process(path: Path) -> ProcessRecord | None:
    """None where there is not even a header."""
    collected = _Collected()
    for row in json_rows(path):
        collected.take(row)
    if collected.header is None:
        return None
    for row in _last_words(path.with_name(f"workers-{collected.header['pid']}.jsonl")):
        collected.take(row)
    record = collected.record(read_ticks(path, "first"), read_ticks(path, "slow"))
    return replace(record, tick_times=_tick_times(path, record), file=path.name)


def _last_words(path: Path) -> Iterable[Row]:
    """The last row of each worker that ever lived."""
    rows = json_rows(path) if path.exists() else ()
    return {row.get("pid"): row for row in rows if row and row.get("schema") == wire.WORKER_SCHEMA}.values()


def read_ticks(path: Path, *names: str) -> tuple[Tick, ...]:
    """Ticks of one process, oldest first; names: `first`, `slow`, or `wire.TAILS`, which may be large."""
    stem = path.with_suffix("")
    rows: dict[int, list[int]] = {}
    for name in names:
        path = stem.with_name(f"{stem.name}.{name}.tsv")
        if path.exists():
            known = (_SHORT, len(wire.TICK_COLUMNS))
            rows |= {row[0]: row for row in tsv_rows(path, _SHORT) if len(row) in known}
    return tuple(
        Tick(row[0] / 1e6, row[1] / 1e6, row[2], tuple(us / 1e6 for us in row[_SHORT:]) or None)
        for _, row in sorted(rows.items())
    )


def _tick_times(path: Path, record: ProcessRecord) -> TickTimes | None:
    """Nothing for a long run, whose tails hold its last minutes only, nor for ticks by the million: there a
    row a second says as much."""
    stem = path.with_suffix("")
    tails = [tail for name in wire.TAILS if (tail := stem.with_name(f"{stem.name}.{name}.tsv")).exists()]
    life_s = record.last.t_s - record.began_s if record.last else 0.0
    too_many = sum(tail.stat().st_size for tail in tails) > TICKS_READ_BYTES_MAX
    if not tails or too_many or life_s > wire.TAIL_S * len(wire.TAILS):
        return None
    rows = sorted(row for tail in tails for row in tsv_pairs(tail))
    return TickTimes(array("d", (end / 1e6 for end, _ in rows)), array("d", (took / 1e6 for _, took in rows)))


class _Collected:
    """Rows sorted by kind; of cumulative rows the last one counts."""

    def __init__(self) -> None:
        self.header: Row | None = None
        self.rank: int | None = None
        self.world: int | None = None
        self.seconds: list[Second] = []
        self.steps: tuple[int, ...] = ()
        self.batch_rows: int | None = None
        self.evaluated: Counter[int] = Counter()
        self.marks: list[Mark] = []
        self.optimizers: list[str] = []
        self.elements: dict[str, int] = {}
        self.sequence: list[tuple[int | str, int]] = []
        self.growing: list[tuple[int | str, int]] = []
        self.loaders: dict[int, Loader] = {}
        self.loaders_made: dict[int, int] = {}
        self.own_fetching: Worker | None = None
        self.workers: list[Worker] = []
        self.places: dict[int, Place] = {}
        self.callers: dict[int, tuple[Line, ...]] = {}
        self.lines: list[tuple[str, str, int, int]] = []
        self.waits: dict[tuple[str, str, int], int] = {}
        self.computes: dict[tuple[str, str, int], int] | None = None
        self.syncs: list[tuple[str, int, int, float, str]] = []
        self.ranges: dict[str, tuple[int, float]] = {}
        self.hooks: list[HookFailure] = []
        self.devices: list[DeviceUse] = []
        self.raised: Raised | None = None
        self.deep: DeepNote | None = None
        self.knobs: tuple[KnobReport, ...] = ()
        self.facts: TrainingFacts | None = None
        self.threads: Row | None = None
        self.leads: list[tuple[float, Lead]] = []
        self.ended = False
        self.lost = 0
        self.unreadable = 0

    def take(self, row: Row | None) -> None:
        if row is None:
            self.unreadable += 1
            return
        try:
            self._sort(row)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            self.unreadable += 1

    def _sort_worker(self, row: Row) -> None:
        """Workers that fail, fail alike: one of each kind is enough."""
        for hook in row.get("hooks", ()):
            name, error = str(hook["name"]), str(hook["error"])
            if all(known.name != name for known in self.hooks):
                self.hooks.append(HookFailure(name, error, f"{hook['when']}, in a worker"))
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
                self.seconds.append(replace(_second(row), inputs=tuple(self._inputs(row))))
                self.steps = tuple(int(count) for count in row.get("steps") or ())
                self.batch_rows = _maybe(int, row.get("batch_rows"))
            case wire.MARK:
                self.marks.append(Mark(str(row["stage"]), _sums(row)))
            case wire.OPTIMIZER:
                self.optimizers.append(str(row["name"]))
                for device, count in (row.get("elements") or {}).items():
                    self.elements[str(device)] = self.elements.get(str(device), 0) + int(count)
            case wire.SEQUENCE:
                runs, growing = [_events(run) for run in row["runs"]], _events(row["growing"])
                self.sequence += runs
                self.growing = [growing]
            case wire.LOADER:
                self.loaders[int(row["id"])] = _loader(row)
                self.loaders_made[int(row["id"])] = int(row.get("made") or 0)
            case wire.WORKER:
                self.own_fetching = _worker({**row, "pid": 0})
            case wire.PLACE:
                self.places[int(row["id"])] = Place(_line(row["leaf"]), _line(row["user"]))
                self.callers[int(row["id"])] = _callers(row.get("callers") or [])
            case wire.LINES:
                self.lines = _looks(row["lines"])
                self.waits = _by_place(row.get("waits") or ())
                self.computes = _by_place(row["computes"]) if "computes" in row else None
            case wire.SYNCS:
                self.syncs = [
                    (_phase(p), int(at), int(n), float(s), str(stage)) for p, at, n, s, stage in row["syncs"]
                ]
            case wire.RANGES:
                self.ranges = {name: (int(n), float(s)) for name, (n, s) in row["ranges"].items()}
            case wire.HOOK:
                self.hooks.append(HookFailure(str(row["name"]), str(row["error"]), str(row["when"])))
            case wire.DEVICE:
                self.devices.append(_device(row))
            case wire.LEAD:
                self.leads.append((self.seconds[-1].sums.t_s if self.seconds else 0.0, _lead(row)))
            case wire.DEEP_WINDOW:
                self.deep = read_note(row)
            case wire.KNOBS:
                self.knobs, self.facts = read_reports(row), read_facts(row)
            case wire.THREADS:
                self.threads = _threads(row)
            case wire.FAILURE:
                self.raised = _raised(row)
            case wire.RANK:
                self.rank, self.world = _maybe(int, row["rank"]), _maybe(int, row["world"])
            case wire.LOST:
                self.lost += int(row["rows"])
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
            rank=self.rank,
            world=self.world,
            seconds=tuple(self.seconds),
            marks=tuple(self.marks),
            ticks=ticks,
            slow_ticks=slow,
            optimizers=tuple(self.optimizers),
            optimizer_steps=self.steps,
            trained_elements=self.elements,
            sequence=(*self.sequence, *self.growing),
            loaders=tuple(self._loaders()),
            workers=(*own, *self.workers),
            sampled=tuple(self._sampled()),
            blocking=tuple(self._blocking()),
            ranges=self.ranges,
            hook_failures=tuple(self.hooks),
            raised=self.raised,
            ended=self.ended,
            lost_rows=self.lost,
            unreadable_rows=self.unreadable,
            batch_rows=self.batch_rows,
            evaluated=tuple(self._asked({at: n for at, n in self.evaluated.items() if at > 0})),
            acted=tuple(self._asked({-at: n for at, n in self.evaluated.items() if at < 0})),
            other_threads=self._other_threads(),
            devices=tuple(self.devices),
            deep=self.deep,
            knobs=self.knobs,
            facts=self.facts,
            lead=self.leads[-1][1] if self.leads else None,
            leads=tuple(self.leads),
        )

    def _loaders(self) -> Iterable[Loader]:
        for number, loader in self.loaders.items():
            yield replace(loader, made=self.places.get(self.loaders_made[number]))

    def _inputs(self, row: Row) -> Iterable[ModelInput]:
        if row.get("stage") != wire.TRAIN:
            return
        given, asked = row.get("given"), row.get("asked") or ()
        if row.get("shapes"):  # one call of each kind a second, as runs of 2026-11-18 and before have it
            shape, given = row["shapes"]
            asked = [(shape, row.get("evaluated") or 0)] if shape or row.get("evaluated") is not None else ()
        if given:
            yield ModelInput(True, _sizes(given))
        for shape, place in asked:
            self.evaluated[int(place)] += 1
            if shape:
                mode = "" if not place else "eval" if int(place) > 0 else "train"
                yield ModelInput(False, _sizes(shape), mode)

    def _asked(self, places: dict[int, int]) -> Iterable[Sampled]:
        for place, count in places.items():
            at, callers = self.places.get(place, Place(None, None)), self.callers.get(place, ())
            yield Sampled("infer", wire.TRAIN, at, count, callers)

    def _sampled(self) -> Iterable[Sampled]:
        for phase, stage, place, count in self.lines:
            at, callers = self.places.get(place, Place(None, None)), self.callers.get(place, ())
            key = (phase, stage, place)
            computes = None if self.computes is None else self.computes.get(key, 0)
            yield Sampled(phase, stage, at, count, callers, self.waits.get(key, 0), computes)

    def _other_threads(self) -> OtherThreads | None:
        if self.threads is None:
            return None
        spent = {at: seconds for at, seconds in self.threads["spent"] if at in self.places}
        places = tuple((self.places[at], seconds) for at, seconds in spent.items())
        return OtherThreads(self.threads["looked_s"], places, self.threads["trains_first"])

    def _blocking(self) -> Iterable[Blocking]:
        for phase, place, count, seconds, stage in self.syncs:
            yield Blocking(phase, self.places.get(place, Place(None, None)), count, seconds, stage)


def _header(row: Row) -> Row:
    """With all a record needs, or not at all."""
    return {
        "pid": int(row["pid"]),
        "ppid": int(row["ppid"]),
        "python": str(row["python"]),
        "torch": _maybe(str, row["torch"]),
        "argv": [str(word) for word in row["argv"]],
        "t": float(row["t"]),
        "process_start": _maybe(float, row["process_start"]),
    }


def _maybe(kind: Callable[[Any], _T], value: object) -> _T | None:
    return None if value is None else kind(value)


def _events(run: tuple[int | str, int]) -> tuple[int | str, int]:
    event, count = run
    return (event if event == "e" else int(event), int(count))


def _raised(row: Row) -> Raised:
    file, line = _maybe(str, row["file"]), _maybe(int, row["line"])
    return Raised(str(row["type"]), str(row["message"]), str(row["class"]), file, line)


def _looks(rows: Iterable[Any]) -> list[tuple[str, str, int, int]]:
    return [(_phase(phase), str(stage), int(place), int(looks)) for phase, stage, place, looks in rows]


def _by_place(rows: Iterable[Any]) -> dict[tuple[str, str, int], int]:
    return {(phase, stage, place): looks for phase, stage, place, looks in _looks(rows)}


def _phase(name: object) -> str:
    if name not in PHASES:
        raise ValueError(f"unknown phase {name!r}")
    return str(name)


def _sums(row: Row) -> Sums:
    phase_s = tuple(map(float, row["s"]))
    t_s = float(row["t"])
    if len(phase_s) != len(PHASES) or not isfinite(t_s + sum(phase_s)):
        raise ValueError("phases of another version, or no numbers")
    counts = (int(row[name]) for name in ("ticks", "samples", "env_steps", "backwards"))
    return Sums(t_s, phase_s, *counts)


def _second(row: Row) -> Second:
    return Second(
        _sums(row),
        str(row["stage"]),
        float(row["acting_s"]),
        _maybe(float, row["tick_max_s"]),
        int(row["env_calls"]),
        float(row["pulse_s"]),
        float(row.get("closely_frac", 1.0)),
    )


def _threads(row: Row) -> Row:
    return {
        "looked_s": float(row["looked_s"]),
        "spent": [(int(place), float(seconds)) for place, seconds in row["spent"]],
        "trains_first": bool(row["trains_first"]),
    }


def _line(value: list[Any] | None) -> Line | None:
    return None if value is None else (str(value[0]), int(value[1]), str(value[2]))


def _callers(values: list[Any]) -> tuple[Line, ...]:
    return tuple(line for value in values if (line := _line(value)) is not None)


def _device(row: Row) -> DeviceUse:
    return DeviceUse(
        t_s=float(row["t"]),
        index=int(row["index"]),
        uuid=_maybe(str, row.get("uuid")),
        name=_maybe(str, row.get("name")),
        allocator=_maybe(str, row.get("allocator")),
        **{name: _maybe(int, row.get(name)) for name in _DEVICE_COUNTS},
    )


def _loader(row: Row) -> Loader:
    seen = int(row["depth_seen"])
    return Loader(
        id=int(row["id"]),
        num_workers=int(row["num_workers"]),
        batch_size=_maybe(int, row["batch_size"]),
        prefetch_factor=_maybe(int, row["prefetch_factor"]),
        persistent_workers=bool(row["persistent_workers"]),
        pin_memory=bool(row["pin_memory"]),
        length=_maybe(int, row["length"]),
        dataset=str(row["dataset"]),
        epochs=int(row["epochs"]),
        batches=int(row["batches"]),
        wait_s=float(row["wait_s"]),
        wait_max_s=float(row["wait_max_s"]),
        open_s=float(row["open_s"]),
        depth_mean=float(row["depth_sum"]) / seen if seen else None,
        empty_frac=float(row["empty"]) / seen if seen else None,
        iterable=bool(row.get("iterable", row["length"] is None)),  # not in older rows
    )


def _sizes(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _worker(row: Row) -> Worker:
    return Worker(
        pid=int(row["pid"]),
        number=_maybe(int, row["worker"]),
        batches=int(row["batches"]),
        samples=int(row["samples"]),
        wall_s=float(row["wall_s"]),
        cpu_s=float(row["cpu_s"]),
        collate_s=float(row["collate_s"]),
        sample_max_s=float(row["sample_max_s"]),
        alive_s=float(row["alive_s"]),
        lines=tuple((_line(leaf), _line(user), int(n)) for leaf, user, n in row.get("lines", ())),
    )


def _lead(row: Row) -> Lead:
    return Lead(
        by=str(row["by"]),
        device=int(row["device"]),
        stream=int(row["stream"]),
        streams_seen=int(row["streams"]),
        iterations=int(row["iterations"]),
        ticks=int(row["ticks"]),
        wall_s=float(row["wall_s"]),
        cost_s=float(row["cost_s"]),
        doubt_s=float(row["doubt_s"]),
        phases={_phase(name): PhaseLead(*map(float, sums)) for name, sums in row["phases"].items()},
    )
