"""Follows the processes of one run from look to look, cheaply: only PIDs never seen before are examined."""

from __future__ import annotations

import os
from dataclasses import dataclass

from stoker.launch import procfs, tree
from stoker.launch.procfs import Identity, Stat
from stoker.outside import host
from stoker.outside.ledger import Account, Ledger

_LOOK_AT_ALL_EVERY = 60
"""Looks between two full scans, which heal what a re-used PID or a race may have hidden."""


class Follower:
    def __init__(self, run_id: str, root: Identity) -> None:
        self._root = root
        self._marker = tree.marker_text(run_id) if run_id else None
        self._known: dict[int, Stat] = {}
        self._examined: set[int] = set()
        self._looks = 0
        self.blind = False
        """/proc cannot be read, so that nobody seen does not mean nobody there."""

    def look(self) -> list[Stat]:
        """All processes of the run now, parents first; zombies too, whose account is not yet passed on."""
        if self._looks % _LOOK_AT_ALL_EVERY == 0:
            self._examined.clear()
        self._looks += 1
        listed = procfs.list_pids()
        self.blind = listed is None
        pids = set(listed or ())
        known = self._read_known(pids)
        table = dict(known)
        marked = set()
        for pid in pids - self._examined - known.keys():
            stat = procfs.read_stat(pid)
            if stat is None or stat.kernel_thread:
                continue
            table[pid] = stat
            if self._marker and procfs.carries(pid, self._marker):
                marked.add(pid)
        self._examined = pids
        chosen = tree.select(table, self._root, marked | known.keys(), {os.getpid()})
        self._known = {stat.pid: stat for stat in chosen}
        return chosen

    def _read_known(self, pids: set[int]) -> dict[int, Stat]:
        """Parents first, as the ledger needs it."""
        found = {}
        for pid, before in self._known.items():
            stat = procfs.read_stat(pid) if pid in pids else None
            if stat is not None and stat.identity == before.identity:
                found[pid] = stat
            elif stat is not None:
                self._examined.discard(pid)  # the PID has a new owner
        return found


@dataclass(frozen=True, slots=True)
class TreeUse:
    """What the tree has used so far, and holds now."""

    processes: int
    threads: int
    cpu_s: float
    main_cpu_s: float | None
    descendants_cpu_s: float | None
    busiest_pid: int | None
    busiest_pct: float | None
    rss_bytes: int
    major_faults: int
    read_bytes: int | None
    written_bytes: int | None
    unreadable: int


class Bookkeeper:
    """Keeps the sums over the tree from look to look."""

    def __init__(self, root: Identity, *, attached: bool) -> None:
        self._root = root
        self._past_counts = not attached
        self._cpu, self._faults, self._read, self._written = Ledger(), Ledger(), Ledger(), Ledger()
        self._main_cpu_s = 0.0
        self._cpu_before: dict[Identity, float] = {}
        self._t_before: float | None = None

    def update(self, stats: list[Stat], t: float) -> TreeUse:
        cpu_s = self._cpu.update(map(_cpu, stats), past_counts=self._past_counts)
        faults = self._faults.update(map(_faults, stats), past_counts=self._past_counts)
        read, written, unreadable = self._disk(stats)
        self._count_main(stats)
        alive = [stat for stat in stats if not stat.dead]
        pid, pct = self._busiest(alive, t)
        self._cpu_before = {stat.identity: stat.cpu_s for stat in stats}
        self._t_before = t
        self._past_counts = True
        return TreeUse(
            processes=len(alive),
            threads=sum(stat.threads for stat in alive),
            cpu_s=round(cpu_s, 2),
            main_cpu_s=round(self._main_cpu_s, 2),
            descendants_cpu_s=round(max(cpu_s - self._main_cpu_s, 0.0), 2),
            busiest_pid=pid,
            busiest_pct=pct,
            rss_bytes=sum(stat.rss_bytes for stat in alive),
            major_faults=int(faults),
            read_bytes=read,
            written_bytes=written,
            unreadable=unreadable,
        )

    def _count_main(self, stats: list[Stat]) -> None:
        for stat in stats:
            if stat.identity == self._root:
                before = self._cpu_before.get(self._root, 0.0 if self._past_counts else stat.cpu_s)
                self._main_cpu_s += max(stat.cpu_s - before, 0.0)

    def _busiest(self, stats: list[Stat], t: float) -> tuple[int | None, float | None]:
        if self._t_before is None or t <= self._t_before:
            return None, None
        grown = [(stat.cpu_s - self._cpu_before.get(stat.identity, 0.0), stat.pid) for stat in stats]
        if not grown:
            return None, None
        cpu_s, pid = max(grown)
        return pid, round(100 * cpu_s / (t - self._t_before), 1)

    def _disk(self, stats: list[Stat]) -> tuple[int | None, int | None, int]:
        readable = []
        for stat in stats:
            traffic = host.parse_process_io(procfs.read_text(f"/proc/{stat.pid}/io") or "")
            if traffic is not None:
                readable.append((stat, traffic))
        if stats and not readable:
            return None, None, len(stats)
        read = [Account(stat.identity, stat.parent_pid, 0, traffic.read_bytes) for stat, traffic in readable]
        written = [
            Account(stat.identity, stat.parent_pid, 0, traffic.written_bytes) for stat, traffic in readable
        ]
        counts = self._past_counts
        return (
            int(self._read.update(read, past_counts=counts)),
            int(self._written.update(written, past_counts=counts)),
            len(stats) - len(readable),
        )


def _cpu(stat: Stat) -> Account:
    return Account(stat.identity, stat.parent_pid, stat.cpu_s, stat.reaped_cpu_s)


def _faults(stat: Stat) -> Account:
    return Account(stat.identity, stat.parent_pid, stat.major_faults, stat.reaped_major_faults)


class ThreadTimes:
    """CPU of single threads of one process, from `begin` to `finish`."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._t = 0.0
        self._before: dict[int, float] = {}

    def begin(self, pid: int | None, t: float) -> None:
        self.pid, self._t = pid, t
        self._before = {} if pid is None else {thread: stat.cpu_s for thread, stat in _threads(pid).items()}

    def finish(self, t: float) -> tuple[str | None, float | None]:
        """Name and share of a core of the busiest; nothing where the process is gone."""
        now = {} if self.pid is None or t <= self._t else _threads(self.pid)
        grown = [(stat.cpu_s - self._before.get(thread, 0.0), stat.name) for thread, stat in now.items()]
        if not grown or not self._before:
            return None, None
        cpu_s, name = max(grown)
        return name, round(100 * max(cpu_s, 0.0) / (t - self._t), 1)


def _threads(pid: int) -> dict[int, Stat]:
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    read = (procfs.read_text(f"/proc/{pid}/task/{name}/stat") for name in names)
    return {stat.pid: stat for text in read if text and (stat := procfs.parse_stat(text))}
