"""SK403: copies to the GPU that hold up the training thread: from pageable memory, or not `non_blocking`."""

from __future__ import annotations

from stoker.diagnose.causes.cause import NO_KERNEL, Cause, finding, number, share
from stoker.diagnose.causes.model_on_cpu import split
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK403", "blocking copies to the GPU"
_FIXES = (
    Fix(
        "page-locked memory, and copies that do not wait",
        "loader = DataLoader(dataset)\nx = x.to(device)",
        "loader = DataLoader(dataset, pin_memory=True)\nx = x.to(device, non_blocking=True)",
    ),
    Fix("copy less: uint8 images, made float and normalised on the GPU"),
    Fix("what is used again and again stays on the GPU"),
)


def find(found: Signals) -> Finding | None:
    if found.gpu is None or split(found):
        return None
    copies = [line for line in found.blocking if line.phase == "h2d"]
    line = max(copies, key=lambda one: one.pct, default=None)
    lost = copies_lost(found)
    return finding(
        CODE,
        NAME,
        f"copies to the GPU hold up the training{_pinned(found)}",
        lost,
        NO_KERNEL,
        [
            share("of the window the GPU idles or only copies meanwhile", lost, found.gpu.source),
            share("of the thread's time is copying", found.host_pct["h2d"] / 100 or None, "host clock"),
            share("of its time is copying inside of torch", _inside(found), "deep"),
            number("{} copies a tick by this line", line.per_tick if line else None, "1/tick", "host clock"),
        ],
        "pin_memory=True with non_blocking=True: the copies' share falls to about nothing",
        _FIXES,
        line.place if line else None,
        found.loader.loader.made if found.loader and not found.loader.loader.pin_memory else None,
    )


def copies_lost(found: Signals) -> float:
    """No kernel runs meanwhile; whether the counters call it busy, since the copy engine works, or idle. A
    deep window calls it copying, too, while the host moves the parts of a copy from pageable memory."""
    copying_pct = found.gpu.copying_pct if found.gpu else 0.0
    working_pct = (found.gpu.real_work_pct if found.gpu else None) or 0.0
    idle = found.lost("h2d")
    beside = min(copying_pct / 100, max(0.0, found.host_pct["h2d"] / 100 - idle))
    return min(1 - working_pct / 100, idle + beside + sum(found.hidden_copies_pct().values()) / 100)


def _inside(found: Signals) -> float | None:
    """`torch.as_tensor(batch, device="cuda")`"""
    return sum(one.pct for one in found.blocking if one.phase == "h2d" and one.inside) / 100 or None


def _pinned(found: Signals) -> str:
    if found.loader is None:
        return ""
    return " though the loader pins its memory" if found.loader.loader.pin_memory else " (pin_memory=False)"


CAUSE = Cause(CODE, NAME, find)
