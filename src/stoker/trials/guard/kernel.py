"""The few kernel calls the guard needs: namespaces, mounts, Landlock. Linux only; each raises OSError.

The child calls them between its start and the user's command, so this module imports next to nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET = 444  # the same on every architecture since 5.13
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_RULE_PATH_BENEATH = 1

# Rights of include/uapi/linux/landlock.h that change files. Reading and executing stay free.
_WRITE_FILE = 1 << 1
_DIRECTORY_RIGHTS = sum(1 << bit for bit in range(4, 13))  # remove and make, of every kind
_REFER = 1 << 13  # since ABI 2
_TRUNCATE = 1 << 14  # since ABI 3


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    _check(_libc().unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    _check(
        _libc().mount(*words, ctypes.c_ulong(flags), os.fsencode(options) if options else None),
        f"mount {kind or 'bind'} on {target}",
    )


def enter_namespaces() -> bool:
    """Mounts of our own; True where that took a user namespace, too. PIDs stay as they are."""
    try:
        unshare(CLONE_NEWNS)
        _make_private()
        return False
    except PermissionError:
        pass
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    _write_map(uid, gid)
    _make_private()
    return True


def _make_private() -> None:
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def _write_map(uid: int, gid: int) -> None:
    """We stay who we are; the groups we had stay ours, under the name of nobody."""
    with open("/proc/self/setgroups", "w", encoding="ascii") as stream:
        stream.write("deny")
    for name, number in (("uid_map", uid), ("gid_map", gid)):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as stream:
            stream.write(f"{number} {number} 1")


def landlock_version() -> int:
    """0 where the kernel has none, or this process may not use it."""
    return max(0, int(_libc().syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)))


def allow_writes_only_below(folders: Iterable[str]) -> None:
    """From now on, for this process and all it starts; it cannot be undone."""
    rights = _rights(landlock_version())
    libc = _libc()
    attributes = struct.pack("Q", rights)
    ruleset = _check(
        libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0), "landlock"
    )
    try:
        for folder in folders:
            _allow(libc, ruleset, folder, rights)
        _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
        _check(libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0), "landlock")
    finally:
        os.close(ruleset)


def _rights(version: int) -> int:
    rights = _WRITE_FILE | _DIRECTORY_RIGHTS
    rights |= _REFER if version >= 2 else 0
    return rights | (_TRUNCATE if version >= 3 else 0)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not there: nothing to allow
        return
    try:
        if not os.path.isdir(path):
            rights &= _WRITE_FILE | _TRUNCATE
        rule = struct.pack("=Qi", rights, descriptor)
        _check(libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), f"landlock on {path}")
    finally:
        os.close(descriptor)
