"""SK405: the GPU works hard and its tensor cores rest: FP32 without TF32."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, number, share, without_ceiling
from stoker.diagnose.causes.signals import GpuSignals, Signals
from stoker.diagnose.causes.thresholds import DRAM_LOW_PCT, KERNELS_FRAC, TENSOR_OFF_PCT, TENSOR_WORK_PCT
from stoker.model.finding import Evidence, Finding, Fix

CODE, NAME = "SK405", "tensor cores off"
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
    return without_ceiling(
        CODE,
        NAME,
        "the GPU works hard, and its tensor cores do nothing: matrix products run in plain FP32",
        "GPU real work",
        "how much of the work is matrix products is not counted",
        _evidence(gpu),
        "a short run under TF32: if ticks/s rise, matrix products were the limit",
        _FIXES,
    )


def _evidence(gpu: GpuSignals) -> list[Evidence | None]:
    return [
        number("{} % real work", gpu.real_work_pct, "%", gpu.real_work_source),
        number("tensor cores at work {} %", gpu.tensor_pct, "%", "gpm"),
        number("memory traffic {} %", gpu.dram_pct, "%", "gpm"),
        share("of kernel time is plain FP32 matrix products, by their names", gpu.plain_fp32_frac, "deep"),
    ]


def _off(gpu: GpuSignals) -> bool:
    """By the names of the kernels of a deep window, if there is one; by the counters: tensor cores that do
    something may still rest in most of the products, which they do not tell."""
    if not gpu.alone or gpu.real_work_pct is None or gpu.real_work_pct < TENSOR_WORK_PCT:
        return False
    if gpu.plain_fp32_frac is not None or gpu.tensor_pct is None or gpu.dram_pct is None:
        return (gpu.plain_fp32_frac or 0.0) >= KERNELS_FRAC
    return gpu.tensor_pct < TENSOR_OFF_PCT and gpu.dram_pct < DRAM_LOW_PCT


CAUSE = Cause(CODE, NAME, find)
