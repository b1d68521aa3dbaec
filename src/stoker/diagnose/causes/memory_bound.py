"""SK409: the GPU moves memory: a chain of small operations, each of which reads and writes it all."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share, without_ceiling
from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.hot_line import neighbours
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    BROAD_FRAC,
    BUSY_FOR_BATCH_PCT,
    CHAIN_FRAC,
    DRAM_BOUND_PCT,
    TENSOR_RESTS_PCT,
)
from stoker.diagnose.places import LineShare
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK409", "bound by the GPU's memory"
_LAUNCHING = ("forward", "other", "infer", "loss")
_SAYS = "the GPU is busy reading and writing its memory; it computes little meanwhile"
_OF = "GPU real work"
_CONFIRM = "a short run under torch.compile: ticks/s rise where the chain can be fused"
_FIXES = (
    Fix(
        "let torch.compile make one kernel of the chain",
        "y = torch.tanh(x * a + b) * c",
        "chain = torch.compile(lambda x: torch.tanh(x * a + b) * c)\ny = chain(x)",
    ),
    Fix("bfloat16 for these tensors: half of the traffic (changes the last digits: check the result)"),
    Fix("fused versions where torch has them: fused optimizers, scaled_dot_product_attention, fused norms"),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not gpu.alone or (gpu.busy_pct or 0.0) < BUSY_FOR_BATCH_PCT:
        return None
    line = _line(found)
    place = line.place if line else None
    if _chained(gpu) and gpu.chains is not None:
        saved = gpu.chains.saved_frac * (gpu.busy_pct or 0.0) / 100
        return finding(CODE, NAME, _SAYS, saved, _OF, _evidence(gpu), _CONFIRM, _FIXES, place)
    if not _moves_memory(gpu):
        return None
    why = "how much of the traffic could be saved is not counted"
    return without_ceiling(CODE, NAME, _SAYS, _OF, why, _evidence(gpu), _CONFIRM, _FIXES, place)


def _evidence(gpu: GpuSignals) -> list[Evidence | None]:
    chained = gpu.chains if gpu.chains and gpu.chains.frac else None
    return [
        number("memory traffic {} %", gpu.dram_pct, "%", "gpm"),
        number("tensor cores at work {} %", gpu.tensor_pct, "%", "gpm"),
        number("{} % real work", gpu.real_work_pct, "%", gpu.real_work_source),
        share(
            "of kernel time is in chains of element by element operations",
            chained.frac if chained else None,
            "deep",
        ),
        number("{} operations to a chain", chained.links if chained else None, "kernels", "deep"),
    ]


def _chained(gpu: GpuSignals) -> bool:
    """By the order of the kernels in a deep window. Small kernels, too, come in chains; memory is the limit
    only of those that fill the card."""
    broad = gpu.real_work_pct is not None and gpu.real_work_pct >= BROAD_FRAC * (gpu.busy_pct or 0.0)
    return broad and gpu.chains is not None and gpu.chains.frac >= CHAIN_FRAC


def _moves_memory(gpu: GpuSignals) -> bool:
    """By the counters."""
    if gpu.dram_pct is None or gpu.tensor_pct is None:
        return False
    return gpu.dram_pct >= DRAM_BOUND_PCT and gpu.tensor_pct < TENSOR_RESTS_PCT


def _line(found: Signals) -> LineShare | None:
    """Many launches take the thread's time, too; what autograd makes of them has no line of its own."""
    own = [line for line in found.lines if line.phase in _LAUNCHING and line.place.leaf]
    groups = neighbours([line for line in own if not found.waits_for_gpu(line)])
    group = max(groups, key=lambda lines: sum(line.pct for line in lines), default=[])
    return max(group, key=lambda line: line.pct, default=None)


CAUSE = Cause(CODE, NAME, find)
