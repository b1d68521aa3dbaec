"""SK501: somebody else computes on the same GPU."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, number
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Evidence, Finding, Fix, Severity

CODE, NAME = "SK501", "the GPU is shared"
_FIXES = (
    Fix("another card: CUDA_VISIBLE_DEVICES, or a queue that gives a card to one job"),
    Fix("meant to be shared: NVIDIA MPS lets small kernels of both run at once"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not gpu.shared:
        return None
    busy = number("the card reads {} % busy, of all together", gpu.busy_pct, "%", "nvml")
    return Finding(
        code=CODE,
        name=NAME,
        says="another process computes on this GPU: the two take turns",
        severity=Severity.WARNING,
        recoverable_frac=None,
        recoverable_of="GPU time of others",
        evidence=(Evidence(gpu.sharing, None, "", "nvml"), *([busy] if busy else [])),
        confirm="the same run on a card of its own",
        fixes=_FIXES,
        no_ceiling="how much of the time is the other's is not counted",
        in_code=False,
    )


CAUSE = Cause(CODE, NAME, find)
