"""SK405: the GPU works hard and its tensor cores rest, or do a part of it only: FP32 without TF32."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share, without_ceiling
from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.thresholds import (
    DRAM_LOW_PCT,
    FP32_FRAC,
    PLAIN_FRAC,
    TENSOR_CORES_FASTER,
    TENSOR_OFF_PCT,
    TENSOR_WORK_PCT,
)
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK405", "tensor cores off"
_SAYS = "the GPU works hard on matrix products in plain FP32, which its tensor cores could do"
_SAYS_BY_UNITS = (
    "a large part of the GPU's work is plain FP32; if it is matrix products, tensor cores could do it"
)
_OF = "GPU real work"
_CONFIRM = "a short run under TF32: if ticks/s rise, matrix products were the limit"
_FIXES = (
    Fix(
        "TF32 for matrix products (changes the last digits: check the result)",
        "",
        'torch.set_float32_matmul_precision("high")',
    ),
    Fix(
        "bfloat16 where the model allows it",
        "loss = model(x).mean()",
        'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(x).mean()',
    ),
)


def find(found: Signals) -> Finding | None:
    gpu = found.gpu
    if gpu is None or not _off(gpu):
        return None
    if gpu.plain_fp32_frac is not None:
        plain = gpu.plain_fp32_frac * (gpu.busy_pct or 0.0) / 100
        saved = plain * (1 - 1 / TENSOR_CORES_FASTER)
        return finding(CODE, NAME, _SAYS, saved, _OF, _evidence(gpu), _CONFIRM, _FIXES)
    why = "how much of the work is matrix products is not counted"
    says = _SAYS if _rests(gpu) else _SAYS_BY_UNITS
    return without_ceiling(CODE, NAME, says, _OF, why, _evidence(gpu), _CONFIRM, _FIXES)


def _evidence(gpu: GpuSignals) -> list[Evidence | None]:
    return [
        number("{} % real work", gpu.real_work_pct, "%", gpu.real_work_source),
        number("tensor cores at work {} %", gpu.tensor_pct, "%", "gpm"),
        number("FP32 outside of them {} %", gpu.fp32_pct, "%", "gpm"),
        number("memory traffic {} %", gpu.dram_pct, "%", "gpm"),
        share("of kernel time is plain FP32 matrix products, by their names", gpu.plain_fp32_frac, "deep"),
    ]


def _off(gpu: GpuSignals) -> bool:
    """By the names of the kernels of a deep window, if there is one. By the counters: FP32 units that are at
    work for long; where those are not counted, tensor cores that do nothing, and no memory that holds up."""
    if not gpu.alone or gpu.real_work_pct is None or gpu.real_work_pct < TENSOR_WORK_PCT:
        return False
    if gpu.plain_fp32_frac is not None:
        return gpu.plain_fp32_frac >= PLAIN_FRAC
    return _rests(gpu) or _works_in_fp32(gpu)


def _rests(gpu: GpuSignals) -> bool:
    if gpu.tensor_pct is None or gpu.dram_pct is None:
        return False
    return gpu.tensor_pct < TENSOR_OFF_PCT and gpu.dram_pct < DRAM_LOW_PCT


def _works_in_fp32(gpu: GpuSignals) -> bool:
    """As much as the tensor cores do, by half at least: beside them there is always some."""
    if gpu.fp32_pct is None:
        return False
    return gpu.fp32_pct >= max(FP32_FRAC * (gpu.busy_pct or 100.0), (gpu.tensor_pct or 0.0) / 2)


CAUSE = Cause(CODE, NAME, find)
