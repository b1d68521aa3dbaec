"""Once a second what the model is given is written down, with gradients or without."""

from __future__ import annotations

from types import SimpleNamespace

from tests.unit.inside.conftest import Model

from stoker.inside import hooks
from stoker.model.record import ModelInput


def test_shapes_are_counted(driven) -> None:
    def called(graph: bool, *shape: int) -> None:
        hook = hooks.modules.ModuleHook(driven.agent)
        hook.is_grad_enabled = lambda: graph
        hook._replaced(lambda *_: None)(Model(True), 0.5, SimpleNamespace(shape=shape))

    driven.tick()
    driven.flush()
    for graph, shape in [(True, (64, 8)), (False, (1, 8)), (False, (1, 8))]:
        called(graph, *shape)
        called(graph, 7, 7)  # the second in that second: not looked at
        driven.tick()
        driven.flush()
    driven.tick()
    driven.flush()
    assert driven.read().shapes == {ModelInput(True, (64, 8)): 1, ModelInput(False, (1, 8)): 2}
