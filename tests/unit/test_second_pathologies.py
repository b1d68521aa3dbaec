"""The second set of planted faults: every script is listed, parses, and marks the lines it plants."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks" / "pathologies" / "second"
NOT_A_TRAINING = {"index.py", "meter.py"}


def _index() -> Any:
    spec = importlib.util.spec_from_file_location("second_index", FOLDER / "index.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass with slots looks itself up there
    spec.loader.exec_module(module)
    return module


INDEX = _index()


def test_index_names_each_training_once() -> None:
    listed = [script.file for script in INDEX.SCRIPTS]
    assert sorted(listed) == sorted({path.name for path in FOLDER.glob("*.py")} - NOT_A_TRAINING)


def test_every_fault_is_planted_and_there_are_controls() -> None:
    assert {fault for script in INDEX.SCRIPTS for fault in script.faults} == set(INDEX.Fault)
    kinds = [len(script.faults) for script in INDEX.SCRIPTS]
    assert (kinds.count(0), kinds.count(2)) == (3, 2)


@pytest.mark.parametrize("script", INDEX.SCRIPTS, ids=lambda script: script.file)
def test_script_parses_and_marks_what_it_plants(script: Any) -> None:
    source = (FOLDER / script.file).read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert "perfect diagnosis" in " ".join((ast.get_docstring(tree) or "").split())
    assert sum(line.endswith(INDEX.MARKER) for line in source.splitlines()) == script.planted_lines
    assert {"backward", "step"} <= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    guards = [ast.unparse(node.test) for node in tree.body if isinstance(node, ast.If)]
    assert guards == ["__name__ == '__main__'"], "loader workers may import the script again"
