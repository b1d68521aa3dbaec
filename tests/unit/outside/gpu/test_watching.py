"""The rhythm of looking, what is written, and the rows read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.model.gpu import GpuCost, GpuDevice, GpuEnd, GpuHeader, GpuMissing, GpuReading, parse, to_row
from stoker.outside.gpu import watching
from stoker.outside.gpu.cpu import CpuDevice
from stoker.outside.gpu.fake import FakeGpus, fake_answers, fake_facts
from stoker.outside.gpu.seam import Answers, Gpus, Refused, UtilSamples
from stoker.outside.gpu.watching import GpuWatch, start_gpu_watch
from stoker.outside.journal import Journal
from stoker.store.gpu_files import read_gpu


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class CpuClock:
    """Each look takes the same."""

    def __init__(self, look_s: float = 0.0001) -> None:
        self.asked, self.look_s = 0, look_s

    def __call__(self) -> float:
        self.asked += 1
        return self.asked * self.look_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watch_of(gpus: Gpus, folder: Path, clock: Clock, look_s: float = 0.0001) -> GpuWatch:
    journal, cpu_clock = Journal(folder / "outside" / "gpu.jsonl"), CpuClock(look_s)
    return GpuWatch(
        gpus, journal, "r", pids_comparable=True, interval_s=0.2, clock=clock, cpu_clock=cpu_clock
    )


def run_for(watch: GpuWatch, clock: Clock, seconds: float, own: frozenset[int] = frozenset({1})) -> None:
    end = clock.now + seconds
    while min(watch.due_s, end) < end:
        clock.now = max(clock.now, watch.due_s)
        watch.step(own)
    clock.now = end


def rows(folder: Path) -> list[object]:
    return [parse(json.loads(line)) for line in (folder / "outside" / "gpu.jsonl").read_text().splitlines()]


def test_five_looks_a_second_one_of_them_dear(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus()
    gpus.used_by(0, 1)
    watch = watch_of(gpus, tmp_path, clock)
    run_for(watch, clock, 10.0)
    watch.finish("over")
    assert len(gpus.asked) == pytest.approx(50, abs=2)
    assert sum(dear for _, dear in gpus.asked) == pytest.approx(10, abs=1)
    assert gpus.closed


def test_a_gpu_nobody_uses_is_looked_at_once_a_second(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus([fake_facts(0), fake_facts(1)], [fake_answers(), fake_answers(busy_pct=0.0)])
    gpus.used_by(0, 1)
    watch = watch_of(gpus, tmp_path, clock)
    run_for(watch, clock, 10.0)
    asked = [device for device, _ in gpus.asked]
    assert asked.count(0) == pytest.approx(50, abs=2)
    assert asked.count(1) == pytest.approx(10, abs=1)
    gpus.answers[1] = fake_answers(busy_pct=3.0)  # work is seen even where processes are hidden
    gpus.asked.clear()
    run_for(watch, clock, 10.0)
    assert [device for device, _ in gpus.asked].count(1) > 40


def test_an_h200_that_does_nothing_is_one_that_nobody_uses(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus(answers=[replace(fake_answers(busy_pct=0.006), utilization_pct=0)])
    run_for(watch_of(gpus, tmp_path, clock), clock, 10.0)
    assert len(gpus.asked) == pytest.approx(10, abs=1)


def test_a_gpu_that_tells_nothing_is_not_called_idle(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus(answers=[Answers(gpm=Refused("no"), samples=UtilSamples(5, ()))])
    run_for(watch_of(gpus, tmp_path, clock), clock, 10.0)
    assert len(gpus.asked) > 40


def test_a_look_that_tells_nothing_is_not_written(tmp_path: Path, clock: Clock) -> None:
    """Without GPM, between two dear looks."""
    told = replace(fake_answers(), gpm=Refused("no"), samples=UtilSamples(5, ((1_000_005, 40.0),)))
    watch = watch_of(FakeGpus(answers=[told]), tmp_path, clock)
    run_for(watch, clock, 10.0)
    written = [row for row in rows(tmp_path) if isinstance(row, GpuReading)]
    assert len(written) == pytest.approx(10, abs=1)
    assert {(row.busy_pct, row.busy_s, row.nvml_util_pct) for row in written} == {(40.0, 1.0, 40.0)}


def test_the_file_read_back(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus([fake_facts(0), Refused("GPU is lost")])
    gpus.used_by(0, 1, 77)
    watch = watch_of(gpus, tmp_path, clock)
    run_for(watch, clock, 5.0)
    watch.finish("told to end")
    kinds = [type(row) for row in rows(tmp_path)]
    assert kinds[:3] == [GpuHeader, GpuDevice, GpuMissing]
    assert kinds[-2:] == [GpuCost, GpuEnd]
    record = read_gpu(tmp_path)
    assert record.header is not None
    assert (record.header.source, record.header.driver) == ("fake", "000.00")
    assert record.devices[0].uuid == "GPU-00000000-0000-0000-0000-000000000000"
    assert record.missing == (GpuMissing("device", "GPU is lost", 1),)
    first = record.readings[0]
    assert (first.busy_pct, first.busy_source, first.busy_s) == (50.0, "gpm", 0.2)
    assert (first.own_pids, first.foreign_pids, first.throttled_by) == ((1,), (77,), ())
    assert record.readings[1].foreign_pids is None, "dear: not at every look"
    assert [cost.looks for cost in record.costs] == [10, len(record.readings)]
    assert record.costs[-1].cpu_s_total > 0


def test_a_field_that_goes_missing_is_told_once(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus()
    gpus.answers[0] = replace(gpus.answers[0], energy_mj=Refused("Not Supported"))
    watch = watch_of(gpus, tmp_path, clock)
    run_for(watch, clock, 5.0)
    told = [row for row in rows(tmp_path) if isinstance(row, GpuMissing)]
    assert told == [GpuMissing("energy_mj_total", "Not Supported", 0)]


def test_polls_between_looks_where_the_driver_needs_it(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus(needs_polls=True)
    gpus.used_by(0, 1)
    watch = watch_of(gpus, tmp_path, clock)
    run_for(watch, clock, 2.0)
    assert len(gpus.asked) == pytest.approx(10, abs=1)
    assert gpus.polled == pytest.approx(2 * len(gpus.asked), abs=2), "with the look itself three values"


def test_dear_looks_come_less_often(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus()
    gpus.used_by(0, 1)
    watch = watch_of(gpus, tmp_path, clock, look_s=0.005)
    run_for(watch, clock, 10.0)
    assert len(gpus.asked) == pytest.approx(16, abs=2), "5 ms of CPU every 0.625 s are 0.8 % of a core"


def test_a_first_look_that_takes_long_is_no_measure(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus()
    gpus.used_by(0, 1)
    watch = watch_of(gpus, tmp_path, clock)
    watch._cpu_clock = iter([0.0, 0.5, *(n / 1000 for n in range(500, 10_000))]).__next__
    run_for(watch, clock, 4.0)
    assert len(gpus.asked) > 15


def test_a_long_run_is_looked_at_less_often(tmp_path: Path, clock: Clock) -> None:
    journal = Journal(tmp_path / "gpu.jsonl")
    watch = GpuWatch(FakeGpus(), journal, "r", interval_s=0.2, clock=clock)
    intervals = []
    for mib in (0, 7, 8, 17, 40):
        journal.written_bytes = mib * 2**20
        intervals.append(watch.interval_s)
    journal.close()
    assert intervals == [0.2, 0.2, 0.4, 0.8, 6.4]


def test_after_a_suspend_there_is_no_rush(tmp_path: Path, clock: Clock) -> None:
    gpus = FakeGpus()
    watch = watch_of(gpus, tmp_path, clock)
    watch.step(())
    clock.now += 3600
    gpus.asked.clear()
    run_for(watch, clock, 1.0)
    assert len(gpus.asked) <= 7


def test_a_machine_without_a_gpu_writes_that_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "find_gpus", lambda: CpuDevice("no NVIDIA driver here"))
    assert start_gpu_watch(tmp_path, "r", 0.2) is None
    header, end = rows(tmp_path)
    assert isinstance(header, GpuHeader)
    assert (header.source, header.reason) == ("cpu", "no NVIDIA driver here")
    assert isinstance(end, GpuEnd)


def test_damaged_rows_cost_themselves(tmp_path: Path) -> None:
    path = tmp_path / "outside" / "gpu.jsonl"
    path.parent.mkdir()
    good = to_row(GpuReading(1.0, 0, busy_pct=5.0, foreign_pids=(3,)))
    bad = [
        {"kind": "reading", "gpu": 0},
        {"kind": "tomorrow"},
        {**good, "busy_pct": "5", "foreign_pids": [1, "x"]},
    ]
    lines = [json.dumps(row) for row in [good, *bad]]
    path.write_text("\n".join(["not json", "[]", *lines, '{"kind":"read']))
    assert read_gpu(tmp_path).readings == (
        GpuReading(1.0, 0, busy_pct=5.0, foreign_pids=(3,)),
        GpuReading(1.0, 0),
    )


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert read_gpu(tmp_path).header is None


def test_the_cpu_device_has_nothing_to_ask() -> None:
    with pytest.raises(LookupError):
        CpuDevice("x").ask(0, dear=True)
    assert FakeGpus().ask(0, dear=False).processes is None
    assert isinstance(FakeGpus().ask(0, dear=True), Answers)
