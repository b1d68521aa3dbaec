"""The lab with real processes: a second watcher beside a run, and a card that goes from one to the next."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LAB, ACCURACY = ROOT / "benchmarks" / "pathologies", ROOT / "benchmarks" / "accuracy"
DEADLINE_S = 240.0  # for a machine with other things to do

AWAITED = """
import sys, time
from pathlib import Path

def awaited(name):
    end_s = time.monotonic() + 200
    while not Path(name).exists():
        if time.monotonic() > end_s:
            sys.exit(name + " never came")
        time.sleep(0.05)
"""
WATCHED_TWICE = (
    AWAITED
    + """
awaited("beside/outside/gpu.jsonl")
print('{"ticks": 0, "ticks_per_s": 0.0}')
"""
)
SLOW_TO_END = (
    AWAITED
    + """
import atexit
atexit.register(awaited, "had_by_the_next")
print("done", flush=True)
"""
)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Any:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(LAB))
    monkeypatch.syspath_prepend(str(ACCURACY))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(ROOT / "benchmarks")):
            del sys.modules[name]


def test_two_watchers_see_the_same_run(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_NO_GPM", raising=False)
    (tmp_path / "watched.py").write_text(WATCHED_TWICE)
    cases, attempt = lab("cases"), lab("attempt")
    case = cases.Case("watched", "first", tmp_path / "watched.py", (), "", ("cpu",))
    folder = tmp_path / "run"
    folder.mkdir()
    made = attempt.Attempt(cases.Task(case, 0, False, 1.0), "cpu", attempt.Mode.BOTH, folder)
    rows = made.rows()
    assert [(row["gpm"], row.get("deep_too"), row.get("failed")) for row in rows] == [
        (True, None, None),
        (True, True, None),
        (False, None, None),
    ]
    assert (folder / "gpm_alone" / "run.json").exists()

    first, second = (
        json.loads(path.read_text().partition("\n")[0])
        for path in (made.beside / "outside/gpu.jsonl", next(made.home.glob("runs/*/outside/gpu.jsonl")))
    )
    assert first["run_id"] == second["run_id"]
    assert first["monotonic_s"] != second["monotonic_s"]

    assert made.keep(rows, tmp_path / "kept")
    [kept] = (tmp_path / "kept").rglob("*.tar.xz")
    with tarfile.open(kept) as archive:
        assert {"lab.json", "gpm/gpu.jsonl", "run/outside/gpu.jsonl"} <= set(archive.getnames())


def test_the_next_has_the_card_before_the_process_is_gone(tmp_path: Path) -> None:
    """The first ends only when the second has had the card: with a lock until its end both would wait."""
    (tmp_path / "first.py").write_text(SLOW_TO_END)
    (tmp_path / "second.py").write_text("open('had_by_the_next', 'w').close()")
    env = {**os.environ, "LAB_CARD": str(tmp_path / "card"), "OMP_NUM_THREADS": "1"}
    gate = [sys.executable, str(LAB / "gate.py")]
    with subprocess.Popen(
        [*gate, "first.py"], cwd=tmp_path, env={**env, "LAB_TURN": "turn"}, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout
        assert first.stdout.readline() == b"done\n"
        second = subprocess.run([*gate, "second.py"], cwd=tmp_path, env=env, timeout=DEADLINE_S, check=False)
        assert second.returncode == 0
        assert first.wait(DEADLINE_S) == 0
