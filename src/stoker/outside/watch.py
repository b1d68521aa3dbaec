"""The watcher: a process of its own that writes one row a second to `outside/host.jsonl`, and where there are
GPUs a few to `outside/gpu.jsonl`.

    python -m stoker.outside.watch --folder RUN_FOLDER --run-id ID --pid N [--create-time T] [--interval 1.0]
        [--gpu-interval 0.2]

It ends when the run's last process is gone, or when told so (SIGTERM). If Stoker is killed it goes on.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from stoker.launch import procfs
from stoker.launch.procfs import Identity, Stat
from stoker.model.host import SCHEMA, HostEnd, HostHeader, HostReading, IsolatedPython, MissingField, to_row
from stoker.outside import cgroup, host
from stoker.outside.core_waits import CoreWaits
from stoker.outside.gpu.watching import INTERVAL_S, GpuWatch, start_gpu_watch
from stoker.outside.isolation import isolating_flags
from stoker.outside.journal import Journal
from stoker.outside.machine import Machine, read_cores
from stoker.outside.processes import Bookkeeper, Follower, ThreadTimes

NICENESS = 5
_SOMETIMES = 5
"""Looks between two of the dearer fields."""
_RARELY = 10
_STRETCH_AT_BYTES = 16 * 2**20
"""Each time the file has grown by so much, the interval doubles: a run of weeks stays readable."""
_TOLD_TO_END = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Assignment:
    folder: Path
    run_id: str
    root: Identity
    interval_s: float
    attached: bool
    gpu_interval_s: float = INTERVAL_S


class Watch:
    def __init__(self, task: Assignment, journal: Journal) -> None:
        self._task = task
        self._journal = journal
        self._follower = Follower("" if task.attached else task.run_id, task.root)
        self._books = Bookkeeper(task.root, attached=task.attached)
        self._threads = ThreadTimes()
        self._core_waits = CoreWaits(task.folder / "inside")
        self._machine = Machine()
        self._group = cgroup.find(task.root.pid)
        self._cores = read_cores(task.root.pid, self._group)
        self._looks = 0
        self._told_missing: set[str] = set()
        self._examined: set[Identity] = set()
        self.pids: set[int] = set()
        """Of the run, ever: NVML may name a process a moment longer than /proc."""

    def header(self) -> HostHeader:
        memory = host.parse_meminfo(procfs.read_text("/proc/meminfo") or "")
        return HostHeader(
            schema=SCHEMA,
            run_id=self._task.run_id,
            root_pid=self._task.root.pid,
            interval_s=self._task.interval_s,
            monotonic_s=time.monotonic(),
            wall_s=time.time(),
            attached=self._task.attached,
            cores_machine=self._cores.machine,
            cores_allowed=self._cores.allowed,
            cores_affinity=len(self._cores.affinity) or None,
            cores_quota=self._cores.quota,
            memory_total_bytes=memory.total_bytes,
            memory_limit_bytes=self._group.memory_limit_bytes,
            cgroup_version=self._group.version,
        )

    def look(self) -> bool:
        """Write one row; False when nobody of the run is left."""
        stats = self._follower.look()
        alive = [stat for stat in stats if not stat.dead]
        self.pids.update(stat.pid for stat in stats)
        t = time.monotonic()
        self._journal.append(to_row(self._reading(stats, t)))
        for row in self._core_waits.look({stat.pid for stat in alive}, round(t, 4)):
            self._journal.append(to_row(row))
        self._tell_isolated(alive)
        self._tell_missing()
        self._looks += 1
        return bool(alive)

    @property
    def end_reason(self) -> str:
        return "/proc cannot be read" if self._follower.blind else "no process of the run is left"

    @property
    def interval_s(self) -> float:
        return float(self._task.interval_s * 2 ** (self._journal.written_bytes // _STRETCH_AT_BYTES))

    def finish(self, reason: str) -> None:
        self._journal.append(to_row(HostEnd(time.monotonic(), reason)))
        self._journal.close()

    def _reading(self, stats: list[Stat], t: float) -> HostReading:
        use = self._books.update(stats, t)
        if use.read_bytes is None:
            self._machine.missing.setdefault("read_bytes_total", "/proc/<pid>/io of the run is not readable")
        found: dict[str, object] = {
            **self._machine.cpu(self._cores.affinity),
            **self._machine.memory(),
            **self._machine.traffic(),
            **self._machine.pressure(),
            **self._throttling(),
        }
        if self._looks % _SOMETIMES == 1:
            self._threads.begin(use.busiest_pid, t)
        if self._looks % _SOMETIMES == 2:
            found |= self._dear(t)
        if self._looks % _RARELY == 0:
            found |= self._rare()
        return HostReading(
            t=round(t, 4),
            processes=use.processes,
            threads=use.threads,
            cpu_s_total=use.cpu_s,
            main_cpu_s_total=use.main_cpu_s,
            descendants_cpu_s_total=use.descendants_cpu_s,
            busiest_pid=use.busiest_pid,
            busiest_pct=use.busiest_pct,
            rss_bytes=use.rss_bytes,
            major_faults_total=use.major_faults,
            read_bytes_total=use.read_bytes,
            written_bytes_total=use.written_bytes,
            unreadable=use.unreadable or None,
            lost_rows=self._journal.lost_rows or None,
            **found,  # type: ignore[arg-type]
        )

    def _throttling(self) -> dict[str, object]:
        held = self._group.throttling()
        if held is None:
            return {}
        return {
            "throttle_periods_total": held.periods,
            "throttled_total": held.throttled,
            "throttled_s_total": round(held.throttled_s, 3),
        }

    def _dear(self, t: float) -> dict[str, object]:
        name, pct = self._threads.finish(t)
        return {
            "busiest_thread": name,
            "busiest_thread_pid": self._threads.pid,
            "busiest_thread_pct": pct,
            "cgroup_memory_bytes": self._group.memory_used_bytes(),
        }

    def _rare(self) -> dict[str, object]:
        """Affinity may change while the run goes on."""
        self._cores = read_cores(self._task.root.pid, self._group)
        cpu = os.times()
        return {
            **self._machine.rare(),
            "cores_allowed": self._cores.allowed,
            "watcher_cpu_s": round(cpu.user + cpu.system, 2),
        }

    def _tell_isolated(self, stats: list[Stat]) -> None:
        """Looked at twice, since the first look may fall between fork and exec."""
        for stat in stats:
            if stat.identity in self._examined:
                continue
            flags = isolating_flags(procfs.read(f"/proc/{stat.pid}/cmdline") or b"")
            if flags:
                self._journal.append(to_row(IsolatedPython(stat.pid, flags)))
            age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.create_time
            if flags or age_s > 1.0:
                self._examined.add(stat.identity)

    def _tell_missing(self) -> None:
        for name, reason in self._machine.missing.items():
            if name not in self._told_missing:
                self._told_missing.add(name)
                self._journal.append(to_row(MissingField(name, reason)))


def watch(task: Assignment) -> None:
    journal = Journal(task.folder / "outside" / "host.jsonl")
    watch = Watch(task, journal)
    journal.append(to_row(watch.header()))
    due = time.monotonic()
    if not watch.look():
        watch.finish(watch.end_reason)
        return
    # After the first row: a driver that nobody has woken yet takes a second or two.
    gpus = start_gpu_watch(task.folder, task.run_id, task.gpu_interval_s)
    reason = _look_until_over(watch, gpus, due + watch.interval_s)
    if gpus is not None:
        gpus.look(watch.pids)
        gpus.finish(reason)
    watch.finish(reason)


def _look_until_over(watch: Watch, gpus: GpuWatch | None, due: float) -> str:
    """Why it is over."""
    while True:
        if gpus is not None:
            gpus.step(watch.pids)
        wake = due if gpus is None else min(due, gpus.due_s)
        if signal.sigtimedwait(_TOLD_TO_END, max(wake - time.monotonic(), 0.0)):
            watch.look()
            return "told to end"
        if time.monotonic() >= due:
            if not watch.look():
                return watch.end_reason
            due = max(due + watch.interval_s, time.monotonic())  # after a suspend, no rush to catch up


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="stoker.outside.watch")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--create-time", type=float, help="seconds after boot, see launch/procfs.py")
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--gpu-interval", type=float, default=INTERVAL_S)
    parser.add_argument("--attached", action="store_true", help="the process was there before: no marker")
    args = parser.parse_args(argv)
    # Stoker holds its own signals back while it waits, and we inherit that: fetch ours, let the rest through.
    signal.pthread_sigmask(signal.SIG_SETMASK, _TOLD_TO_END)
    os.nice(NICENESS)
    root = Identity(args.pid, args.create_time)
    if root.create_time is None:
        root = procfs.identify(args.pid) or root
    try:
        watch(Assignment(args.folder, args.run_id, root, args.interval, args.attached, args.gpu_interval))
    except OSError as error:  # the folder; what fails later only costs rows
        sys.stderr.write(f"error: the host cannot be recorded\n  seen: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
