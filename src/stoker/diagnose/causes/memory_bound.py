"""SK409: the GPU moves memory: a chain of small operations, each of which reads and writes it all."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, number, share, without_ceiling
from stoker.diagnose.causes.signals import GpuSignals, Signals
from stoker.diagnose.causes.thresholds import (
    BUSY_FOR_BATCH_PCT,
    DRAM_BOUND_PCT,
    POINTWISE_FRAC,
    TENSOR_RESTS_PCT,
)
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK409", "bound by the GPU's memory"
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
    if gpu is None or not _moves_memory(gpu):
        return None
    evidence = [
        number("memory traffic {} %", gpu.dram_pct, "%", "gpm"),
        number("tensor cores at work {} %", gpu.tensor_pct, "%", "gpm"),
        number("{} % real work", gpu.real_work_pct, "%", gpu.real_work_source),
        share("of kernel time is element by element operations and sums", gpu.pointwise_frac, "deep"),
    ]
    line = found.top_line("forward")
    return without_ceiling(
        CODE,
        NAME,
        "the GPU is busy reading and writing its memory; it computes little meanwhile",
        "GPU real work",
        "how much of the traffic could be saved is not counted",
        evidence,
        "a short run under torch.compile: ticks/s rise where the chain can be fused",
        _FIXES,
        line.place if line else None,
    )


def _moves_memory(gpu: GpuSignals) -> bool:
    """By the counters; where the card has none, by the names of the kernels of a deep window."""
    if not gpu.alone or (gpu.busy_pct or 0.0) < BUSY_FOR_BATCH_PCT:
        return False
    if gpu.dram_pct is None or gpu.tensor_pct is None:
        return (gpu.pointwise_frac or 0.0) >= POINTWISE_FRAC and _broad(gpu)
    return gpu.dram_pct >= DRAM_BOUND_PCT and gpu.tensor_pct < TENSOR_RESTS_PCT


def _broad(gpu: GpuSignals) -> bool:
    """Small kernels, too, are mostly element by element; memory is the limit only of those that fill it."""
    return gpu.real_work_pct is not None and gpu.real_work_pct >= 0.8 * (gpu.busy_pct or 0.0)


CAUSE = Cause(CODE, NAME, find)
