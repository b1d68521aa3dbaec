"""The bundled and the tiny trainings parse, say what they are, and may be imported by a spawned child."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = {"played_graph.py", "tiny_job.py", "toy_env.py"}
SCRIPTS = sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "tests" / "scripts").glob("*.py")])


def guards_main(tree: ast.Module) -> bool:
    tests = [ast.unparse(node.test) for node in tree.body if isinstance(node, ast.If)]
    return "__name__ == '__main__'" in tests


def test_both_folders_are_found() -> None:
    assert {path.parent.name for path in SCRIPTS} == {"examples", "scripts"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_parses_and_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "path",
    [path for path in SCRIPTS if path.name not in SHARED | {"dies_at_import.py"}],
    ids=lambda path: path.name,
)
def test_script_trains_only_as_main(path: Path) -> None:
    """DataLoader workers and ranks started by spawn import the script again."""
    assert guards_main(ast.parse(path.read_text(encoding="utf-8")))
