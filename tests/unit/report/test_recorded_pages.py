"""Whole pages of trainings that ran on an H200, as they are told today; the README shows a part of one."""

from __future__ import annotations

import importlib
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.diagnose.summary import summarise
from stoker.report import run_page, text
from stoker.store.reading import load

ROOT = Path(__file__).parents[3]
RECORDINGS = ROOT / "tests" / "recordings" / "lab"
WITH_GPM = {
    "two_faults": "pair_replay_save-third-cuda-both-2",
    "healthy": "control_tides-eleventh-cuda-both-0",
}
WITHOUT = {"launch_bound": "launch_bound-first-cuda-both-2", "workers": "few_workers-cuda-gpm-2"}


def page_of(run: Path) -> str:
    return text.plain(run_page.build(summarise(load(run))))


@pytest.mark.parametrize("name", WITH_GPM)
def test_counters_of_gpm_and_a_deep_window(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "accuracy"))
    unpack(WITH_GPM[name], tmp_path)
    with_gpm = importlib.import_module("beside").with_gpm
    run = with_gpm(tmp_path / "run", tmp_path / "gpm" / "gpu.jsonl", tmp_path / "with_gpm", True)
    golden(f"h200_{name}.txt", page_of(run))


@pytest.mark.parametrize("name", WITHOUT)
def test_as_recorded(name: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    unpack(WITHOUT[name], tmp_path)
    golden(f"h200_{name}.txt", page_of(tmp_path / "run"))


def unpack(recording: str, folder: Path) -> None:
    with tarfile.open(RECORDINGS / f"{recording}.tar.xz") as archive:
        archive.extractall(folder, filter="data")


def test_the_readme_shows_what_is_said() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = readme.partition("$ stoker run -- python pair_replay_save.py …\n")[2].partition("```")[0]
    page = (ROOT / "tests" / "golden" / "h200_two_faults.txt").read_text("utf-8")
    parts = [part.strip("\n") for part in shown.split("…\n") if part.strip()]
    assert len(parts) == 3
    assert all(part in page for part in parts)
