"""One training, two answers, without running any: what is derived, kept, asked again; whose the card is."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import io
import json
import os
import shutil
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.diagnose.deep import use_by_device
from stoker.inside import wire
from stoker.inside.deep_trace import HEADER
from stoker.store.deep_files import read_note, read_trace

ROOT = Path(__file__).parents[2]
LAB, ACCURACY = ROOT / "benchmarks" / "pathologies", ROOT / "benchmarks" / "accuracy"
RECORDED = ROOT / "tests" / "recordings" / "lab" / "collate-cuda-gpm-2.tar.xz"
GPM_ONLY = ("sm_active_pct", "sm_occupancy_pct", "tensor_pct", "dram_pct")
MODULES = (
    "index", "second_table", "cases", "scoring", "deep_part", "recording", "watched", "beside", "verdicts",
    "attempt", "rescore", "gate", "gpu_injected", "run",
)  # fmt: skip


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Scripts are no package: they find each other in their folders."""
    monkeypatch.syspath_prepend(str(LAB))
    monkeypatch.syspath_prepend(str(ACCURACY))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    for name in (*MODULES, "card"):
        sys.modules.pop(name, None)


def deep_row(file: str) -> dict[str, Any]:
    plain = {"k": "deep", "state": "taken", "mode": "auto", "why": "", "t": 396.0, "end": 396.4, "ticks": 4}
    plain |= {
        "events": 8,
        "dropped": 0,
        "details": True,
        "clock_us": 0.2,
        "stall_s": {},
        "cuda_graphs": False,
    }
    return {**plain, "file": file, "names": ["gemm"]}


def deep_trace() -> str:
    """Four ticks of 100 ms; in each two kernels of 20 ms."""
    kernels = [(wire.KERNEL, ms * 1_000_000, 20_000_000, 0, 7, 0, -1, 1000, 50) for ms in range(10, 400, 50)]
    host = [
        (wire.HOST, ms * 1_000_000, 50_000_000, -1, -1, wire.DATA, -1, -1, -1) for ms in range(0, 400, 100)
    ]
    ticks = [(wire.TICK, ms * 1_000_000, 0, -1, -1, -1, -1, -1, -1) for ms in range(0, 500, 100)]
    return HEADER + "".join("\t".join(map(str, row)) + "\n" for row in (*kernels, *host, *ticks))


