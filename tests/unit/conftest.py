"""Runs that never happened, with figures chosen by the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stoker.model.gpu import GpuCost, GpuDevice, GpuHeader, GpuReading, GpuRecord
from stoker.model.host import HostHeader, HostReading, HostRecord
from stoker.model.lead import Lead, PhaseLead
from stoker.model.record import (
    PHASES,
    DeviceUse,
    Loader,
    Mark,
    Place,
    ProcessRecord,
    Sampled,
    Second,
    Sums,
    Tick,
    Worker,
)
from stoker.model.run import Run, RunInfo

CWD = "/home/me/project"
BEGAN_S = 1000.0
STARTUP_S = 3.0


def place(text: str) -> Place:
    """`train.py:12 step`, in the project; `numpy/x.py:3 f < train.py:12 step` in a library below it."""
    leaf, _, user = text.partition(" < ")
    return Place(_line(leaf), _line(user or leaf))


def _line(text: str) -> tuple[str, int, str]:
    where, _, function = text.partition(" ")
    path, _, number = where.partition(":")
    root = "/usr/lib/python3/site-packages" if path.startswith("numpy") else CWD
    return (f"{root}/{path}", int(number), function)


def sums(t_s: float, ticks: float = 0, samples: float = 0, env_steps: float = 0, **phase_s: float) -> Sums:
    seconds = tuple(phase_s.get(name, 0.0) for name in PHASES)
    return Sums(t_s, seconds, int(ticks), int(samples), int(env_steps), int(ticks))


def training(
    shares: Mapping[str, float],
    *,
    seconds: int = 60,
    ticks_per_s: float = 20.0,
    batch: int = 32,
    env_steps_per_tick: float = 0.0,
    acting: float = 0.0,
    pid: int = 4312,
    torch: str = "2.13.0+cpu",
    speeds: Sequence[float] | None = None,
    **more: Any,
) -> ProcessRecord:
    """A train stage of even speed, in which each phase has its share of every second. `speeds` changes the
    speed from second to second, by a factor."""
    start_s = BEGAN_S + STARTUP_S
    rows, made = [], 1.0
    for second in range(seconds + 1):
        if second:
            made += ticks_per_s * (speeds[second - 1] if speeds else 1.0)
        phases = {name: share * second for name, share in shares.items()}
        done = sums(start_s + second, made, made * batch, made * env_steps_per_tick, **phases)
        rows.append(Second(done, "train", acting * second, 1 / ticks_per_s, 0, 0.001 * second))
    ticks = tuple(_ticks(shares, start_s, rows[:61]))
    record = ProcessRecord(
        pid=pid,
        ppid=4311,
        python="3.11.7",
        torch=torch,
        argv=("train.py",),
        began_s=BEGAN_S + 1.0,
        process_start_s=BEGAN_S,
        rank=None,
        world=None,
        seconds=tuple(rows),
        marks=(Mark("train", rows[0].sums),),
        ticks=ticks,
        optimizers=("SGD",),
        optimizer_steps=(int(made),),
        sequence=((0, int(made)),),
        ended=True,
    )
    return replace(record, **more)


def _ticks(shares: Mapping[str, float], start_s: float, rows: Sequence[Second]) -> Iterator[Tick]:
    """Of the first minute, as even within a second as they can be."""
    end_s = start_s
    for before, row in pairwise(rows):
        count = row.sums.ticks - before.sums.ticks
        for n in range(count):
            now_s = before.sums.t_s + (n + 1) / count
            spent = tuple(shares.get(name, 0.0) * (now_s - end_s) for name in PHASES)
            yield Tick(now_s, now_s - end_s, 0, spent)
            end_s = now_s


def rollouts(shares: Mapping[str, float], *, envs: int = 4, **more: Any) -> ProcessRecord:
    """Environments are stepped, 20 calls a second, and no optimizer ever is."""
    plain = training(shares, env_steps_per_tick=envs, **more)
    rows = tuple(
        replace(row, sums=replace(row.sums, ticks=0, samples=0, backwards=0), env_calls=row.sums.ticks)
        for row in plain.seconds
    )
    nothing: dict[str, Any] = {"marks": (), "ticks": (), "optimizers": (), "optimizer_steps": ()}
    return replace(plain, seconds=rows, sequence=(("e", rows[-1].env_calls),), **nothing)


def looks(lines: Mapping[tuple[str, str], int]) -> tuple[Sampled, ...]:
    """`{("other", "train.py:12 step"): 40}`."""
    return tuple(Sampled(phase, "train", place(text), count) for (phase, text), count in lines.items())


def loader(**more: Any) -> Loader:
    plain = Loader(0, 2, 32, 2, False, False, 100, "Pictures", 12, 1200, 20.0, 0.2, 0.1, 0.5, 0.7)
    return replace(plain, **{"made": place("/home/me/project/train.py:31 build"), **more})


def worker(number: int | None = 0, **more: Any) -> Worker:
    plain = Worker(5000 + (number or 0), number, 600, 19200, 57.0, 25.0, 1.2, 0.02, 60.0)
    return replace(plain, **more)


def host(seconds: int = 60, **more: Any) -> HostRecord:
    header = HostHeader("stoker.host/1", "id", 4312, 1.0, BEGAN_S, 0.0, cores_allowed=8.0)
    readings = tuple(
        HostReading(
            BEGAN_S + second,
            processes=3,
            cpu_s_total=2.5 * second,
            rss_bytes=2_400_000_000,
            hottest_core_pct=97.0,
            iowait_pct=1.0,
            read_bytes_total=1000 * second,
        )
        for second in range(seconds + 4)
    )
    return replace(HostRecord(header, readings), **more)


def run(*processes: ProcessRecord, host: HostRecord | None = None, **info: Any) -> Run:
    plain = RunInfo(
        id="20260304-050607-train-0a1b2c",
        command=("python", "train.py", "--lr", "0.1"),
        cwd=CWD,
        started_wall=1772600767.0,
        started_s=BEGAN_S,
        ended_s=BEGAN_S + 65.0,
        exit_code=0,
        ended_by="itself",
        stoker="0.1.0",
        host="box",
    )
    folder = Path(CWD, ".stoker/runs/20260304-050607-train-0a1b2c")
    return Run(folder, replace(plain, **info), processes, host if host is not None else _host())


_host = host


class Synthetic:
    """All of the above, for tests: `make.run(make.training({"data": 0.4, "forward": 0.6}))`."""

    place, sums, training, rollouts, looks = map(staticmethod, (place, sums, training, rollouts, looks))
    loader, worker, host, run = map(staticmethod, (loader, worker, host, run))


@pytest.fixture
def make() -> type[Synthetic]:
    return Synthetic


GIB = 2**30
UUID = "GPU-1b2c3d4e-0000-0000-0000-000000000000"
NO_GPM = "this card has no GPM (it came with Hopper)"
TRAIN_S, SECONDS = 1003.0, 60
CUDA_TORCH = "2.11.0+cu128"

H200 = GpuDevice(0, UUID, "NVIDIA H200", 141 * GIB, 700.0, 1980, gpm=True, power_default_w=700.0)
RTX_4090 = GpuDevice(0, UUID, "NVIDIA GeForce RTX 4090", 24 * GIB, 450.0, 3105, gpm=False, gpm_reason=NO_GPM)
GPM_FIGURES = {"sm_active_pct": 9.4, "sm_occupancy_pct": 6.2, "tensor_pct": 2.1, "dram_pct": 3.0}


def _lead(phases: Mapping[str, Sequence[float]], by: str = "events", **more: Any) -> Lead:
    """`{"env": (10.0, 10.0, 0.0, 0.0)}`: seconds of the host, idle, near and unknown."""
    rows = {name: PhaseLead(*seconds) for name, seconds in phases.items()}
    return replace(Lead(by, 0, 0, 1, 200, 200, 4.0, 0.01, 0.00002, rows), **more)


def _use(index: int = 0, uuid: str | None = UUID, **more: Any) -> DeviceUse:
    held = {
        "allocated_max_bytes": 3 * GIB,
        "reserved_bytes": 4 * GIB,
        "reserved_max_bytes": 4 * GIB,
        "retries": 0,
        "ooms": 0,
    }
    return DeviceUse(TRAIN_S, index, uuid, "a GPU", 141 * GIB, **{**held, **more})


def _readings(
    busy_pct: float | None, pid: int = 4312, source: str = "gpm", **more: Any
) -> tuple[GpuReading, ...]:
    """One a second."""
    usual: dict[str, Any] = {
        "busy_pct": busy_pct,
        "busy_s": 1.0,
        "busy_source": source,
        "memory_used_bytes": 6 * GIB,
        "sm_clock_mhz": 1755,
        "throttled_by": (),
        "temperature_c": 41,
        "processes": 1,
        "own_pids": (pid,),
        "foreign_pids": (),
    }
    return tuple(
        GpuReading(TRAIN_S + second, 0, energy_mj_total=210_000 * second, **{**usual, **more})
        for second in range(SECONDS + 2)
    )


def _record(
    rows: Sequence[GpuReading], *devices: GpuDevice, comparable: bool = True, **more: Any
) -> GpuRecord:
    header = GpuHeader("stoker.gpu/1", "id", 0.2, 0.0, 0.0, "fake", pids_comparable=comparable)
    costs = (GpuCost(1005.0, 10, 0.004, 0.005, 0.02), GpuCost(1065.0, 310, 0.124, 0.16, 0.2))
    return replace(GpuRecord(header, devices or (H200,), tuple(rows), costs=costs), **more)


def _gpu_run(make: Any, shares: Mapping[str, float], gpu: GpuRecord, found: Lead | None, **more: Any) -> Any:
    """`more` goes to the record of the training."""
    settings = {"torch": CUDA_TORCH, "devices": (_use(),), "lead": found, **more}
    return replace(make.run(make.training(shares, **settings)), gpu=gpu)


class Cards:
    """Runs on GPUs: `cards.run(make, shares, cards.record(cards.readings(40.0)), cards.lead(...))`."""

    UUID, H200, RTX_4090, NO_GPM, GPM_FIGURES = UUID, H200, RTX_4090, NO_GPM, GPM_FIGURES
    lead, use, readings, record, run = map(staticmethod, (_lead, _use, _readings, _record, _gpu_run))


@pytest.fixture
def cards() -> type[Cards]:
    return Cards
