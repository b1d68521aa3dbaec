"""A device belongs to one Stoker at a time, for a whole comparison: a file per GPU (by UUID, or `cpu`) in a
folder of the user's own, locked.

The kernel lets a lock go when its holder ends, however it ends. The file says who holds it. While a trial
runs its guardian holds the lock, too: after a kill -9 nobody gets the device before the trial is gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import DeviceInUse
from stoker.launch import procfs
from stoker.model.gpu import bare_uuid

CPU = "cpu"
CLEANED_WITHIN_S = 20.0
_SAID_MAX_BYTES = 1000


@dataclass(frozen=True, slots=True)
class Holder:
    """What a lock file says of who holds it."""

    pid: int | None
    what: str

    @property
    def is_gone(self) -> bool:
        """A Stoker that was killed: what is left of its trial is being ended, and then the lock is free."""
        return self.pid is not None and procfs.identify(self.pid) is None

    def __str__(self) -> str:
        process = f"process {self.pid}" if self.pid is not None else "an unknown process"
        return f"{process}, {self.what}" if self.what else process


def lock_folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "stoker" if base and os.path.isdir(base) else Path(f"/tmp/stoker-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise DeviceInUse("no lock can be taken", seen=f"{folder} belongs to somebody else")
    return folder


@contextmanager
def all_locked(
    devices: Iterable[str], what: str = "", folder: Path | None = None
) -> Iterator[tuple[int, ...]]:
    """The GPUs with these UUIDs; the CPU where there is none. Always in the same order, so that two Stokers
    never wait for each other. `what` is told to whoever wants one of them meanwhile."""
    wanted: list[str | None] = [*sorted(set(devices))] or [None]
    with ExitStack() as held:
        yield tuple(held.enter_context(locked(device, what, folder)) for device in wanted)


@contextmanager
def locked(device: str | None, what: str = "", folder: Path | None = None) -> Iterator[int]:
    """The lock's descriptor, for a process that is to hold it, too."""
    name = CPU if device is None else bare_uuid(device)
    path = (folder or lock_folder()) / f"{name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, name)
        _sign(descriptor, what)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, name: str) -> None:
    """At once or not at all; only what a killed Stoker left is waited for."""
    until = time.monotonic() + CLEANED_WITHIN_S
    while not _taken(descriptor):
        holder = _holder(descriptor)
        if not holder.is_gone or time.monotonic() > until:
            raise DeviceInUse(
                f"another Stoker is measuring on {'the CPU' if name == CPU else f'GPU {name}'}",
                seen=str(holder),
                hint="wait for it: two at once would each measure the other"
                + ("" if name == CPU else "; or choose another GPU with CUDA_VISIBLE_DEVICES"),
            )
        time.sleep(0.1)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _sign(descriptor: int, what: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n{what}".encode(errors="replace")[:_SAID_MAX_BYTES], 0)


def _holder(descriptor: int) -> Holder:
    said = os.pread(descriptor, _SAID_MAX_BYTES, 0).decode("utf-8", "replace")
    pid, _, what = said.partition("\n")
    return Holder(int(pid) if pid.isdecimal() else None, " ".join(what.split()))
