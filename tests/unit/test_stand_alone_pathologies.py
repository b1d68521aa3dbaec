"""The later sets of planted faults: every script is listed, parses, and marks its planted lines."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

LAB = Path(__file__).parents[2] / "benchmarks" / "pathologies"
NOT_A_TRAINING = {"index.py", "meter.py", "stopwatch.py"}
CONTROLS_AND_PAIRS = {
    "second": (3, 2),
    "third": (5, 4),
    "fourth": (6, 6),
    "fifth": (6, 5),
    "sixth": (6, 6),
    "seventh": (6, 6),
    "eighth": (6, 6),
    "ninth": (6, 5),
    "tenth": (6, 5),
    "eleventh": (6, 5),
}


def _index_of(name: str) -> Any:
    sys.path.insert(0, str(LAB))
    try:
        return importlib.import_module(f"{name}.index")
    finally:
        sys.path.remove(str(LAB))


INDEXES = {name: _index_of(name) for name in CONTROLS_AND_PAIRS}
EACH = [(name, script) for name, index in INDEXES.items() for script in index.SCRIPTS]


@pytest.mark.parametrize("name", INDEXES)
def test_index_names_each_training_once(name: str) -> None:
    listed = [script.file for script in INDEXES[name].SCRIPTS]
    assert sorted(listed) == sorted({path.name for path in (LAB / name).glob("*.py")} - NOT_A_TRAINING)


@pytest.mark.parametrize("name", INDEXES)
def test_every_fault_is_planted_and_there_are_controls(name: str) -> None:
    scripts = INDEXES[name].SCRIPTS
    assert {fault for script in scripts for fault in script.faults} == set(INDEXES[name].Fault)
    kinds = [len(script.faults) for script in scripts]
    assert (kinds.count(0), kinds.count(2)) == CONTROLS_AND_PAIRS[name]


def test_no_name_is_used_twice() -> None:
    """`--only NAME` means one script."""
    names = [script.file for _, script in EACH]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", INDEXES)
def test_table_expects_what_the_index_plants(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(LAB))
    table = importlib.import_module(f"{name}_table")
    scripts = INDEXES[name].SCRIPTS
    planted = {Path(script.file).stem: len(script.faults) for script in scripts}
    assert {case: len(text.split("+")) if text else 0 for case, text in table.EXPECTED.items()} == planted
    assert {Path(script.file).stem for script in scripts if not script.on_cpu} == table.ON_GPU_ONLY


@pytest.mark.parametrize(("name", "script"), EACH, ids=[f"{name}/{script.file}" for name, script in EACH])
def test_script_parses_and_marks_what_it_plants(name: str, script: Any) -> None:
    source = (LAB / name / script.file).read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert "perfect diagnosis" in " ".join((ast.get_docstring(tree) or "").split())
    assert sum(line.endswith(INDEXES[name].MARKER) for line in source.splitlines()) == script.planted_lines
    assert {"backward", "step"} <= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    guards = [ast.unparse(node.test) for node in tree.body if isinstance(node, ast.If)]
    assert guards == ["__name__ == '__main__'"], "loader workers may import the script again"
