"""Reads the whole machine once per look; what cannot be read is noted once, with its reason."""

from __future__ import annotations

import os
from dataclasses import dataclass

from stoker.launch.failure import parse_oom_kills
from stoker.launch.procfs import read_text
from stoker.outside import cgroup, host, pressure
from stoker.outside.host import MachineStat

_SHM = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Cores:
    """What a process may use of the machine's cores."""

    machine: int | None
    affinity: frozenset[int]
    quota: float | None

    @property
    def allowed(self) -> float | None:
        limits = [float(limit) for limit in (len(self.affinity) or self.machine, self.quota) if limit]
        return min(limits) if limits else None


def read_cores(pid: int, group: cgroup.Cgroup) -> Cores:
    try:
        affinity = frozenset(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        affinity = frozenset()
    return Cores(os.cpu_count(), affinity, group.quota_cores)


class Machine:
    def __init__(self) -> None:
        self._before: MachineStat | None = None
        self.missing: dict[str, str] = {}
        """What cannot be measured here: name of the reading's field -> why."""

    def cpu(self, affinity: frozenset[int]) -> dict[str, object]:
        """Shares since the look before; the first look has none."""
        now = host.parse_stat(self._text("/proc/stat", "machine_cpu_pct"))
        before, self._before = self._before, now
        if now is None:
            return {}
        found: dict[str, object] = {"running": now.running, "blocked": now.blocked}
        if before is not None:
            found["machine_cpu_pct"] = host.busy_pct(before.whole, now.whole)
            found["iowait_pct"] = host.iowait_pct(before.whole, now.whole)
            found |= _over_cores(before, now, affinity)
        return found

    def memory(self) -> dict[str, object]:
        memory = host.parse_meminfo(self._text("/proc/meminfo", "memory_available_bytes"))
        return {
            "memory_available_bytes": memory.available_bytes,
            "swap_used_bytes": memory.swap_used_bytes,
            **self._shm(),
        }

    def _shm(self) -> dict[str, object]:
        try:
            room = os.statvfs(_SHM)
        except OSError as error:
            self.missing.setdefault("shm_used_bytes", f"{_SHM}: {error.strerror}")
            return {}
        return {
            "shm_total_bytes": room.f_blocks * room.f_frsize,
            "shm_used_bytes": (room.f_blocks - room.f_bfree) * room.f_frsize,
        }

    def traffic(self) -> dict[str, object]:
        disk = host.parse_diskstats(self._text("/proc/diskstats", "disk_read_bytes_total"))
        net = host.parse_net_dev(self._text("/proc/net/dev", "net_received_bytes_total"))
        found: dict[str, object] = {}
        if disk:
            found |= {
                "disk_read_bytes_total": disk.read_bytes,
                "disk_written_bytes_total": disk.written_bytes,
            }
        if net:
            found |= {"net_received_bytes_total": net.read_bytes, "net_sent_bytes_total": net.written_bytes}
        return found

    def pressure(self) -> dict[str, object]:
        cpu, io, memory = (
            pressure.parse(self._text(f"/proc/pressure/{name}", f"{name}_pressure_s_total"))
            for name in ("cpu", "io", "memory")
        )
        return {
            "cpu_pressure_s_total": cpu.some_s,
            "io_pressure_s_total": io.some_s,
            "io_full_pressure_s_total": io.full_s,
            "memory_pressure_s_total": memory.some_s,
            "memory_full_pressure_s_total": memory.full_s,
        }

    def rare(self) -> dict[str, object]:
        return {
            "load_1m": host.parse_loadavg(self._text("/proc/loadavg", "load_1m")),
            "oom_kills_total": parse_oom_kills(self._text("/proc/vmstat", "oom_kills_total")),
        }

    def _text(self, path: str, field: str) -> str:
        text = read_text(path)
        if text is None:
            self.missing.setdefault(field, f"{path} cannot be read")
        return text or ""


def _over_cores(before: MachineStat, now: MachineStat, affinity: frozenset[int]) -> dict[str, object]:
    """Only the cores the command may use: another job's hot core says nothing about ours."""
    wanted = affinity & now.cores.keys() or now.cores.keys()
    shares = {
        core: share
        for core in wanted
        if core in before.cores and (share := host.busy_pct(before.cores[core], now.cores[core])) is not None
    }
    if not shares:
        return {}
    hottest = max(shares, key=lambda core: shares[core])
    return {
        "hottest_core": hottest,
        "hottest_core_pct": shares[hottest],
        "allowed_cpu_pct": round(sum(shares.values()) / len(shares), 1),
    }
