"""The lab of planted faults without running any: its table, its order, its score, its recordings."""

from __future__ import annotations

import ast
import importlib
import io
import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.diagnose.causes import CAUSES

LAB = Path(__file__).parents[2] / "benchmarks" / "pathologies"
MODULES = (
    "index", "second_table", "third_table", "fourth_table", "fifth_table", "sixth_table", "seventh_table",
    "eighth_table", "ninth_table", "tenth_table", "eleventh_table", "cases", "scoring", "recording",
)  # fmt: skip


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Scripts are no package: they find each other in their folder."""
    monkeypatch.syspath_prepend(str(LAB))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name, None)


def test_every_script_of_the_table_exists(lab: Any) -> None:
    for place, _, _ in lab.index.ALL.values():
        module, _, name = place.partition(".")
        tree = ast.parse((LAB / f"{module}.py").read_text("utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


def test_only_known_causes_are_expected(lab: Any) -> None:
    known = {cause.code for cause in CAUSES}
    for case in lab.cases.all_cases():
        assert all(one <= known for one in lab.cases.alternatives(case.expected)), case.name


def test_the_table_is_large_enough_for_a_gpu(lab: Any) -> None:
    on_gpu = [name for name, entry in lab.index.FAULTS.items() if "cuda" in entry[2]]
    assert len(on_gpu) >= 20
    assert sum("cuda" in entry[2] for entry in lab.index.CONTROLS.values()) >= 5
    assert sum("cuda" in entry[2] for entry in lab.index.PAIRS.values()) >= 4
    assert sum("cpu" in entry[2] for entry in lab.index.FAULTS.values()) >= 12


def test_what_says_most_is_run_first(lab: Any) -> None:
    names = ("loading_and_python", "hot_line", "lists", "plain")
    cases = [case for case in lab.cases.first_half() if case.name in names]
    tasks = lab.cases.plan(cases, [1, 2, 3], 6.0, fixes=True, turn=0)
    told = [(task.case.name, task.dose, task.fixed) for task in tasks]
    assert told[:3] == [("plain", 0, False), ("hot_line", 2, False), ("lists", 2, False)]
    assert told[3] == ("loading_and_python", 2, False)
    assert told[4:6] == [("hot_line", 2, True), ("lists", 2, True)]
    turned = lab.cases.plan(cases, [1, 2, 3], 6.0, fixes=True, turn=1)
    assert turned[6].key != tasks[6].key
    assert {task.key for task in turned} == {task.key for task in tasks}


def test_planted_lines_are_those_of_the_fault(lab: Any) -> None:
    cases = {case.name: case for case in lab.cases.first_half()}
    files = {name for name, _ in lab.cases.planted_lines(cases["leak"])}
    assert "faults_gpu.py" in files
    hot = lab.cases.planted_lines(cases["hot_line"])
    assert hot != lab.cases.planted_lines(cases["lists"])


def run(name: str, expected: str, *codes: str, **more: Any) -> dict[str, Any]:
    plain = {"name": name, "half": "first", "dose": 2, "fixed": False, "control": False, "planted": None}
    plain |= {"expected": expected, "codes": list(codes), "ceilings": [2.0] * len(codes), "ticks_per_s": 10.0}
    return {**plain, "outcome": "causes" if codes else "healthy", **more}


def test_the_score_counts_each_kind_apart(lab: Any) -> None:
    runs = [
        run("a", "SK201", "SK201", planted="line"),
        run("b", "SK101|SK102", "SK104", "SK102", planted="elsewhere"),
        run("c", "SK101+SK401", "SK401", "SK201", "SK101"),
        run("d", "", control=True),
        run("e", "", "SK202", control=True),
        run("f", "", "SK202", dose=0),
        run("a", "", fixed=True, ticks_per_s=25.0),
        run("z", "SK201", half="second"),
    ]
    score = lab.scoring.scored(runs)
    first = score["halves"]["first"]
    assert (first["faults"], first["top1"], first["top2"]) == (2, 1, 2)
    assert (first["pairs"], first["pairs_causes"], first["pairs_top2"]) == (1, 2, 1)
    assert (first["controls"], first["controls_false_alarms"]) == (2, ["e"])
    assert first["dose0_false_alarms"] == ["f"]
    assert (first["lines"], first["lines_named"]) == (2, 1)
    assert first["confusion"] == {"SK101|SK102": {"SK104": 1}, "SK201": {"SK201": 1}}
    assert score["gains"] == [{"name": "a", "ceiling": 2.0, "measured": 2.5}]
    assert score["halves"]["second"]["top1"] == 0
    assert any("1/2 = 50 %" in line for line in lab.scoring.lines(score))


def test_samples_count_where_the_fix_changes_the_batch(lab: Any) -> None:
    runs = [run("a", "SK404", "SK404", units_per_s=100.0), run("a", "", fixed=True, units_per_s=900.0)]
    assert lab.scoring.gains(runs)[0]["measured"] == pytest.approx(9.0)


def test_a_gain_stands_beside_the_ceiling_of_its_own_counters(lab: Any) -> None:
    runs = [
        run("a", "SK201", "SK201", gpm=True),
        run("a", "SK201", "SK201", gpm=False, ceilings=[3.0]),
        run("a", "", fixed=True, gpm=True),
        run("a", "", fixed=True, gpm=False),
    ]
    assert [(gain["gpm"], gain["ceiling"]) for gain in lab.scoring.gains(runs)] == [(True, 2.0), (False, 3.0)]


def test_a_run_that_failed_is_not_right(lab: Any) -> None:
    failed = run("a", "SK201", outcome="failed", failed="died")
    assert not lab.scoring.right(failed)
    assert not lab.scoring.right(run("plain", "", outcome="failed", failed="died", control=True))


def test_a_recording_has_no_path_of_the_machine(lab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "inside").mkdir(parents=True)
    (folder / "run.json").write_text('{"cwd": "/secret/place/work", "host": "box"}')
    (folder / "inside" / "1-0.jsonl").write_text('{"leaf": ["/secret/place/a.py", 3, "f"]}\n')
    (folder / "notes.txt").write_text("not kept")
    hidden = {"/secret/place": "/lab", '"host": "box"': '"host": "lab"'}
    content = lab.recording.packed(folder, {"name": "x"}, hidden)
    assert content == lab.recording.packed(folder, {"name": "x"}, hidden)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}  # type: ignore[union-attr]
    assert set(files) == {"lab.json", "run/run.json", "run/inside/1-0.jsonl"}
    assert "secret" not in "".join(files.values())
    assert json.loads(files["run/run.json"]) == {"cwd": "/lab/work", "host": "lab"}


def test_a_recording_that_is_too_large_is_not_kept(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab.recording, "LIMIT_BYTES", 10)
    (tmp_path / "run.json").write_text("{}")
    assert lab.recording.keep(tmp_path, {}, {}, tmp_path / "kept" / "a.tar.xz") is None
    assert not (tmp_path / "kept").exists()
