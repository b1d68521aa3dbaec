"""The house has one direction: a lower package never imports a higher one."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "stoker"

MAY_IMPORT = {
    "errors": set(),
    "inside": set(),
    "model": set(),
    # launch knows which processes belong to a run; the watcher asks it.
    "outside": {"model", "errors", "launch"},
    "launch": {"model", "errors"},
    "store": {"inside", "model", "errors"},
    "ingest": {"model", "errors"},
    "diagnose": {"model", "errors", "ingest", "store", "launch", "outside"},
    "trials": {"model", "errors", "outside", "launch", "store", "ingest", "diagnose"},
    "report": {"model", "errors", "diagnose", "trials"},
    "commands": {"model", "errors", "outside", "launch", "store", "ingest", "diagnose", "trials", "report"},
}


def imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or "inside" in path.parts, f"{path}: relative imports are for inside/ only"
            if node.level == 0 and node.module:
                found.add(node.module)
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def package_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def files() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if package_of(path) in MAY_IMPORT]


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downwards(path: Path) -> None:
    own = package_of(path)
    for module in imported_modules(path):
        if not module.startswith("stoker."):
            continue
        target = module.split(".")[1]
        if target in MAY_IMPORT and target != own:
            assert target in MAY_IMPORT[own], f"{own} must not import {target}"


INSIDE = sorted((SOURCE / "inside").rglob("*.py"))
ALLOWED_INSIDE = set(sys.stdlib_module_names) | {"_stoker_inside"}  # its private name in a trained process


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.name)
def test_inside_uses_the_standard_library_alone(path: Path) -> None:
    for module in imported_modules(path):
        assert module.split(".")[0] in ALLOWED_INSIDE, module


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: path.name)
def test_inside_parses_on_old_pythons(path: Path) -> None:
    version = (3, 6) if path.name == "sitecustomize.py" else (3, 9)
    ast.parse(path.read_text(encoding="utf-8"), feature_version=version)
