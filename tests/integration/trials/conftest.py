"""A user's folder, its hash, and trials in it."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.trials.guard.coverage import find_coverage
from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.shadow_folder import choose_base
from stoker.trials.trial import TrialResult, TrialSpec, run_trial

SCRIPTS = Path(__file__).parent / "scripts"


def tree_hash(folder: Path) -> str:
    """Names, kinds, contents, modes and times of all there is."""
    parts = []
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        elif path.is_file():
            content = path.read_bytes()
        times = () if path.is_dir() else (found.st_mtime_ns,)
        parts.append(repr((str(path.relative_to(folder)), found.st_mode, times, content)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def shadow_of(folder: Path) -> Path:
    """Where the writes of the trial with this folder went."""
    return Path(json.loads((folder / "guard.json").read_text(encoding="utf-8"))["shadow"])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a user has after some runs."""
    folder = tmp_path / "pro,ject: a 'b'"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "numbers.txt").write_text("1 2 3\n", encoding="utf-8")
    (folder / "config.json").write_text('{"seed": 1}', encoding="utf-8")
    (folder / "notes.txt").write_text("old notes", encoding="utf-8")
    (folder / "old" / "deep").mkdir(parents=True)
    (folder / "old" / "deep" / "file").write_text("keep", encoding="utf-8")
    (folder / "link").symlink_to("config.json")
    return folder


@pytest.fixture
def shadows(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where this test's trials write, and no other's: two tests run at a time."""
    with tempfile.TemporaryDirectory(prefix="shadows-", dir=choose_base(project)) as base:
        monkeypatch.setenv("STOKER_SHADOW_BASE", base)
        yield Path(base)


@pytest.fixture
def stub_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what would else wait for the import of the real one."""
    path = [str(SCRIPTS.parents[2] / "stubs"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))


@pytest.fixture
def trial(
    project: Path, shadows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TrialResult]:
    """`trial(mode, script, *args)`; the ab's folder is beside the project."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    counter = iter(range(100))

    def run(mode: GuardMode, script: str, *args: str, for_s: float = 60.0, **more: object) -> TrialResult:
        if find_coverage(mode, cwd=project).mode is not mode:
            pytest.skip(f"no {mode.value} here")
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return run_trial(
            TrialSpec(
                command=(sys.executable, str(SCRIPTS / script), *args),
                env=env,
                folder=tmp_path / "ab" / f"trial{next(counter)}",
                for_s=for_s,
                guard=mode,
                cwd=project,
                **more,  # type: ignore[arg-type]
            )
        )

    return run
