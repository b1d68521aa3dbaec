"""Chains of element by element kernels, as a deep window has them."""

from __future__ import annotations

from itertools import accumulate

import pytest

from stoker.diagnose.chains import CHAIN_KERNELS, chains
from stoker.model.deep import Activity, DeviceEvent

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def in_order(*names: str, stream: int = 7) -> list[DeviceEvent]:
    return [
        DeviceEvent(Activity.KERNEL, 1e-3 * place, 1e-3 * (place + 1), 0, stream, name)
        for place, name in enumerate(names)
    ]


def lasting(*microseconds: float) -> list[DeviceEvent]:
    ends = accumulate(1e-6 * one for one in microseconds)
    return [
        DeviceEvent(Activity.KERNEL, end - 1e-6 * one, end, 0, 7, ADD)
        for end, one in zip(ends, microseconds, strict=True)
    ]


def test_a_long_chain_and_what_one_kernel_in_its_place_would_save() -> None:
    found = chains(in_order(*[ADD] * 10, *[GEMM] * 10))
    assert found is not None
    assert (found.frac, found.links) == (pytest.approx(0.5), pytest.approx(10))
    assert found.saved_frac == pytest.approx(0.45)


def test_an_activation_after_each_product_is_no_chain() -> None:
    found = chains(in_order(*[GEMM, *[ADD] * (CHAIN_KERNELS - 1)] * 5))
    assert found is not None
    assert (found.frac, found.saved_frac, found.links) == (0.0, 0.0, 0.0)


def test_casts_that_take_next_to_no_time_do_not_make_a_chain_longer() -> None:
    found = chains(lasting(73, 182, 7, 2, 35, 163, 162, 163))
    assert found is not None
    assert found.frac == 0.0


def test_kernels_of_two_streams_make_no_chain() -> None:
    half = CHAIN_KERNELS // 2
    found = chains(in_order(*[ADD] * half) + in_order(*[ADD] * half, stream=8))
    assert found is not None
    assert found.frac == 0.0


def test_nothing_is_known_without_kernels() -> None:
    assert chains([]) is None
