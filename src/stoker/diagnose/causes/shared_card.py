"""SK501: somebody else computes on the same GPU."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, number, without_ceiling
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK501", "the GPU is shared"
_FIXES = (
    Fix("another card: CUDA_VISIBLE_DEVICES, or a queue that gives a card to one job"),
    Fix("meant to be shared: NVIDIA MPS lets small kernels of both run at once"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not gpu.shared:
        return None
    return without_ceiling(
        CODE,
        NAME,
        "another process computes on this GPU: the two take turns",
        "GPU time of others",
        "how much of the time is the other's is not counted",
        [
            Evidence(gpu.sharing, None, "", "nvml"),
            number("the card reads {} % busy, of all together", gpu.busy_pct, "%", "nvml"),
        ],
        "the same run on a card of its own",
        _FIXES,
        in_code=False,
    )


CAUSE = Cause(CODE, NAME, find)
