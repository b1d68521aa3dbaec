"""The watcher's loop over a /proc of our own making."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.launch import procfs
from stoker.launch.procfs import Identity
from stoker.model.host import HostEnd, HostReading, IsolatedPython, MissingField, parse_any
from stoker.outside import cgroup, machine, watch
from stoker.outside.gpu import watching
from stoker.outside.gpu.fake import FakeGpus
from stoker.outside.processes import Bookkeeper, Follower
from stoker.store.gpu_files import read_gpu

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class World:
    """Files under /proc and who lives there."""

    files: dict[str, bytes] = field(default_factory=dict)

    def add(
        self, pid: int, parent: int, *, cpu_s: float = 0.0, start_s: float = 1.0, environ: bytes = b""
    ) -> None:
        after = ["S", parent, pid, pid, 0, -1, 0, 0, 0, 0, 0, int(cpu_s * TICKS), 0, 0, 0, 20, 0, 1, 0]
        after += [int(start_s * TICKS), 0, 1]
        self.files[f"/proc/{pid}/stat"] = f"{pid} (p{pid}) {' '.join(map(str, after))}".encode()
        self.files[f"/proc/{pid}/environ"] = environ
        self.files[f"/proc/{pid}/cmdline"] = b"python3\0-I\0x.py\0" if pid == 10 else b"sh\0"

    def remove(self, pid: int) -> None:
        for path in [path for path in self.files if path.startswith(f"/proc/{pid}/")]:
            del self.files[path]

    def pids(self) -> list[int] | None:
        return [int(path.split("/")[2]) for path in self.files if path.endswith("/environ")] or None

    def read_text(self, path: str) -> str | None:
        return self.files[path].decode() if path in self.files else None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(procfs, "read", world.files.get)
    monkeypatch.setattr(procfs, "list_pids", world.pids)
    for module in (procfs, cgroup, machine):
        monkeypatch.setattr(module, "read_text", world.read_text)
    monkeypatch.setattr(os, "getpid", lambda: 99)
    return world


MARK = b"A=1\0STOKER_RUN=r\0"


def pids(follower: Follower) -> list[int]:
    return [stat.pid for stat in follower.look()]


def test_who_is_followed(world: World) -> None:
    world.add(1, 0, start_s=0.0)
    world.add(10, 1, start_s=5.0, environ=MARK)
    world.add(99, 10, start_s=5.5)
    follower = Follower("r", Identity(10, 5.0))
    assert pids(follower) == [10], "never the watcher itself"
    world.add(11, 10, start_s=6.0)
    world.add(12, 1, start_s=7.0, environ=MARK)
    world.add(13, 1, start_s=8.0, environ=b"STOKER_RUN=other\0")
    assert pids(follower) == [10, 11, 12]


def test_a_process_once_seen_is_followed_when_its_parent_is_gone(world: World) -> None:
    world.add(10, 1, start_s=5.0)
    world.add(11, 10, start_s=6.0)
    follower = Follower("r", Identity(10, 5.0))
    assert pids(follower) == [10, 11]
    world.remove(10)
    world.add(11, 1, start_s=6.0)
    assert pids(follower) == [11]


def test_a_reused_pid_is_dropped(world: World) -> None:
    world.add(10, 1, start_s=5.0)
    world.add(11, 10, start_s=6.0)
    follower = Follower("r", Identity(10, 5.0))
    follower.look()
    world.add(11, 1, start_s=50.0)
    assert pids(follower) == [10]


def test_main_and_descendants_are_kept_apart(world: World) -> None:
    world.add(10, 1, cpu_s=1.0, start_s=5.0)
    world.add(11, 10, cpu_s=3.0, start_s=6.0)
    follower, books = Follower("r", Identity(10, 5.0)), Bookkeeper(Identity(10, 5.0), attached=False)
    first = books.update(follower.look(), 100.0)
    assert (first.cpu_s, first.main_cpu_s, first.descendants_cpu_s) == (4.0, 1.0, 3.0)
    assert first.read_bytes is None
    assert first.unreadable == 2
    world.add(10, 1, cpu_s=1.5, start_s=5.0)
    world.add(11, 10, cpu_s=5.0, start_s=6.0)
    second = books.update(follower.look(), 102.0)
    assert (second.cpu_s, second.main_cpu_s) == (6.5, 1.5)
    assert (second.busiest_pid, second.busiest_pct) == (11, 100.0)


def watch_until_gone(world: World, folder: Path) -> list[object]:
    task = watch.Assignment(folder, "r", Identity(10, 5.0), 0.0, attached=False)
    watch.watch(task)
    lines = (folder / "outside" / "host.jsonl").read_text().splitlines()
    return [parse_any(json.loads(line)) for line in lines]


def test_what_cannot_be_read_is_said_once_and_left_out(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(1, 0, start_s=0.0)
    world.add(10, 1, start_s=5.0, environ=MARK)
    looks = iter(range(3))
    monkeypatch.setattr(
        watch.signal, "sigtimedwait", lambda *args: next(looks, None) is None and world.remove(10)
    )
    rows = watch_until_gone(world, tmp_path)
    readings = [row for row in rows if isinstance(row, HostReading)]
    missing = [row for row in rows if isinstance(row, MissingField)]
    assert len(readings) == 5
    assert all(row.machine_cpu_pct is None and row.cpu_pressure_s_total is None for row in readings)
    assert all(row.processes == 1 for row in readings[:-1])
    names = [row.name for row in missing]
    assert len(names) == len(set(names))
    assert {"machine_cpu_pct", "cpu_pressure_s_total", "memory_available_bytes", "read_bytes_total"} <= set(
        names
    )
    assert all(row.reason for row in missing)
    assert [row for row in rows if isinstance(row, IsolatedPython)] == [IsolatedPython(10, "-I")]
    assert isinstance(rows[-1], HostEnd)
    assert rows[-1].reason == "no process of the run is left"


def test_gpus_are_looked_at_beside_the_host(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(10, 1, start_s=5.0, environ=MARK)
    gpus = FakeGpus()
    gpus.used_by(0, 10, 77)
    monkeypatch.setattr(watching, "find_gpus", lambda: gpus)
    monkeypatch.setattr(watching, "in_first_pid_namespace", lambda: True)
    looks = iter(range(3))
    monkeypatch.setattr(
        watch.signal, "sigtimedwait", lambda *args: next(looks, None) is None and world.remove(10)
    )
    watch_until_gone(world, tmp_path)
    record = read_gpu(tmp_path)
    assert len(record.readings) >= 2
    assert (record.readings[0].own_pids, record.readings[0].foreign_pids) == ((10,), (77,))
    assert record.costs[-1].looks == len(record.readings)
    assert gpus.closed


def test_told_to_end_both_files_are_finished(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add(10, 1, start_s=5.0, environ=MARK)
    monkeypatch.setattr(watching, "find_gpus", FakeGpus)
    monkeypatch.setattr(watch.signal, "sigtimedwait", lambda *args: True)
    rows = watch_until_gone(world, tmp_path)
    assert isinstance(rows[-1], HostEnd)
    last = (tmp_path / "outside" / "gpu.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["reason"] == rows[-1].reason == "told to end"


def test_without_proc_the_end_says_so(world: World, tmp_path: Path) -> None:
    rows = watch_until_gone(world, tmp_path)
    assert isinstance(rows[-1], HostEnd)
    assert rows[-1].reason == "/proc cannot be read"


def test_a_long_run_is_looked_at_less_often(world: World, tmp_path: Path) -> None:
    task = watch.Assignment(tmp_path, "r", Identity(10, 5.0), 1.0, attached=False)
    journal = watch.Journal(tmp_path / "host.jsonl")
    looker = watch.Watch(task, journal)
    intervals = []
    for mib in (0, 15, 16, 33, 80):
        journal.written_bytes = mib * 2**20
        intervals.append(looker.interval_s)
    journal.close()
    assert intervals == [1.0, 1.0, 2.0, 4.0, 32.0]
