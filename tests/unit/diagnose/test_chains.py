"""Chains of element by element kernels, as a deep window has them."""

from __future__ import annotations

import pytest

from stoker.diagnose.chains import CHAIN_LINKS, chains
from stoker.model.deep import Activity, DeviceEvent

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def in_order(*names: str, stream: int = 7) -> list[DeviceEvent]:
    return [
        DeviceEvent(Activity.KERNEL, 1e-3 * place, 1e-3 * (place + 1), 0, stream, name)
        for place, name in enumerate(names)
    ]


def test_a_long_chain_and_what_one_kernel_in_its_place_would_save() -> None:
    found = chains(in_order(*[ADD] * 10, *[GEMM] * 10))
    assert found is not None
    assert (found.frac, found.links) == (pytest.approx(0.5), pytest.approx(10))
    assert found.saved_frac == pytest.approx(0.45)


def test_an_activation_after_each_product_is_no_chain() -> None:
    found = chains(in_order(*[GEMM, *[ADD] * (CHAIN_LINKS - 1)] * 5))
    assert found is not None
    assert (found.frac, found.saved_frac, found.links) == (0.0, 0.0, 0.0)


def test_kernels_of_two_streams_make_no_chain() -> None:
    half = CHAIN_LINKS // 2
    found = chains(in_order(*[ADD] * half) + in_order(*[ADD] * half, stream=8))
    assert found is not None
    assert found.frac == 0.0


def test_nothing_is_known_without_kernels() -> None:
    assert chains([]) is None
