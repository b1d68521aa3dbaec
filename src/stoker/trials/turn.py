"""A GPU is used by one trial at a time: a look at who is on it before and after. Other Stokers are kept off
by `device_lock`; other people's processes hold no lock and are seen through the GPU's seam."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from stoker.errors import DeviceInUse, UsageError
from stoker.model.gpu import bare_uuid
from stoker.outside.gpu.readings import CHOSEN_CLOCKS, throttle_names
from stoker.outside.gpu.seam import Facts, Gpus, Refused, Using, known

EMPTY_WITHIN_S = 30.0
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
            f"somebody else uses {device}",
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