@pytest.fixture
def recorded(tmp_path: Path) -> SimpleNamespace:
    """A run on an H200 with GPM, as it was; and the same as two watchers and a deep window leave it."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path / "was", filter="data")
    was = tmp_path / "was" / "run"
    run, gpm = tmp_path / "run", tmp_path / "gpm.jsonl"
    shutil.copytree(was, run)
    shutil.copyfile(was / "outside" / "gpu.jsonl", gpm)
    (run / "outside" / "gpu.jsonl").write_text("".join(map(without_gpm, gpm.open())))
    inside = next((run / "inside").glob("*-0.jsonl"))
    *rows, end = inside.read_text().splitlines(keepends=True)
    file = inside.name.replace(".jsonl", ".deep.tsv")
    inside.write_text("".join([*rows, json.dumps(deep_row(file)) + "\n", end]))
    (run / "inside" / file).write_text(deep_trace())
    return SimpleNamespace(was=was, run=run, gpm=gpm, deep=run / "inside" / file)


def without_gpm(line: str) -> str:
    row = json.loads(line)
    source = {"busy_source": "nvml"} if "busy_source" in row else {}
    kept = {name: value for name, value in row.items() if name not in GPM_ONLY}
    return json.dumps({**kept, **source}) + "\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_with_gpm_is_what_a_run_with_gpm_leaves(lab: Any, recorded: Any, tmp_path: Path) -> None:
    derived = lab.beside.with_gpm(recorded.run, recorded.gpm, tmp_path / "derived")
    assert contents(derived) == contents(recorded.was)
    assert contents(recorded.run) != contents(recorded.was)


def test_a_deep_window_that_was_not_taken_is_taken_away_too(lab: Any, recorded: Any, tmp_path: Path) -> None:
    inside = next((recorded.run / "inside").glob("*-0.jsonl"))
    note = '{"state":"not taken","mode":"auto","why":"the script uses CUDA graphs","k":"deep"}\n'
    torn = '{"k":"deep","state":'
    inside.write_text(inside.read_text() + note + torn)
    derived = lab.beside.with_gpm(recorded.run, recorded.gpm, tmp_path / "derived")
    told = next((derived / "inside").glob("*-0.jsonl")).read_text()
    assert "CUDA graphs" not in told
    assert told.endswith(torn)


def test_both_are_kept_in_one_file_and_asked_again(lab: Any, recorded: Any, tmp_path: Path) -> None:
    said = {"codes": ["SK402"], "outcome": "causes"}
    told = {"name": "collate", "half": "first", "dose": 2, "expected": "SK105", "device": "cuda", **said}
    told |= {"gpm": False, "with_gpm": {"codes": ["SK105"], "outcome": "causes"}}
    told |= {"account": {"ticks_per_s": 30.0, "injected_frac": 0.9}}
    path = tmp_path / "kept" / "a.tar.xz"
    size_bytes = lab.recording.keep(recorded.run, told, {}, path, recorded.gpm)
    assert size_bytes == path.stat().st_size < 60_000

    with_gpm, together, without = lab.rescore.rescored(tmp_path / "kept", ROOT)
    assert (together["gpm"], together["gpu"]["busy_source"], together["deep"]) == (True, "gpm", "taken")
    assert (with_gpm["gpm"], with_gpm["gpu"]["busy_source"], with_gpm["deep"]) == (True, "gpm", None)
    assert (without["gpm"], without["gpu"]["busy_source"], without["deep"]) == (False, "nvml", "taken")
    assert with_gpm["codes"][0] == without["codes"][0] == "SK105"
    assert with_gpm["planted"] == "line"
    assert with_gpm["injected_frac"] == 0.9
    assert "(then" not in lab.scoring.told(with_gpm)
    assert "(then SK402)" in lab.scoring.told(without)
    assert "GPM+deep" in lab.scoring.told(together)
    score = lab.scoring.scored([with_gpm, together, without])["halves"]
    assert [(name, one["top1"]) for name, one in score.items()] == [
        ("first with GPM", 1),
        ("first with GPM and deep window", 1),
        ("first without GPM", 1),
    ]
    assert any(
        line.startswith("\nfirst half, without GPM: 1 runs")
        for line in lab.scoring.lines({"halves": score, "gains": []})
    )


def test_a_run_that_failed_is_not_asked_again(lab: Any, recorded: Any, tmp_path: Path) -> None:
    rows = [
        {**lab.verdicts.planned(case, 2, False), **kind, **lab.verdicts.failed("died")}
        for case in lab.cases.first_half()
        if case.name == "collate"
        for kind in lab.attempt.kinds(lab.attempt.Mode.BOTH, "cuda")
    ]
    told = lab.attempt.told_of(rows, "cuda")
    lab.recording.keep(recorded.run, told, {}, tmp_path / "kept" / "a.tar.xz", recorded.gpm)
    found = list(lab.rescore.rescored(tmp_path / "kept", ROOT))
    assert [(run["gpm"], run.get("deep_too"), run["outcome"], run["codes"]) for run in found] == [
        (True, None, "failed", []),
        (True, True, "failed", []),
        (False, None, "failed", []),
    ]


def test_todays_table_says_what_is_right(lab: Any, recorded: Any, tmp_path: Path) -> None:
    told = {"name": "collate", "half": "first", "dose": 2, "expected": "SK999", "device": "cuda", "gpm": True}
    told |= {"codes": [], "outcome": "cannot tell"}
    lab.recording.keep(recorded.was, told, {}, tmp_path / "kept" / "a.tar.xz")
    [found] = lab.rescore.rescored(tmp_path / "kept", ROOT)
    assert (found["expected"], found["gpm"]) == ("SK105", True)
    lab.recording.keep(recorded.was, {**told, "name": "gone"}, {}, tmp_path / "kept" / "a.tar.xz")
    [found] = lab.rescore.rescored(tmp_path / "kept", ROOT)
    assert found["expected"] == "SK999"


def test_a_large_deep_window_is_kept_in_part(
    lab: Any, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = contents(recorded.run)
    shorter = lab.deep_part.shortened(files, 0.5)
    changed = {name for name in files if shorter[name] != files[name]}
    assert changed == {f"inside/{recorded.deep.name}", f"inside/{recorded.deep.name[:-9]}.jsonl"}
    recorded.deep.write_bytes(shorter[f"inside/{recorded.deep.name}"])
    [row] = [
        json.loads(line)
        for line in shorter[f"inside/{recorded.deep.name[:-9]}.jsonl"].splitlines()
        if b'"deep"' in line
    ]
    note = read_note(row)
    assert (note.start_s, note.end_s, note.ticks, note.events) == (396.0, 396.2, 2, 4)
    trace = read_trace(recorded.run, note)
    assert trace is not None
    [use] = use_by_device(trace)
    assert use.busy_per_tick_s == pytest.approx(0.04)
    assert use.host_s["data"] == pytest.approx(0.1 - 0.01)  # from the first event on

    whole = len(lab.recording.packed(recorded.run, {}, {}, recorded.gpm))
    monkeypatch.setattr(lab.recording, "LIMIT_BYTES", whole - 1)
    assert lab.recording.keep(recorded.run, {}, {}, tmp_path / "a.tar.xz", recorded.gpm) < whole
    with tarfile.open(tmp_path / "a.tar.xz") as archive:
        told = json.load(io.TextIOWrapper(archive.extractfile("lab.json")))  # type: ignore[arg-type]
    assert told["deep_share"] < 1


def started(lab: Any, monkeypatch: pytest.MonkeyPatch, home: Path, turn: Path | None, at: list[Any]) -> Any:
    """What happens at each pause is in `at`; after the last of it the run has ended."""
    looks = iter([None] * (len(at) + 1))
    run = SimpleNamespace(poll=lambda: next(looks, 0))
    pauses = iter([*at, lambda: None])
    monkeypatch.setattr(lab.beside, "start_watcher", lambda *words: words)
    monkeypatch.setattr(lab.beside.time, "sleep", lambda _: next(pauses)())
    return lab.beside.start_beside(run, home, home / "beside", turn)


def test_the_second_watcher_waits_for_the_run_and_for_its_turn(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "runs" / "r" / "outside" / "host.jsonl"
    rows.parent.mkdir(parents=True)
    header = '{"run_id": "r", "root_pid": 4312'
    steps = [
        lambda: rows.write_text(header),  # torn: still being written
        lambda: rows.write_text(header + "}\n"),
        lambda: (tmp_path / "turn").touch(),
    ]
    folder, run_id, root = started(lab, monkeypatch, tmp_path, tmp_path / "turn", steps)
    assert (folder, run_id, root.pid) == (tmp_path / "beside", "r", 4312)
    assert (tmp_path / "turn").exists()  # the last of the steps
    assert started(lab, monkeypatch, tmp_path / "nowhere", None, [lambda: None]) is None


def test_the_second_watcher_needs_no_turn_where_nobody_takes_turns(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "runs" / "r" / "outside" / "host.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text('{"run_id": "r", "root_pid": 4312}\n')
    assert started(lab, monkeypatch, tmp_path, None, [])[1] == "r"


def test_the_run_has_no_gpm_and_the_second_watcher_has(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_NO_GPM", "1")
    lab.beside.allow_gpm()
    assert "STOKER_NO_GPM" not in os.environ
    task = lab.cases.Task(lab.cases.first_half()[0], 2, False, 6.0)
    settings = {
        mode: lab.attempt.Attempt(task, "cuda", mode, tmp_path, "lock").settings for mode in lab.attempt.Mode
    }
    assert settings["both"] == settings["no-gpm"]
    assert settings["both"]["STOKER_NO_GPM"] == "1"
    assert "STOKER_NO_GPM" not in settings["gpm"]


def free(path: Path) -> bool:
    other = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(other)
    return True


def test_the_card_is_given_back_at_the_end_of_the_script(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, alarms = [], []
    monkeypatch.setattr(lab.gate.signal, "alarm", alarms.append)
    real = os.open
    monkeypatch.setattr(lab.gate.os, "open", lambda *words: opened.append(real(*words)) or opened[-1])
    monkeypatch.setenv("LAB_CARD", str(tmp_path / "card"))
    monkeypatch.setenv("LAB_TURN", str(tmp_path / "turn"))
    with contextlib.suppress(SystemExit), lab.gate.card():
        forked = os.dup(opened[0])  # as a worker has it, which may end later
        assert (tmp_path / "turn").exists()
        assert not free(tmp_path / "card")
        raise SystemExit(1)
    assert free(tmp_path / "card")
    assert alarms == [lab.gate.TURN_S]
    os.close(forked)


def test_a_deep_window_comes_earlier_in_a_short_run(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = SimpleNamespace(TRAINED_S=10.0, LATE_S=60.0, TRAINED_TICKS=50)
    monkeypatch.setitem(sys.modules, "_stoker_inside", SimpleNamespace(deep=deep))
    lab.gate.deep_window_soon("3")
    assert (deep.TRAINED_S, deep.LATE_S, deep.TRAINED_TICKS) == (3.0, 3.0, 15)


def test_ticks_of_a_deep_window_are_not_in_the_truth(lab: Any) -> None:
    """The window opens at the end of the second tick, by the script's clock 0.5 s later, and ends at 14."""
    ticks = [(10.0, 0.0), (11.0, 0.3), (12.5, 0.6), (13.0, 0.7), (14.0, 0.8), (15.0, 1.1)]
    spans = lab.gpu_injected.tick_spans(ticks, (12.0, 14.0))
    assert spans == [pytest.approx(span) for span in [(1.0, 0.3), (1.0, 0.3), (1.0, 0.3)]]
    truth = {"gpu_work_s": [0.5, 0.5], "ticks": ticks}
    assert lab.gpu_injected.true_shares(truth, 2, (12.0, 14.0)) == pytest.approx((30.0, 50.0))
    assert len(lab.gpu_injected.tick_spans(ticks, None)) == 5


