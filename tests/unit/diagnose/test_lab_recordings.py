"""Runs of the lab, recorded once (`run.py --keep-recordings`), and what is said of them today."""

from __future__ import annotations

import importlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from stoker.diagnose.causes import CAUSES
from stoker.diagnose.causes.cause import LITTLE_WORK, NO_KERNEL
from stoker.diagnose.summary import Summary, summarise
from stoker.diagnose.verdict import verdict
from stoker.model.finding import Outcome, Verdict
from stoker.store.reading import load

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings" / "lab").glob("*.tar.xz"))
TOLD_TWICE = [path for path in RECORDINGS if "-both-" in path.name]
WITHOUT_WINDOW = {"evaluating-first-cuda-both-2.tar.xz"}
"""An evaluation came when it had just begun."""
LIMIT_BYTES = 70_000
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def replayed(recording: Path, folder: Path, deep: bool = False) -> tuple[dict[str, Any], list[Summary]]:
    """Of a recording with the counters of two watchers, both; the second with the deep window, too?"""
    with tarfile.open(recording) as archive:
        archive.extractall(folder, filter="data")
    planted: dict[str, Any] = json.loads((folder / "lab.json").read_text("utf-8"))
    runs = [folder / "run"]
    if (folder / "gpm" / "gpu.jsonl").exists():
        with_gpm = importlib.import_module("beside").with_gpm
        runs.append(with_gpm(folder / "run", folder / "gpm" / "gpu.jsonl", folder / "with_gpm", deep))
    return planted, [summarise(load(run)) for run in runs]


def test_there_are_recordings_of_faults_and_of_healthy_runs() -> None:
    names = {path.name.partition("-")[0] for path in RECORDINGS}
    assert {"plain", "hot_line", "storage"} <= names
    assert len(names) >= 8


def test_a_gpu_has_recordings_of_most_causes_and_of_controls() -> None:
    """Those left out need a second process or card (SK501, SK503), or a setting of the machine (SK502); a
    thread that is ahead of its GPU may wait for a core (SK504) and cost nothing."""
    expected = [_expected(path) for path in RECORDINGS if "-cuda-" in path.name]
    told = {code for text in expected for part in text.split("+") for code in part.split("|")}
    missing = {cause.code for cause in CAUSES} - told
    assert missing == {"SK501", "SK502", "SK503", "SK504"}
    assert expected.count("") >= 3


def _expected(recording: Path) -> str:
    with tarfile.open(recording) as archive:
        planted = archive.extractfile("lab.json")
        assert planted is not None
        return str(json.load(planted)["expected"])


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_the_verdict_on_a_recorded_run(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recording.stat().st_size <= LIMIT_BYTES
    monkeypatch.syspath_prepend(str(BENCHMARKS / "accuracy"))
    planted, summaries = replayed(recording, tmp_path)
    for summary in summaries:
        told = verdict(summary)
        judge(planted, told)
        claims_no_more_than_there_is(summary, told)


@pytest.mark.parametrize("recording", TOLD_TWICE, ids=lambda path: path.name.removesuffix(".tar.xz"))
def test_a_card_without_gpm_is_told_the_same(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same deep window with the counters of GPM beside it and without them: the first cause does not
    change. No exception is known among these; what GPM *without* a deep window cannot tell is another matter
    (the recordings named `no-gpm`)."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "accuracy"))
    _, (without, with_gpm) = replayed(recording, tmp_path, deep=True)
    windowed = recording.name not in WITHOUT_WINDOW
    assert known_of(without) == {"real work counted": False, "deep window": windowed}
    assert known_of(with_gpm) == {"real work counted": True, "deep window": windowed}
    assert first_said(verdict(without)) == first_said(verdict(with_gpm))


def known_of(summary: Summary) -> dict[str, bool]:
    use = summary.main.gpus.main if summary.main else None
    assert use is not None
    assert use.view is not None
    return {"real work counted": use.view.sm_active_pct is not None, "deep window": use.deep is not None}


def first_said(told: Verdict) -> str:
    return told.findings[0].code if told.findings else str(told.outcome)


def claims_no_more_than_there_is(summary: Summary, told: Verdict) -> None:
    """The bar has so much real work; only what would shorten that work may win more than the rest."""
    use = summary.main.gpus.main if summary.main else None
    work_pct = use.budget.real_work_pct if use else None
    lost = ("GPU idle time", NO_KERNEL, LITTLE_WORK)
    for one in told.findings if work_pct is not None else ():
        if one.recoverable_of in lost:
            assert (one.recoverable_frac or 0.0) <= 1 - work_pct / 100 + 1e-9, one


def judge(planted: dict[str, Any], told: Verdict) -> None:
    if not planted["expected"]:
        assert told.outcome is Outcome.HEALTHY, told
        return
    assert told.outcome in (Outcome.CAUSES, Outcome.NOT_FIXABLE), told
    wanted = [set(part.split("|")) for part in planted["expected"].split("+")]
    first = [finding.code for finding in told.findings[: len(wanted)]]
    assert all(codes & set(first) for codes in wanted), first
