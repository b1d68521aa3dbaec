"""Which folders of this machine an overlay has to cover, and what must stay as it is. Pure, from mountinfo.

Covered: every folder of "/" and every disk below, except the way down to the shadow folder itself, since an
overlay whose upper folder lies inside its lower one is refused by the kernel (ELOOP, 6.18, 2026-11). So new
files directly in "/", or directly in the temporary folder the shadow lies in, are not caught.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

NOT_FILES = ("/proc", "/sys", "/dev", "/run")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/boot", "/etc")
_PSEUDO = {
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "hugetlbfs", "debugfs", "tracefs",
    "securityfs", "pstore", "bpf", "configfs", "fusectl", "nsfs", "autofs", "binfmt_misc", "efivarfs",
}  # fmt: skip
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mounted:
    path: str
    kind: str
    read_only: bool

    @property
    def holds_files(self) -> bool:
        """Somewhere a user may write."""
        return self.kind not in _PSEUDO and not self.read_only and not is_below(self.path, NOT_FILES)


def parse_mountinfo(text: str) -> list[Mounted]:
    """In the order they were mounted; of several on one path the last is the one seen."""
    found: dict[str, Mounted] = {}
    for line in text.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 6 or not right.split():
            continue
        path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        found.pop(path, None)
        found[path] = Mounted(path, right.split()[0], "ro" in fields[5].split(","))
    return list(found.values())


def is_below(path: str, folders: Iterable[str]) -> bool:
    """The folder itself counts."""
    return any(folder == "/" or path == folder or path.startswith(folder + "/") for folder in folders)


def folders_to_cover(
    shadow: str, folders_in: Callable[[str], Iterable[str]], mounted: Iterable[Mounted], *, root: bool
) -> list[str]:
    """Beside the way down to the shadow: its brothers, its parents' brothers, and so on."""
    pseudo = [mount.path for mount in mounted if not mount.holds_files and mount.path != "/"]
    left_out = [*NOT_FILES, *pseudo, *(() if root else _SYSTEM)]
    found, here = [], "/"
    for part in shadow.strip("/").split("/"):
        beside = sorted(name for name in folders_in(here) if name != part)
        found += [os.path.join(here, name) for name in beside]
        here = os.path.join(here, part)
    return [path for path in found if not is_below(path, left_out)]


def without_mounts_below(
    folders: Iterable[str], folders_in: Callable[[str], Iterable[str]], mounted: Iterable[Mounted]
) -> list[str]:
    """In a user namespace a folder that holds another mount cannot be a layer (EINVAL: the mounts are locked
    together), so what lies beside that mount is covered one by one; new files directly in it are not."""
    mounted = list(mounted)
    special = {mount.path for mount in mounted if not mount.holds_files}
    found: list[str] = []
    for folder in folders:
        if folder in special:
            continue
        if not mounts_below([folder], mounted):
            found.append(folder)
            continue
        inner = [os.path.join(folder, name) for name in sorted(folders_in(folder))]
        found += without_mounts_below(inner, folders_in, mounted)
    return found


def mounts_below(folders: Iterable[str], mounted: Iterable[Mounted]) -> list[Mounted]:
    """Hidden by an overlay over a folder above them: they have to be put back, outer ones first."""
    folders = list(folders)
    below = [mount for mount in mounted if is_below(mount.path, folders) and mount.path not in folders]
    return sorted(below, key=lambda mount: mount.path.count("/"))
