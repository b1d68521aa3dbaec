"""What the control group of a process allows it, and how often it was held back. Version 1, version 2 and the
mixed layout; where the limits stand on a group further up, the tightest one counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from stoker.launch.procfs import read_text

_UNLIMITED_BYTES = 1 << 60  # version 1 writes a number near 2^63 for "no limit"


@dataclass(frozen=True, slots=True)
class Place:
    """Folders of the group and of its parents up to the mount, innermost first."""

    version: int
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mount:
    root: str
    point: str
    version: int
    controllers: frozenset[str]


def parse_mounts(mountinfo: str) -> list[Mount]:
    """cgroup file systems in `/proc/<pid>/mountinfo`."""
    mounts = []
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        field, tail = left.split(), right.split()
        if not dash or len(field) < 5 or not tail or tail[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if tail[0] == "cgroup2" else 1
        options = frozenset(tail[-1].split(",")) if version == 1 else frozenset()
        mounts.append(Mount(_unescape(field[3]), _unescape(field[4]), version, options))
    return mounts


def _unescape(path: str) -> str:
    return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), path)


def parse_membership(text: str) -> dict[str, str]:
    """`/proc/<pid>/cgroup`: controller -> path; the path of version 2 stands under ''."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and path.startswith("/"):
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def place_of(controller: str, membership: str, mountinfo: str) -> Place | None:
    """Version 1 where it has the controller (the mixed layout leaves version 2 without), else version 2."""
    paths = parse_membership(membership)
    mounts = parse_mounts(mountinfo)
    for mount in mounts:
        if mount.version == 1 and controller in mount.controllers and controller in paths:
            return Place(1, tuple(_folders(mount, paths[controller])))
    for mount in mounts:
        if mount.version == 2 and "" in paths and controller not in paths:
            return Place(2, tuple(_folders(mount, paths[""])))
    return None


def _folders(mount: Mount, path: str) -> Iterator[str]:
    """In a container the mount shows a part of the tree only: a path outside it is the mount itself."""
    try:
        inner = PurePosixPath(path).relative_to(mount.root)
    except ValueError:
        inner = PurePosixPath(".") if mount.root != "/" else PurePosixPath(path.lstrip("/"))
    if ".." in inner.parts:
        inner = PurePosixPath(".")
    for folder in (inner, *inner.parents):
        yield str(PurePosixPath(mount.point) / folder)


def parse_quota_v2(cpu_max: str) -> float | None:
    """`cpu.max`: cores, None without a limit."""
    return _cores(cpu_max.split())


def parse_quota_v1(quota_us: str, period_us: str) -> float | None:
    return _cores([*quota_us.split(), *period_us.split()])


def _cores(words: list[str]) -> float | None:
    try:
        quota, period = (int(word) for word in words)
    except ValueError:  # "max", or no such file
        return None
    return quota / period if quota > 0 and period > 0 else None


@dataclass(frozen=True, slots=True)
class Throttling:
    periods: int
    throttled: int
    throttled_s: float


def parse_throttling(cpu_stat: str) -> Throttling | None:
    """`cpu.stat`: version 1 counts nanoseconds, version 2 microseconds."""
    found = {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", cpu_stat, re.MULTILINE)}
    if "nr_periods" not in found or "nr_throttled" not in found:
        return None
    if "throttled_usec" in found:
        held_s = found["throttled_usec"] / 1e6
    else:
        held_s = found.get("throttled_time", 0) / 1e9
    return Throttling(found["nr_periods"], found["nr_throttled"], held_s)


def parse_bytes(text: str) -> int | None:
    word = text.strip()
    return int(word) if word.isdigit() and int(word) < _UNLIMITED_BYTES else None


@dataclass(frozen=True, slots=True)
class Cgroup:
    """What is worth reading for one process; the folders are found once."""

    version: int | None
    cpu_folder: str | None
    """The one with the tightest quota."""
    quota_cores: float | None
    memory_folder: str | None
    memory_limit_bytes: int | None

    def throttling(self) -> Throttling | None:
        return None if self.cpu_folder is None else parse_throttling(_text(self.cpu_folder, "cpu.stat"))

    def memory_used_bytes(self) -> int | None:
        if self.memory_folder is None:
            return None
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return parse_bytes(_text(self.memory_folder, name))


NO_CGROUP = Cgroup(None, None, None, None, None)


def find(pid: int) -> Cgroup:
    membership = read_text(f"/proc/{pid}/cgroup") or ""
    mountinfo = read_text(f"/proc/{pid}/mountinfo") or ""
    cpu = place_of("cpu", membership, mountinfo)
    memory = place_of("memory", membership, mountinfo)
    if cpu is None and memory is None:
        return NO_CGROUP
    cpu_folder, quota = _tightest_cpu(cpu)
    memory_folder, limit = _tightest_memory(memory)
    version = memory.version if memory else cpu.version if cpu else None
    return Cgroup(version, cpu_folder, quota, memory_folder, limit)


def _tightest_cpu(place: Place | None) -> tuple[str | None, float | None]:
    if place is None:
        return None, None
    quotas = [(quota, folder) for folder in place.folders if (quota := _quota(place.version, folder))]
    if not quotas:
        return None, None
    quota, folder = min(quotas)
    return folder, quota


def _quota(version: int, folder: str) -> float | None:
    if version == 2:
        return parse_quota_v2(_text(folder, "cpu.max"))
    return parse_quota_v1(_text(folder, "cpu.cfs_quota_us"), _text(folder, "cpu.cfs_period_us"))


def _tightest_memory(place: Place | None) -> tuple[str | None, int | None]:
    if place is None:
        return None, None
    name = "memory.max" if place.version == 2 else "memory.limit_in_bytes"
    limits = [
        (limit, folder) for folder in place.folders if (limit := parse_bytes(_text(folder, name))) is not None
    ]
    if not limits:
        return None, None
    limit, folder = min(limits)
    return folder, limit


def _text(folder: str, name: str) -> str:
    return read_text(f"{folder}/{name}") or ""
