"""A device is used by one trial at a time: a lock between Stokers, and a look at who else is on it.

The lock is a file per GPU (by UUID, or `cpu`) in a folder of the user's own; the kernel lets it go when its
holder ends, however it ends. Other people's processes hold no lock: they are seen through the GPU's seam.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import DeviceInUse, UsageError
from stoker.launch import procfs
from stoker.model.gpu import bare_uuid
from stoker.outside.gpu.readings import CHOSEN_CLOCKS, throttle_names
from stoker.outside.gpu.seam import Facts, Gpus, Refused, Using, known

CPU = "cpu"
EMPTY_WITHIN_S = 30.0
CLEANED_WITHIN_S = 20.0
IN_USE_BYTES = 2 * 2**30
"""Held on a card: somebody is at work there, also where a container hides the processes of others."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """One look at a GPU before or after a trial."""

    index: int
    using: tuple[Using, ...] | None
    """Compute processes; None where the driver does not tell."""
    memory_used_bytes: int | None
    throttled_by: tuple[str, ...] = ()

    @property
    def in_use(self) -> bool:
        return bool(self.using) or (self.memory_used_bytes or 0) > IN_USE_BYTES


def lock_folder() -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "stoker" if base and os.path.isdir(base) else Path(f"/tmp/stoker-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise DeviceInUse("no lock can be taken", seen=f"{folder} belongs to somebody else")
    return folder


@contextmanager
def locked(device: str | None, folder: Path | None = None) -> Iterator[int]:
    """The lock's descriptor, for a process that is to hold it, too."""
    name = CPU if device is None else bare_uuid(device)
    path = (folder or lock_folder()) / f"{name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, name: str) -> None:
    until = time.monotonic() + CLEANED_WITHIN_S
    while not _taken(descriptor):
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        if not _is_gone(holder) or time.monotonic() > until:
            raise DeviceInUse(
                f"another Stoker is measuring on {'the CPU' if name == CPU else f'GPU {name}'}",
                seen=f"its process is {holder or 'unknown'}",
                hint="wait for it: two at once would each measure the other"
                + ("" if name == CPU else "; or choose another GPU with CUDA_VISIBLE_DEVICES"),
            )
        time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _is_gone(holder: str) -> bool:
    """A Stoker that was killed: what is left of its trial is being ended, and then the lock is free."""
    return holder.isdecimal() and procfs.identify(int(holder)) is None


def look(gpus: Gpus, device: str) -> DeviceState:
    index = _index(gpus, device)
    answers = gpus.ask(index, dear=True)
    bits = known(answers.throttle_bits)
    names = throttle_names(bits) if bits else ()
    return DeviceState(
        index,
        known(answers.processes),
        known(answers.memory_used_bytes),
        tuple(name for name in names if name not in CHOSEN_CLOCKS),
    )


def _index(gpus: Gpus, device: str) -> int:
    uuids = [
        bare_uuid(facts.uuid) if isinstance(facts, Facts) and not isinstance(facts.uuid, Refused) else ""
        for facts in gpus.describe().devices
    ]
    if bare_uuid(device) not in uuids:
        there = ", ".join(uuid for uuid in uuids if uuid) or "none"
        raise UsageError(f"there is no GPU {device}", seen=f"GPUs here: {there}", hint="stoker doctor")
    return uuids.index(bare_uuid(device))


def check_free(state: DeviceState, device: str, *, share: bool) -> list[str]:
    """Notes for the result; an error where somebody else is at work and sharing was not asked for."""
    notes = [f"the GPU is slowed down before the trial: {', '.join(state.throttled_by)}"] * bool(
        state.throttled_by
    )
    if not state.in_use:
        return notes
    pids = ", ".join(str(using.pid) for using in state.using or ()) or "not told by the driver"
    if not share:
        raise DeviceInUse(
            f"somebody else uses GPU {device}",
            seen=f"processes: {pids}; memory in use: {(state.memory_used_bytes or 0) / 2**30:.1f} GiB",
            hint="wait for it, choose another GPU with CUDA_VISIBLE_DEVICES, or insist with --share",
        )
    return [*notes, f"the GPU is shared with others (processes: {pids})"]


def wait_until_as_before(
    gpus: Gpus,
    device: str,
    before: DeviceState,
    *,
    limit_s: float = EMPTY_WITHIN_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[str]:
    """After a trial: nobody is on the GPU who was not there before it. Notes where that does not come."""
    pids_before = {using.pid for using in before.using or ()}
    until = clock() + limit_s
    while True:
        now = look(gpus, device)
        left = [using.pid for using in now.using or () if using.pid not in pids_before]
        if not left:
            return []
        if clock() >= until:
            return [f"still on the GPU after the trial: process {', '.join(map(str, left))}"]
        pause(0.2)
