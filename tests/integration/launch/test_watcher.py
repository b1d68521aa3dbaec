"""The watcher's file: rows appear, and stay readable whoever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.launch import procfs
from stoker.launch.tree import RUN_MARKER
from stoker.launch.watcher import start_watcher
from stoker.model.host import HostEnd, HostHeader, HostReading, HostRow, IsolatedPython, parse_any

Drive = Callable[..., Any]
Until = Callable[[Callable[[], object], str], None]

BURN = "import time; end = time.process_time() + {s}\nwhile time.process_time() < end: pass"


def rows(folder: Path) -> list[HostRow]:
    """Every whole line must be understood; the last may be torn."""
    path = folder / "outside" / "host.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    parsed = [parse_any(json.loads(line)) for line in lines]
    assert None not in parsed
    return [row for row in parsed if row is not None]


def readings(folder: Path) -> list[HostReading]:
    return [row for row in rows(folder) if isinstance(row, HostReading)]


def alive(pid: int) -> bool:
    return procfs.identify(pid) is not None


def test_rows_from_start_to_end(drive: Drive, tmp_path: Path) -> None:
    burn = BURN.format(s=0.2)
    children = f"for _ in range(3): subprocess.run([sys.executable, '-c', {burn!r}])\n"
    script = f"import subprocess, sys, time\n{children}time.sleep(0.5)"
    assert drive("--watch", str(tmp_path), "--", sys.executable, "-c", script).wait() == 0
    written = rows(tmp_path)
    assert isinstance(written[0], HostHeader)
    assert written[0].schema == "stoker.host/1"
    assert written[0].cores_allowed
    assert isinstance(written[-1], HostEnd)
    found = readings(tmp_path)
    times = [row.t for row in found]
    assert times == sorted(times)
    assert written[0].monotonic_s <= times[0] <= times[-1] <= time.monotonic()
    sums = [row.cpu_s_total for row in found if row.cpu_s_total is not None]
    assert sums == sorted(sums)
    # Three children, one after the other, all gone at the end: 0.6 s in ticks of 10 ms, and the start of
    # four interpreters.
    assert 0.57 <= sums[-1] < 5
    assert found[-1].descendants_cpu_s_total is not None
    assert found[-1].descendants_cpu_s_total >= 0.57
    assert max(row.processes or 0 for row in found) == 2
    assert found[0].memory_available_bytes
    assert any(row.hottest_core_pct is not None for row in found)
    assert found[0].watcher_cpu_s is not None


def test_it_outlives_stoker_and_ends_with_the_training(drive: Drive, tmp_path: Path, until: Until) -> None:
    driven = drive("--watch", str(tmp_path), "--", "sleep", "60")
    facts = driven.facts()
    until(lambda: readings(tmp_path), "a first row")
    driven.process.kill()
    driven.wait()
    before = len(readings(tmp_path))
    until(lambda: len(readings(tmp_path)) > before + 2, "rows after Stoker's end")
    assert alive(facts["watcher"])
    assert alive(facts["child"])
    os.kill(facts["child"], signal.SIGKILL)
    until(lambda: not alive(facts["watcher"]), "the watcher to end by itself")
    last = rows(tmp_path)[-1]
    assert isinstance(last, HostEnd)
    assert last.reason == "no process of the run is left"


def test_readable_after_it_was_killed(drive: Drive, tmp_path: Path, until: Until) -> None:
    driven = drive("--watch", str(tmp_path), "--", "sh", "-c", "read line; exit 6")
    facts = driven.facts()
    until(lambda: len(readings(tmp_path)) > 2, "some rows")
    os.kill(facts["watcher"], signal.SIGKILL)
    until(lambda: not alive(facts["watcher"]), "its end")
    driven.process.stdin.close()
    assert driven.wait() == 6, "the training must not notice"
    assert len(readings(tmp_path)) > 2


def test_readable_whenever_it_was_killed(tmp_path: Path, until: Until) -> None:
    """Looking as often as it can, killed at moments of chance: only the last line may be torn."""
    job = os.posix_spawn("/bin/sleep", ["sleep", "60"], dict(os.environ))
    chance = random.Random(20)
    try:
        root = procfs.identify(job)
        assert root is not None
        for number in range(8):
            folder = tmp_path / str(number)
            watcher = start_watcher(folder, "killed", root, interval_s=0.0)
            wanted = 1 + chance.randrange(40)
            until(lambda folder=folder, wanted=wanted: len(rows(folder)) > wanted, "some rows")
            time.sleep(chance.random() / 100)
            watcher.process.kill()
            watcher.process.wait()
            assert isinstance(rows(folder)[0], HostHeader)
            assert readings(folder)
    finally:
        os.kill(job, signal.SIGKILL)
        os.waitpid(job, 0)


def test_it_stands_apart_from_the_run(drive: Drive, tmp_path: Path, until: Until) -> None:
    driven = drive("--watch", str(tmp_path), "--", "sleep", "60")
    watcher = driven.facts()["watcher"]
    until(lambda: len(readings(tmp_path)) > 1, "a second row: by then it has looked for GPUs")
    environ = Path(f"/proc/{watcher}/environ").read_bytes()
    assert RUN_MARKER.encode() not in environ
    assert watcher not in {member.identity.pid for member in driven.members()}
    assert os.getsid(watcher) == watcher
    targets = {os.readlink(f"/proc/{watcher}/fd/{fd}") for fd in (0, 1, 2)}
    assert targets == {"/dev/null"}
    descriptors = {
        os.readlink(f"/proc/{watcher}/fd/{fd}") for fd in os.listdir(f"/proc/{watcher}/fd") if int(fd) > 2
    }
    own = (str(tmp_path), "/proc", "/dev/nvidia")
    assert all(target.startswith(own) for target in descriptors)
    assert os.getpriority(os.PRIO_PROCESS, watcher) > 0
    os.kill(driven.process.pid, signal.SIGTERM)
    assert driven.wait() == 143
    assert not alive(watcher)


def test_isolated_pythons_are_named(drive: Drive, tmp_path: Path) -> None:
    driven = drive(
        "--watch", str(tmp_path), "--", sys.executable, "-I", "-c", "import time; time.sleep(1)", "-E"
    )
    driven.wait()
    found = [row for row in rows(tmp_path) if isinstance(row, IsolatedPython)]
    assert [(row.pid, row.flags) for row in found] == [(driven.facts()["child"], "-I")]


def test_an_existing_job_is_followed_by_parentage(tmp_path: Path, until: Until) -> None:
    """What it used before we came is not counted."""
    program = (
        BURN.format(s=0.5) + "\nimport subprocess; print('up', flush=True); subprocess.run(['sleep', '60'])"
    )
    read_end, write_end = os.pipe()
    job = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", program],
        dict(os.environ),
        file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)],
        setpgroup=0,
    )
    os.close(write_end)
    try:
        assert os.read(read_end, 2) == b"up"
        root = procfs.identify(job)
        assert root is not None
        watcher = start_watcher(tmp_path, "attached-run", root, interval_s=0.1, attached=True)
        until(lambda: any(row.processes == 2 for row in readings(tmp_path)), "the job and its child")
        found = readings(tmp_path)
        assert (found[-1].cpu_s_total or 0.0) < 0.4
        header = rows(tmp_path)[0]
        assert isinstance(header, HostHeader)
        assert header.attached
    finally:
        os.killpg(job, signal.SIGKILL)
        os.waitpid(job, 0)
        os.close(read_end)
    until(lambda: not watcher.alive, "the watcher to end with the job")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, until: Until) -> None:
    (tmp_path / "file").write_text("")
    root = procfs.identify(os.getpid())
    assert root is not None
    watcher = start_watcher(tmp_path / "file" / "run", "nowhere", root)
    until(lambda: not watcher.alive, "it to give up")
    assert watcher.failure == "the host watcher could not write to the run's folder"
    assert watcher.stop()


def writes_tried(pid: int) -> int:
    text = procfs.read_text(f"/proc/{pid}/io") or "syscw: 0"
    return int(text.split("syscw:")[1].split()[0])


def test_a_full_disk_does_not_end_it(tmp_path: Path, until: Until) -> None:
    """/dev/full fails each write as a full disk does; the rows are counted as lost."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "host.jsonl").symlink_to("/dev/full")
    job = os.posix_spawn("/bin/sleep", ["sleep", "60"], dict(os.environ))
    try:
        root = procfs.identify(job)
        assert root is not None
        watcher = start_watcher(tmp_path, "full", root, interval_s=0.05)
        until(lambda: writes_tried(watcher.pid) > 5, "it to try several rows")
        assert watcher.alive
        assert watcher.stop()
        assert watcher.process.returncode == 0
    finally:
        os.kill(job, signal.SIGKILL)
        os.waitpid(job, 0)