def arguments(lab: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(sys, "argv", [str(LAB / "run.py"), "--device", "cuda", *words])
    return lab.run._arguments()


def test_halves_are_run_in_the_order_asked_for(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    args = arguments(lab, monkeypatch, "--both", "--half", "second", "first", "--no-fixes", "--doses", "2")
    made = lab.run.Lab(args)
    order = [(task.case.healthy, task.case.pair, task.case.half) for task in made.tasks]
    kinds = list(dict.fromkeys(order))
    assert kinds == [
        (True, False, "second"),
        (True, False, "first"),
        (False, False, "second"),
        (False, False, "first"),
        (False, True, "second"),
        (False, True, "first"),
    ]
    assert (args.mode, args.seconds) == ("both", 10.0)


def test_a_run_with_one_answer_is_done_again_for_both(
    lab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def row(name: str, **kind: bool) -> dict[str, Any]:
        return {"name": name, "half": "first", "dose": 2, "fixed": False, **kind}

    out = tmp_path / "out.json"
    lists = [row("lists", gpm=True), row("lists", gpm=True, deep_too=True), row("lists", gpm=False)]
    out.write_text(json.dumps({"runs": [*lists, row("hot_line", gpm=True), row("hot_line", gpm=False)]}))
    words = ("--only", "lists", "hot_line", "--doses", "2", "--no-fixes", "--resume", "--out", str(out))
    both = lab.run.Lab(arguments(lab, monkeypatch, "--both", *words))
    assert [task.case.name for task in both.tasks] == ["hot_line"]
    assert not lab.run.Lab(arguments(lab, monkeypatch, "--no-gpm", *words)).tasks


def test_nothing_is_begun_that_would_end_too_late(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = lab.run.Lab(arguments(lab, monkeypatch, "--both", "--budget", "540s", "--ahead", "4"))
    made.ended_s = [made.began_s + 20.0 + 10.0 * number for number in range(48)]
    monkeypatch.setattr(lab.run.time, "monotonic", lambda: made.began_s + 490.0)
    assert made._fits(made.tasks[0])
    monkeypatch.setattr(lab.run.time, "monotonic", lambda: made.began_s + 495.0)
    assert not made._fits(made.tasks[0])
