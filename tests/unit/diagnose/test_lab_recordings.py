"""Runs of the lab, recorded once (`run.py --keep-recordings`), and what is said of them today."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict
from stoker.model.finding import Outcome, Verdict
from stoker.store.reading import load

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings" / "lab").glob("*.tar.xz"))
LIMIT_BYTES = 60_000


def replayed(recording: Path, folder: Path) -> tuple[dict[str, Any], Verdict]:
    with tarfile.open(recording) as archive:
        archive.extractall(folder, filter="data")
    planted: dict[str, Any] = json.loads((folder / "lab.json").read_text("utf-8"))
    return planted, verdict(summarise(load(folder / "run")))


def test_there_are_recordings_of_faults_and_of_healthy_runs() -> None:
    names = {path.name.partition("-")[0] for path in RECORDINGS}
    assert {"plain", "hot_line", "storage"} <= names
    assert len(names) >= 8


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_the_verdict_on_a_recorded_run(recording: Path, tmp_path: Path) -> None:
    assert recording.stat().st_size <= LIMIT_BYTES
    planted, told = replayed(recording, tmp_path)
    if not planted["expected"]:
        assert told.outcome is Outcome.HEALTHY, told
        return
    assert told.outcome in (Outcome.CAUSES, Outcome.NOT_FIXABLE), told
    wanted = [set(part.split("|")) for part in planted["expected"].split("+")]
    first = [finding.code for finding in told.findings[: len(wanted)]]
    assert all(codes & set(first) for codes in wanted), first
