"""On which devices an optimizer trains: asked once, and never in the way."""

from __future__ import annotations

from types import SimpleNamespace

from stoker.inside.hooks.optimizers import _elements


def parameter(device: str, count: int) -> SimpleNamespace:
    return SimpleNamespace(device=SimpleNamespace(type=device), numel=lambda: count)


def test_numbers_are_counted_by_device() -> None:
    groups = [{"params": [parameter("cuda", 90), parameter("cpu", 4)]}, {"params": [parameter("cpu", 6)]}]
    trained: set[int] = set()
    assert _elements(SimpleNamespace(param_groups=groups), trained) == {"cuda": 90, "cpu": 10}
    assert trained == {id(one) for group in groups for one in group["params"]}


def test_an_optimizer_of_another_shape_tells_nothing() -> None:
    assert _elements(SimpleNamespace(), set()) is None
    assert _elements(SimpleNamespace(param_groups=[{"params": [object()]}]), set()) is None
