"""The kernel's overlay over every folder a trial could write to. Runs in the child, before the command.

Layers are named by open descriptors: a path with a colon or a comma would break the mount's options. They
are opened after the mount namespace is entered; descriptors of the old one cannot be used in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from stoker.trials.guard import kernel
from stoker.trials.guard.mounts import (
    folders_to_cover,
    is_below,
    mounts_below,
    parse_mountinfo,
    without_mounts_below,
)
from stoker.trials.guard.plan import GuardPlan

_SOCKETS_MAX = 200


class Overlay:
    def __init__(self, plan: GuardPlan) -> None:
        self._plan = plan
        self._options = ""

    def enter(self) -> None:
        in_user_namespace = kernel.enter_namespaces()
        # Without privilege the marks of an overlay are user.* attributes, and a folder cannot be renamed.
        self._options = "userxattr" if in_user_namespace else "redirect_dir=on"
        mounted = parse_mountinfo(_read("/proc/self/mountinfo"))
        covered = folders_to_cover(self._plan.shadow, _folders_in, mounted, root=os.getuid() == 0)
        if in_user_namespace:
            covered = without_mounts_below(covered, _folders_in, mounted)
        through = _opened(filter(os.path.isdir, self._plan.through))
        sockets = _opened(_socket_folders("/tmp"))
        reachable = {
            mount.path: mount for mount in mounts_below(covered, mounted) if os.path.exists(mount.path)
        }
        below = _opened(reachable)
        for folder in filter(_is_open_to_us, covered):
            with _unless_gone(folder):
                lower = os.open(folder, os.O_PATH)
                try:
                    self._cover(folder, lower)
                finally:
                    os.close(lower)
        for path, descriptor in below.items():
            with _unless_gone(path):
                if reachable[path].holds_files and os.path.isdir(_named(descriptor)):
                    self._cover(path, descriptor)
                else:
                    _show(path, descriptor)
        for path, descriptor in sockets.items():
            with _unless_gone(path):
                _show(path, descriptor)
        for path, descriptor in through.items():
            _show(path, descriptor)
        for descriptor in (*through.values(), *sockets.values(), *below.values()):
            os.close(descriptor)

    def _cover(self, folder: str, lower: int) -> None:
        layer = layer_folder(self._plan.shadow, folder)
        upper, work = os.path.join(layer, "upper"), os.path.join(layer, "work")
        for part in (upper, work):
            os.makedirs(part, exist_ok=True)
        with open(os.path.join(layer, "of"), "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(folder)
        self._hide(folder, upper)
        _like(folder, upper)
        names = {
            "lowerdir": lower,
            "upperdir": os.open(upper, os.O_PATH),
            "workdir": os.open(work, os.O_PATH),
        }
        options = ",".join(f"{key}={_named(descriptor)}" for key, descriptor in names.items())
        try:
            kernel.mount("stoker", folder, "overlay", 0, f"{options},{self._options}")
        finally:
            for descriptor in (names["upperdir"], names["workdir"]):
                os.close(descriptor)

    def _hide(self, folder: str, upper: str) -> None:
        """A whiteout in the upper layer: to the trial the path was never there."""
        for path in self._plan.hidden:
            if path == folder or not is_below(path, [folder]) or _has_mount_between(path, folder):
                continue
            target = os.path.join(upper, os.path.relpath(path, folder))
            _make_parents(folder, upper, os.path.dirname(os.path.relpath(path, folder)))
            with contextlib.suppress(FileExistsError):
                os.mknod(target, stat.S_IFCHR, os.makedev(0, 0))


def _opened(paths: Iterable[str]) -> dict[str, int]:
    found = {}
    for path in paths:
        with _unless_gone(path):
            found[path] = os.open(path, os.O_PATH)
    return found


def _show(path: str, descriptor: int) -> None:
    """What was there before the overlays."""
    kernel.mount(_named(descriptor), path, "", kernel.MS_BIND | kernel.MS_REC)


@contextlib.contextmanager
def _unless_gone(path: str) -> Iterator[None]:
    """Other programs remove their temporary folders at any moment; what is gone cannot be written to."""
    try:
        yield
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


def _is_open_to_us(folder: str) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def layer_folder(shadow: str, folder: str) -> str:
    """The same for a command that comes before the trial and for the trial: it sees what that wrote."""
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return os.path.join(shadow, "layers", name)


def _make_parents(folder: str, upper: str, relative: str) -> None:
    done = ""
    for part in relative.split("/") if relative else ():
        done = os.path.join(done, part)
        target = os.path.join(upper, done)
        if not os.path.isdir(target):
            os.mkdir(target)
            _like(os.path.join(folder, done), target)


def _like(model: str, folder: str) -> None:
    """The upper folder's mode and owner are the ones seen."""
    found = os.stat(model)
    with contextlib.suppress(OSError):
        os.chown(folder, found.st_uid, found.st_gid)
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IMODE(found.st_mode))


def _has_mount_between(path: str, folder: str) -> bool:
    """It then belongs to the overlay of that mount."""
    here = os.path.dirname(path)
    while here != folder:
        if os.path.ismount(here):
            return True
        here = os.path.dirname(here)
    return False


def _named(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        return stream.read()


def _folders_in(folder: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


def _socket_folders(folder: str) -> list[str]:
    """A socket somebody listens on cannot be reached through an overlay (X11, MPS, an agent of ssh)."""
    found = []
    for name in _folders_in(folder)[:_SOCKETS_MAX]:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            if any(stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) for entry in entries):
                found.append(path)
    return found
