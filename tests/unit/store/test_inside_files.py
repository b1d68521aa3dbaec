"""Files of a trained process, whole and damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from stoker.diagnose.summary import summarise
from stoker.inside import wire
from stoker.model.record import PHASES
from stoker.model.run import RunInfo
from stoker.report import run_json
from stoker.store import folder as folders
from stoker.store.reading import load, recorded_ticks

HEADER = {
    "k": "header", "schema": wire.SCHEMA, "pid": 7, "ppid": 1, "python": "3.11.7", "torch": "2.13.0+cpu",
    "t": 10.0, "process_start": 9.0, "argv": ["train.py"],
}  # fmt: skip
LINE = ["/x/a.py", 3, "f"]
WORKER = {
    "schema": wire.WORKER_SCHEMA, "pid": 8, "worker": 0, "batches": 5, "samples": 20, "wall_s": 1.0,
    "cpu_s": 0.5, "collate_s": 0.1, "sample_max_s": 0.2, "alive_s": 3.0, "lines": [[LINE, LINE, 9]],
    "hooks": [],
}  # fmt: skip


def sums(t: float, ticks: int) -> dict[str, Any]:
    phases = [0.0] * len(wire.PHASES)
    phases[wire.FORWARD] = t - 10.0
    return {"t": t, "s": phases, "ticks": ticks, "samples": 4 * ticks, "env_steps": 0, "backwards": ticks}


def second(t: float, ticks: int) -> dict[str, Any]:
    more = {
        "stage": "train",
        "acting_s": 0.0,
        "tick_max_s": 0.1,
        "env_calls": 0,
        "pulse_s": 0.01,
        "steps": [ticks],
    }
    return {"k": "second", **sums(t, ticks), **more}


ROWS: list[dict[str, Any]] = [
    HEADER,
    {"k": "mark", "stage": "train", **sums(11.0, 1)},
    {"k": "optimizer", "id": 0, "name": "SGD", "elements": {"cpu": 10, "cuda": 90}},
    {"k": "rank", "rank": 0, "world": 2},
    {"k": "place", "id": 1, "leaf": LINE, "user": LINE},
    {"k": "sequence", "runs": [], "growing": [0, 60]},
    {"k": "lines", "lines": [["forward", "train", 1, 40]]},
    {"k": "syncs", "syncs": [["sync", 1, 3, 0.5, "train"]]},
    {"k": "ranges", "ranges": {"mine": [3, 0.5]}},
    {
        "k": "loader", "id": 0, "num_workers": 1, "batch_size": 4, "prefetch_factor": 2,
        "persistent_workers": True, "pin_memory": False, "length": 9, "dataset": "D", "epochs": 1,
        "batches": 5, "wait_s": 0.1,
        "wait_max_s": 0.1, "open_s": 0.0, "depth_sum": 3, "depth_seen": 4, "empty": 1,
    },
    {k: v for k, v in {**WORKER, "k": "worker", "worker": None}.items() if k not in ("schema", "pid")},
    {"k": "hook", "name": "envs", "error": "boom", "when": "install"},
    {"k": "failure", "type": "E", "message": "m", "class": "exception", "file": "a.py", "line": 3},
    {"k": "lost", "rows": 2},
    *(second(11.0 + n, 1 + 20 * n) for n in range(4)),
    {"k": "end"},
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = folders.create(["train.py"], tmp_path)
    folders.write_info(folder, RunInfo(folder.name, ("train.py",), "/x", 1.0, 9.0))
    return folder


def write(run: Path, rows: list[Any], name: str = "7-0.jsonl") -> None:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    (run / "inside" / name).write_bytes(b"".join(line + b"\n" for line in lines))


def test_all_of_it_is_read(run: Path) -> None:
    write(run, ROWS)
    write(run, [{**WORKER, "batches": 1}, WORKER], "workers-7.jsonl")
    header = "\t".join(wire.TICK_COLUMNS).encode()
    ticks = [b"\t".join(b"%d" % n for n in (12_000_000, 50_000, 0, *range(len(wire.PHASES))))]
    write(run, [header, *ticks], "7-0.first.tsv")
    (record,) = load(run).processes
    assert (record.pid, record.rank, record.world, record.torch) == (7, 0, 2, "2.13.0+cpu")
    assert (record.optimizers, record.optimizer_steps) == (("SGD",), (61,))
    assert record.trained_elements == {"cpu": 10, "cuda": 90}
    assert [row.sums.ticks for row in record.seconds] == [1, 21, 41, 61]
    assert record.sequence == ((0, 60),)
    assert [sample.count for sample in record.sampled] == [40]
    assert record.blocking[0].total_s == 0.5
    assert record.ranges == {"mine": (3, 0.5)}
    assert (record.loaders[0].depth_mean, record.loaders[0].empty_frac) == (0.75, 0.25)
    assert [(worker.pid, worker.number, worker.batches) for worker in record.workers] == [
        (7, None, 5),
        (8, 0, 5),
    ]
    assert record.hook_failures[0].name == "envs"
    assert record.raised is not None
    assert record.raised.type == "E"
    assert (record.lost_rows, record.unreadable_rows, record.ended) == (2, 0, True)
    assert record.ticks[0].duration_s == pytest.approx(0.05)


@pytest.mark.parametrize(
    "bad",
    [
        b"\x00\x01garbage",
        b"[]",
        {"k": "second", "t": 13.0},
        {**second(13.0, 1), "s": [1.0, 2.0]},
        {**second(13.0, 1), "s": None},
        {**second(13.0, 1), "t": "later"},
        {**second(13.0, 1), "t": float("inf")},
        {"k": "lines", "lines": [["a-phase-of-tomorrow", "train", 1, 3]]},
        {"k": "lines", "lines": 3},
        {"k": "syncs", "syncs": [[1]]},
        {"k": "loader", "id": 0},
        {"k": "worker", "batches": 3},
        {"k": "ranges", "ranges": []},
        {"k": "sequence", "runs": [1], "growing": [0, 1]},
        {"k": "place", "id": 1, "leaf": ["x"], "user": None},
        {**HEADER, "argv": None},
        {"k": "header", "schema": wire.SCHEMA},
    ],
    ids=str,
)  # fmt: skip
def test_one_bad_row_costs_that_row(run: Path, bad: Any) -> None:
    write(run, [HEADER, bad, *ROWS[1:]])
    write(run, [WORKER], "workers-7.jsonl")
    loaded = load(run)
    (record,) = loaded.processes
    assert loaded.unreadable == ()
    assert record.unreadable_rows == 1
    assert record.seconds[-1].sums.ticks == 61
    assert json.loads(run_json.render(summarise(loaded)))["trainers"][0]["pid"] == 7


@pytest.mark.parametrize(
    "bad", [{**WORKER, "wall_s": None}, {"schema": wire.WORKER_SCHEMA, "batches": 3}], ids=str
)
def test_one_bad_worker_costs_that_worker(run: Path, bad: dict[str, Any]) -> None:
    write(run, ROWS)
    write(run, [{**bad, "pid": 9} if "pid" in bad else bad, WORKER], "workers-7.jsonl")
    loaded = load(run)
    assert [worker.pid for worker in loaded.processes[0].workers if worker.number is not None] == [8]
    assert loaded.processes[0].unreadable_rows == 1
    run_json.render(summarise(loaded))


def test_kinds_of_a_later_version_are_passed_over(run: Path) -> None:
    write(run, [*ROWS, {"k": "telepathy", "x": 1}])
    assert load(run).processes[0].unreadable_rows == 0


def test_without_a_header_there_is_no_process(run: Path) -> None:
    write(run, ROWS[1:])
    assert load(run).processes == ()


def test_a_run_that_has_only_begun(run: Path) -> None:
    for folder in ("inside", "outside"):
        (run / folder).rmdir()
    assert load(run).processes == ()
    assert json.loads(run_json.render(summarise(load(run))))["trainers"] == []


def test_damage_anywhere(run: Path) -> None:
    """Bytes are overwritten at random: nothing is certain then, but that a page comes out."""
    write(run, ROWS)
    write(run, [WORKER, WORKER], "workers-7.jsonl")
    whole = (run / "inside" / "7-0.jsonl").read_bytes()
    chance = random.Random(8)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.choice(b'0123456789"[]{}:,-e.xn\n\x00\xff')
        (run / "inside" / "7-0.jsonl").write_bytes(damaged[: chance.randint(1, len(damaged))])
        record = load(run)
        assert len(record.processes) <= 1
        page = json.loads(run_json.render(summarise(record)))
        assert page["schema"].startswith("stoker.")


def test_inside_and_model_name_the_same_phases() -> None:
    """`inside` imports nothing of the rest, so the list stands twice."""
    assert wire.PHASES == PHASES


def tails(run: Path, ticks: int, tick_us: int) -> None:
    """In two files, the later one first by name, as after a turn of the ring; and a torn line."""
    header = "\t".join(wire.TICK_COLUMNS).encode()
    rest = (0, *(0 for _ in wire.PHASES))
    rows = [
        b"\t".join(b"%d" % n for n in (11_000_000 + n * tick_us, tick_us, *rest)) for n in range(1, ticks + 1)
    ]
    write(run, [header, *rows[ticks // 2 :], b"12\t13"], "7-0.tail0.tsv")
    write(run, [header, *rows[: ticks // 2]], "7-0.tail2.tsv")


def test_the_times_of_all_ticks_are_read_in_order(run: Path) -> None:
    write(run, ROWS)
    tails(run, 60, 50_000)
    (record,) = load(run).processes
    assert record.tick_times is not None
    assert list(record.tick_times.end_s) == pytest.approx([11 + 0.05 * n for n in range(1, 61)])
    assert set(record.tick_times.duration_s) == {0.05}
    assert recorded_ticks(load(run), record)[0].end_s == pytest.approx(11.05)


def test_a_run_longer_than_its_tails_is_told_by_its_rows(run: Path) -> None:
    write(run, [*ROWS[:-1], second(10.0 + 3 * wire.TAIL_S + 1, 20_000), ROWS[-1]])
    tails(run, 60, 50_000)
    (record,) = load(run).processes
    assert record.tick_times is None


def test_very_many_ticks_are_not_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run, ROWS)
    tails(run, 60, 50_000)
    monkeypatch.setattr("stoker.store.inside_files.TICKS_READ_BYTES_MAX", 100)
    (record,) = load(run).processes
    assert record.tick_times is None
    assert summarise(load(run)).main is not None
