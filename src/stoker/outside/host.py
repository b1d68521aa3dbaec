"""The machine as the kernel counts it: cores, memory, disks, network. Pure parsers of /proc text; a text that
is not understood gives None."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_SECTOR_BYTES = 512  # /proc/diskstats counts sectors of 512 bytes whatever the disk (kernel doc iostats.rst)
_PARTS_OF_DISKS = re.compile(
    r"^(loop|ram|zram|dm-|md)\d|^(sd|hd|vd|xvd)[a-z]+\d+$|^(nvme\d+n\d+|mmcblk\d+)p\d+$"
)


@dataclass(frozen=True, slots=True)
class CoreTicks:
    busy: int
    iowait: int
    total: int


@dataclass(frozen=True, slots=True)
class MachineStat:
    whole: CoreTicks
    cores: Mapping[int, CoreTicks]
    running: int | None
    blocked: int | None


def parse_stat(text: str) -> MachineStat | None:
    """`/proc/stat`."""
    whole: CoreTicks | None = None
    cores: dict[int, CoreTicks] = {}
    counts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu"):
            ticks = _core_ticks(rest)
            if ticks is None:
                continue
            if name == "cpu":
                whole = ticks
            elif name[3:].isdigit():
                cores[int(name[3:])] = ticks
        elif name in ("procs_running", "procs_blocked") and rest.strip().isdigit():
            counts[name] = int(rest)
    if whole is None:
        return None
    return MachineStat(whole, cores, counts.get("procs_running"), counts.get("procs_blocked"))


def _core_ticks(rest: str) -> CoreTicks | None:
    """user nice system idle iowait irq softirq steal …; guest time is in user already."""
    try:
        ticks = [int(value) for value in rest.split()[:8]]
    except ValueError:
        return None
    if len(ticks) < 5:
        return None
    idle, iowait = ticks[3], ticks[4]
    total = sum(ticks)
    return CoreTicks(total - idle - iowait, iowait, total)


def busy_pct(before: CoreTicks, after: CoreTicks) -> float | None:
    return _share(after.busy - before.busy, after.total - before.total)


def iowait_pct(before: CoreTicks, after: CoreTicks) -> float | None:
    return _share(after.iowait - before.iowait, after.total - before.total)


def _share(part: int, whole: int) -> float | None:
    """iowait and idle may run backwards (proc(5)), hence the bounds."""
    return None if whole <= 0 else round(min(max(100 * part / whole, 0.0), 100.0), 1)


@dataclass(frozen=True, slots=True)
class Memory:
    total_bytes: int | None
    available_bytes: int | None
    swap_used_bytes: int | None


def parse_meminfo(text: str) -> Memory:
    found = {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    swap, free = found.get("SwapTotal"), found.get("SwapFree")
    used = None if swap is None or free is None else swap - free
    return Memory(found.get("MemTotal"), found.get("MemAvailable"), used)


@dataclass(frozen=True, slots=True)
class Traffic:
    read_bytes: int
    """Read from disk, or received."""
    written_bytes: int


def parse_diskstats(text: str) -> Traffic | None:
    """Whole disks only: partitions and layers above them (LVM, RAID) count the same bytes again."""
    read = written = found = 0
    for line in text.splitlines():
        field = line.split()
        if len(field) < 10 or _PARTS_OF_DISKS.match(field[2]):
            continue
        if not (field[5].isdigit() and field[9].isdigit()):
            continue
        found += 1
        read += int(field[5]) * _SECTOR_BYTES
        written += int(field[9]) * _SECTOR_BYTES
    return Traffic(read, written) if found else None


def parse_net_dev(text: str) -> Traffic | None:
    """`/proc/net/dev`, without loopback."""
    received = sent = found = 0
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        field = rest.split()
        if not colon or name.strip() == "lo" or len(field) < 9:
            continue
        if not (field[0].isdigit() and field[8].isdigit()):
            continue
        found += 1
        received += int(field[0])
        sent += int(field[8])
    return Traffic(received, sent) if found else None


def parse_process_io(text: str) -> Traffic | None:
    """`/proc/<pid>/io`: bytes that really went to or from a disk, those of reaped children included."""
    found = dict(re.findall(r"^(\w+): (\d+)$", text, re.MULTILINE))
    if "read_bytes" not in found or "write_bytes" not in found:
        return None
    return Traffic(int(found["read_bytes"]), int(found["write_bytes"]))


def parse_loadavg(text: str) -> float | None:
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return None
