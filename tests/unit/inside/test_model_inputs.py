"""Once a second what the model is given is written down, with gradients or without."""

from __future__ import annotations

from types import SimpleNamespace

from tests.unit.inside.conftest import Model

from stoker.inside import hooks
from stoker.inside.wire import OTHER, THIN
from stoker.model.record import ModelInput


class Trained(Model):
    def __init__(self, training: bool, weight: object) -> None:
        super().__init__(training)
        self.weight = weight

    def parameters(self):
        return iter([self.weight])


def test_a_trained_model_in_eval_mode_is_told(driven) -> None:
    mine, teachers = object(), object()
    hook = hooks.modules.ModuleHook(driven.agent)

    def called(graph: bool, training: bool, weight: object) -> None:
        hook.is_grad_enabled = lambda: graph
        hook._replaced(lambda *_: None)(Trained(training, weight))
        driven.tick()
        driven.flush()

    driven.tick()
    driven.flush()
    called(True, True, mine)
    called(False, False, mine)
    called(False, False, mine)
    called(False, True, mine)  # it acts, or is asked for a target
    called(False, False, teachers)
    driven.tick()
    driven.flush()
    assert driven.read().evaluated == {True: 2, False: 2}


def test_eval_mode_ends_what_is_passed_over_once_a_second(driven, clock, monkeypatch) -> None:
    monkeypatch.setattr(hooks.evaluation, "perf_counter", clock)
    hook, thinning = hooks.evaluation.EvalModeHook(driven.agent), driven.recorder.thinning
    model_eval = hook.wrap(lambda model: model)
    driven.recorder.adopt()
    thinning.active, thinning.twice_mean = True, 1000
    thinning.let_go("nobody")
    phases = []
    for _ in range(2):
        while driven.recorder.phase != THIN:
            driven.step(0.1)
        assert model_eval("a model") == "a model"
        phases.append(driven.recorder.phase)
    assert phases == [OTHER, THIN]
    driven.step(1.0)
    model_eval("a model")
    assert driven.recorder.phase == OTHER


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
