"""Every recording in tests/recordings/gpu gives sane readings, with its GPM and without."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from stoker.model.gpu import GpuMissing, GpuReading, parse
from stoker.outside.gpu.recording import Look, ReplayGpus, encode, look_row, read
from stoker.outside.gpu.seam import Answers, Facts, GpmInterval, Refused, Using, UtilSamples
from stoker.outside.gpu.watching import GpuWatch
from stoker.outside.journal import Journal

RECORDINGS = sorted((Path(__file__).parents[3] / "recordings" / "gpu").glob("*.jsonl"))
H200 = next(path for path in RECORDINGS if path.stem == "h200")
COPY_ENGINE = {"uploads"}
"""Loads of which the two modes differ by nature."""


def replayed(path: Path, folder: Path, *, no_gpm: bool) -> tuple[list[tuple[str, GpuReading]], list[object]]:
    gpus = ReplayGpus(path, no_gpm=no_gpm)
    target = folder / "gpu.jsonl"
    watch = GpuWatch(
        gpus, Journal(target), "r", pids_comparable=True, interval_s=0.2, clock=gpus.now, cpu_clock=float
    )
    devices = len(gpus.describe().devices)
    loads = [look.load for look in gpus.looks if look.device == 0]
    named = [(load, reading) for load in loads for reading in watch.look({4312})]
    watch.finish("the recording is over")
    told = [look for look in gpus.looks if look.answers.gpm is not None]
    assert len(named) >= len(told) or no_gpm or devices > 1
    return named, [parse(json.loads(line)) for line in target.read_text().splitlines()]


def by_load(named: list[tuple[str, GpuReading]], looks: list[Look]) -> dict[str, list[GpuReading]]:
    """Of each load the readings of its own time alone, and not of the load before, too: the driver hands out
    its samples up to 0.2 s late."""
    begins = {look.load: look.t for look in reversed(looks)}
    rows: dict[str, list[GpuReading]] = {load: [] for load in begins}
    for load, row in named:
        if row.busy_s is not None and row.t - row.busy_s > begins[load] + 0.15:
            rows[load].append(row)
    return rows


def busy_by_load(named: list[tuple[str, GpuReading]], looks: list[Look]) -> dict[str, float]:
    readings = by_load(named, looks)
    return {load: mean([row.busy_pct or 0.0 for row in rows]) for load, rows in readings.items() if rows}


def test_there_are_recordings() -> None:
    assert RECORDINGS


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_both_modes_tell_the_same_time_axis(path: Path, tmp_path: Path) -> None:
    with_gpm, rows = replayed(path, tmp_path, no_gpm=False)
    (tmp_path / "gpu.jsonl").unlink()
    without, rows_without = replayed(path, tmp_path, no_gpm=True)
    looks = read(path)[1]
    busy, busy_without = busy_by_load(with_gpm, looks), busy_by_load(without, looks)
    assert busy["matmul"] > 50 > busy["bursts"] > busy["idle"]
    assert {"matmul", "tiny kernels", "copies"} <= set(busy_without)
    for load in set(busy_without) - COPY_ENGINE:
        assert abs(busy[load] - busy_without[load]) < 6, load
    sources = {row.busy_source for _, row in with_gpm} | {row.busy_source for _, row in without}
    assert sources <= {"gpm", "nvml", None}
    assert all(row.sm_active_pct is None for _, row in without)
    told = {row.name for row in rows_without if isinstance(row, GpuMissing)}
    assert {"sm_active_pct", "tensor_pct", "pcie_rx_bytes_per_s"} <= told
    assert "sm_active_pct" not in {row.name for row in rows if isinstance(row, GpuMissing)}


def test_gpm_does_not_see_what_the_copy_engines_do_and_nvml_does(tmp_path: Path) -> None:
    """From the host over PCIe. A copy within the card ("copies") is work of the SMs, and seen by both."""
    with_gpm, _ = replayed(H200, tmp_path, no_gpm=False)
    (tmp_path / "gpu.jsonl").unlink()
    without, _ = replayed(H200, tmp_path, no_gpm=True)
    looks = read(H200)[1]
    assert busy_by_load(with_gpm, looks)["uploads"] < 0.1
    assert busy_by_load(without, looks)["uploads"] > 95
    rows = by_load(with_gpm, looks)
    shares = [row.nvml_util_pct for row in rows["uploads"] if row.nvml_util_pct is not None]
    assert min(shares[1:]) > 95, "told beside GPM, for the reader of the file to find out"
    assert {row.nvml_util_pct is None for row in rows["uploads"]} == {True, False}, "once a second"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_real_work_is_not_the_time_axis(path: Path, tmp_path: Path) -> None:
    named, _ = replayed(path, tmp_path, no_gpm=False)
    tiny = by_load(named, read(path)[1])["tiny kernels"]
    assert mean(row.busy_pct or 0.0 for row in tiny) > 3 * mean(row.sm_active_pct or 0.0 for row in tiny)


def test_a_recording_gives_back_what_was_answered(tmp_path: Path) -> None:
    answers = Answers(
        gpm=GpmInterval(0.2, {"graphics": 5.0, "sm": Refused("no")}),
        samples=UtilSamples(7, ((8, 1.0), (9, 2.0))),
        utilization_pct=Refused("Not Supported"),
        polled_pct=(1.0, 2.0),
        memory_used_bytes=5,
        processes=(Using(1, None), Using(2, 3)),
    )
    facts = Facts("GPU-1", Refused("lost"), 5, 6, 7, Refused("old card"))
    box = {"kind": "box", "devices": [encode(facts), encode(Refused("GPU is lost"))]}
    rows = [box, look_row(Look(0, 1.5, "idle", answers)), look_row(Look(0, 2.5, "idle", Answers()))]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, looks = read(path)
    assert found.devices == (facts, Refused("GPU is lost"))
    assert [look.answers for look in looks] == [answers, Answers()]


def test_a_replay_keeps_for_the_next_dear_look_what_was_not_asked_for(tmp_path: Path) -> None:
    gpm = GpmInterval(0.2, {"graphics": 5.0})
    answered = [
        Answers(gpm, samples=UtilSamples(None, ((1, 0.0),)), memory_used_bytes=1),
        Answers(gpm, samples=UtilSamples(1, ((2, 10.0),)), memory_used_bytes=2, power_mw=7),
        Answers(gpm, samples=UtilSamples(2, ((3, 20.0), (4, 30.0))), memory_used_bytes=3),
        Answers(gpm, samples=UtilSamples(4, ((5, 40.0),))),
    ]
    box = {"kind": "box", "devices": [encode(Facts("GPU-1", "x", 5, 6, 7, True))]}
    looks = [look_row(Look(0, 1.0 + n, "", answers)) for n, answers in enumerate(answered)]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (box, *looks)))
    gpus = ReplayGpus(path)
    given = [gpus.ask(0, dear=dear) for dear in (True, False, True, True)]
    assert given[:2] == [answered[0], Answers(gpm)]
    both = UtilSamples(1, ((2, 10.0), (3, 20.0), (4, 30.0)))
    assert given[2] == Answers(gpm, samples=both, memory_used_bytes=3, power_mw=7)
    assert given[3] == answered[3]


def test_after_the_last_look_nothing_is_answered() -> None:
    gpus = ReplayGpus(RECORDINGS[0])
    for _ in gpus.looks:
        gpus.ask(0, dear=True)
    assert gpus.ask(0, dear=True) == Answers()
