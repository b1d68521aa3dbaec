"""Recording is bounded: on disk, in memory, and when the disk is full."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.inside import wire
from stoker.inside.wire import BACKWARD, DATA, FORWARD, LOSS, OPTIM
from stoker.inside.writer import Writer
from stoker.store.inside_files import read_ticks

DAY_S = 86_400
TICKS_PER_S = 500
LIMIT_BYTES = 100e6
TEN_MINUTES_S = 600
FULL_TAILS_S = int(2.98 * wire.TAIL_S)  # just before the first is emptied


def busy_second(driven, ticks: int) -> None:
    for _ in range(ticks):
        for phase in (DATA, FORWARD, LOSS, OPTIM):
            driven.spend(phase, 0.2 / ticks)
        driven.tick(0.2 / ticks)
    driven.flush()


def fill_with_everything(driven) -> None:
    """More lines, ranges and waits than a real script has."""
    driven.agent.pulse.lines = {(p % 13, "train", p): 123_456 + p for p in range(400)}
    driven.agent.syncs = {(9, "train", p): (1_000_000 + p, 12_345.678901) for p in range(50)}
    driven.recorder.range_totals = {
        f"part of the loop number {n}": (1_000_000, 12_345.678) for n in range(50)
    }
    driven.agent.worker = SimpleNamespace(row=lambda: dict.fromkeys("abcdefgh", 12_345.678901))
    loader = SimpleNamespace(row=lambda: {f"fact {n}": 12_345.678901 for n in range(18)})
    driven.agent.loaders = [loader, loader]


def test_a_day_at_500_ticks_a_second_stays_under_100_mb(driven) -> None:
    """Ticks at a tenth of the rate until the tails are full, then every 20th second of the rest."""
    fill_with_everything(driven)
    for _ in range(FULL_TAILS_S):
        busy_second(driven, TICKS_PER_S // 10)
    ticks = 10 * driven.size_bytes("*.tsv")
    for _ in range(DAY_S // 20):
        pass_time(driven, 19.0)
        busy_second(driven, 1)
    seconds, others = rows_by_kind(driven)
    slow = wire.SLOW_ROWS_MAX * 100
    assert ticks + 20 * seconds + others + slow < LIMIT_BYTES, (ticks, 20 * seconds, others, slow)
    assert ticks > 10e6, "the ticks were written"
    assert seconds > DAY_S / 20 * 100, "so were the seconds"
    assert others > 1e6, "and the lines"


def pass_time(driven, seconds: float) -> None:
    driven.clock.now += seconds
    driven.recorder.since = driven.clock.now
    driven.recorder.ticks += int(seconds * TICKS_PER_S)
    share = seconds / len(wire.PHASES)
    named, thin = driven.recorder.totals[: wire.THIN], driven.recorder.totals[wire.THIN :]
    driven.recorder.totals = [*(total + share for total in named), *thin]
    driven.recorder.counts = [count + 10_000 for count in driven.recorder.counts]


def rows_by_kind(driven) -> tuple[int, int]:
    """Bytes of the rows written once a second, and of all others."""
    (path,) = driven.folder.glob("inside/*-0.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    seconds = sum(len(line) for line in lines if line.endswith(b'"k":"second"}\n'))
    return seconds, sum(map(len, lines)) - seconds


def test_memory_stays_under_50_mb_when_nobody_takes_the_ticks_away(driven) -> None:
    tracemalloc.start()
    try:
        for _ in range(wire.TICKS_WAITING_MAX + 5_000):
            driven.tick()
            driven.recorder.env_stepped(1)
        for _ in range(wire.MARKS_MAX):
            driven.recorder.named_eval_begins()
            driven.recorder.named_eval_ends()
        kept = [type(driven.optimizer)() for _ in range(10 * wire.OPTIMIZERS_MAX)]
        for optimizer in kept:
            driven.tick(optimizer=optimizer)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 50e6
    recorder = driven.recorder
    assert len(recorder.tick_rows) <= wire.TICKS_WAITING_MAX + wire.MARKS_MAX + 1
    dropped = recorder.ticks_dropped
    assert dropped > 4_000
    assert len(recorder.marks) <= wire.MARKS_MAX + 2
    assert len(recorder.symbols) == wire.SEQUENCE_MAX + 1
    assert len(recorder.steps) <= wire.OPTIMIZERS_MAX
    driven.flush()
    assert max(count for _, count in driven.read().sequence) == 1
    assert driven.read().lost_rows == dropped


def test_tails_always_hold_the_last_ten_minutes(driven) -> None:
    for second in range(4 * TEN_MINUTES_S):
        busy_second(driven, 2)
        if second > TEN_MINUTES_S and second % 97 == 0:
            assert_covered(driven)
    assert driven.size_bytes("*.tail?.tsv") < 1.6 * TEN_MINUTES_S * 2 * 120


def assert_covered(driven) -> None:
    (path,) = driven.folder.glob("inside/*-0.jsonl")
    ends = [tick.end_s for tick in read_ticks(path, *wire.TAILS)]
    recent = [end for end in ends if end > driven.clock.now - TEN_MINUTES_S]
    assert len(recent) >= 2 * TEN_MINUTES_S - 2
    assert ends[-1] == pytest.approx(driven.clock.now, abs=1e-3)
    assert ends == sorted(set(ends))


def test_the_first_minute_is_kept_whole(driven) -> None:
    for _ in range(200):
        busy_second(driven, 5)
    first = driven.read().ticks
    assert [tick for tick in first if tick.end_s <= 1000.0 + wire.FIRST_S][-1].end_s == pytest.approx(
        1060.0, abs=0.3
    )
    assert first[-1].end_s < 1000.0 + wire.FIRST_S + 2.0


def test_the_first_minute_begins_with_the_first_tick(driven) -> None:
    driven.clock.advance(2 * wire.FIRST_S)  # a dataset is read
    for _ in range(3):
        busy_second(driven, 5)
    assert len(driven.read().ticks) >= 13


def test_slow_ticks_are_kept_after_their_time(driven) -> None:
    for second in range(1500):
        busy_second(driven, 10)
        if second % 300 == 299:
            driven.tick(2.0, phase=DATA)
            driven.flush()
    slow = driven.read().slow_ticks
    assert [round(tick.duration_s, 3) for tick in slow] == [2.0] * 5
    assert all(tick.phase_s[DATA] == pytest.approx(2.0) for tick in slow)


@pytest.mark.parametrize("every", [2, 3, 7, 10, 50])
def test_a_stall_on_every_nth_tick_is_in_the_sums(every: int, driven) -> None:
    """Sums run over all ticks, so no interval can hide a stall."""
    stalls = 0
    for number in range(1000):
        driven.tick(0.001, phase=BACKWARD)
        if number % every == 0:
            driven.spend(DATA, 0.05)
            stalls += 1
        if number % 10 == 9:
            driven.flush()
    record = driven.read()
    assert record.last.phase("data") == pytest.approx(0.05 * stalls)
    assert record.last.phase("backward") == pytest.approx(1.0)
    assert max(second.tick_max_s or 0 for second in record.seconds) == pytest.approx(0.051)


def full_disk(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_drops_rows_counts_them_and_goes_on(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_second(driven, 5)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        for _ in range(3):
            busy_second(driven, 5)
    busy_second(driven, 5)
    record = driven.read()
    assert record.last.ticks == 25, "sums are cumulative: resolution is lost, not truth"
    assert record.lost_rows >= 6
    assert record.unreadable_rows == 0


def test_disk_that_fills_up_in_the_middle_of_a_row(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    busy_second(driven, 5)
    real, calls = os.write, []

    def torn(descriptor: int, data: bytes) -> int:
        calls.append(data)
        return real(descriptor, data[:20]) if len(calls) == 3 else real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", torn)
        busy_second(driven, 5)
    busy_second(driven, 5)
    record = driven.read()
    assert record.last.ticks == 15
    assert record.lost_rows == 1
    assert record.unreadable_rows <= 1


def test_folder_that_vanishes_is_no_matter(driven) -> None:
    busy_second(driven, 5)
    for path in driven.folder.glob("inside/*"):
        path.unlink()
    (driven.folder / "inside").rmdir()
    for _ in range(3):
        busy_second(driven, 5)
    driven.agent.end()
    assert driven.recorder.ticks == 20


def test_too_many_processes_are_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    for number in range(wire.PROCESSES_MAX):
        (tmp_path / "inside" / f"{number}-0.jsonl").touch()
    with pytest.raises(OSError, match="processes recorded"):
        Writer(str(tmp_path)).open({})


def test_shared_file_of_workers_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "SHARED_BYTES_MAX", 1000)
    (tmp_path / "inside").mkdir()
    writer = Writer(str(tmp_path))
    for _ in range(100):
        writer.shared_row("workers-1.jsonl", {"text": "x" * 50})
    assert 1000 <= (tmp_path / "inside" / "workers-1.jsonl").stat().st_size < 1100


def test_a_pid_that_comes_back_gets_files_of_its_own(tmp_path: Path) -> None:
    writers = [Writer(str(tmp_path)) for _ in range(3)]
    for writer in writers:
        writer.open({"schema": wire.SCHEMA})
        writer.close()
    assert sorted(path.name for path in (tmp_path / "inside").iterdir()) == [
        f"{os.getpid()}-{number}.jsonl" for number in range(3)
    ]
