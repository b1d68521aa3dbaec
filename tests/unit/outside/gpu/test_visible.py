"""Which GPUs a command sees, with fake ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.outside.gpu.cpu import CpuDevice
from stoker.outside.gpu.fake import FakeGpus, fake_facts
from stoker.outside.gpu.visible import visible_gpus

A, B, C = (str(fake_facts(number).uuid) for number in range(3))
GPUS = FakeGpus(devices=[fake_facts(0), fake_facts(1), fake_facts(2)])


@pytest.mark.parametrize(
    ("variable", "seen"),
    [
        (None, (A, B, C)),
        ("", ()),
        ("-1", ()),
        ("1", (B,)),
        ("2, 0", (C, A)),
        ("0,7,1", (A,)),  # CUDA stops at the first it does not know
        ("0,0", (A,)),
        (B, (B,)),
        ("GPU-0000", ()),  # fits all three
        ("NoDevFiles", ()),
    ],
)
def test_the_variable_decides(variable: str | None, seen: tuple[str, ...]) -> None:
    env = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert visible_gpus(GPUS, env) == seen


def test_numbers_of_unlike_cards_mean_all_of_them() -> None:
    mixed = FakeGpus(devices=[fake_facts(0), replace(fake_facts(1), name="Another")])
    assert visible_gpus(mixed, {"CUDA_VISIBLE_DEVICES": "1"}) == (A, B)
    by_bus = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible_gpus(mixed, by_bus) == (B,)
    assert visible_gpus(mixed, {"CUDA_VISIBLE_DEVICES": B}) == (B,)


def test_slices_are_named_and_not_counted() -> None:
    part = replace(fake_facts(5), uuid="MIG-1", mig=True)
    sliced = FakeGpus(devices=[fake_facts(0), part])
    assert visible_gpus(sliced, {}) == (A,)
    assert visible_gpus(sliced, {"CUDA_VISIBLE_DEVICES": "MIG-1"}) == ("MIG-1",)
    assert visible_gpus(sliced, {"CUDA_VISIBLE_DEVICES": "1"}) == ()


def test_a_machine_without_gpus() -> None:
    assert visible_gpus(CpuDevice("no driver"), {}) == ()
