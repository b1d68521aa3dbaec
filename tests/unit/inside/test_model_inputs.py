"""Once a second what the model is given is written down, with gradients or without."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.unit.inside.conftest import Model

from stoker.diagnose.model_inputs import inputs_within
from stoker.inside import hooks
from stoker.inside import pulse as pulse_module
from stoker.inside.wire import INFER, THIN
from stoker.model.record import ModelInput


class Trained(Model):
    def __init__(self, training: bool, weight: object) -> None:
        super().__init__(training)
        self._parameters = {"bias": None}
        self._modules = {"none": None, "body": SimpleNamespace(_parameters={"weight": weight}, _modules={})}


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
    driven.agent._flush_last()  # places are told now and then
    told = driven.read()
    assert [sum(one.count for one in asked) for asked in (told.evaluated, told.acted)] == [2, 1]
    for one in (*told.evaluated, *told.acted):
        assert one.place.leaf[2].rpartition(".")[2] == "called"
    ((code, phase),) = driven.agent.pulse.sites.values()
    assert (code, phase) == (called.__code__, None), "with gradients and without, in the same line"


def test_after_eval_the_models_next_call_is_looked_at_once_a_second(driven, clock, monkeypatch) -> None:
    monkeypatch.setattr(hooks.evaluation, "perf_counter", clock)
    hook, recorder = hooks.evaluation.EvalModeHook(driven.agent), driven.recorder
    model_eval = hook._noticed(lambda model: model)
    assert (model_eval("a model"), recorder.owner) == ("a model", None)
    recorder.adopt()
    recorder.thinning.active, recorder.thinning.twice_mean = True, 1000
    recorder.thinning.let_go("nobody")

    def asked() -> bool:
        """Is it seen?"""
        while recorder.phase != THIN:
            driven.step(0.01)
        before = recorder.counts[INFER]
        model_eval("a model")
        driven.model(0.001, graph=False, training=False)
        return recorder.counts[INFER] > before

    assert [asked(), asked()] == [True, False]
    clock.advance(1.0)
    assert asked()


def test_eval_within_a_models_call_does_not_take_it_apart(driven, clock, monkeypatch) -> None:
    monkeypatch.setattr(hooks.evaluation, "perf_counter", clock)
    hook, recorder = hooks.evaluation.EvalModeHook(driven.agent), driven.recorder
    recorder.adopt()
    recorder.thinning.active, recorder.thinning.twice_mean = True, 1000
    recorder.thinning.let_go("nobody")
    while recorder.phase != THIN:
        driven.step(0.01)

    def forward() -> None:
        hook._noticed(lambda model: model)("its frozen part")
        driven.model(0.001, graph=False)

    driven.model_on(forward)
    assert recorder.phase == THIN


@pytest.mark.parametrize("shape", [(None, 8), len, "a text"])
def test_what_has_no_sizes_does_not_switch_the_hook_off(driven, shape: object) -> None:
    hook = hooks.modules.ModuleHook(driven.agent)
    hook.is_grad_enabled = lambda: True
    hook._replaced(lambda *_: None)(Model(True), SimpleNamespace(shape=shape))
    assert hook.error is None
    assert driven.recorder.given is None


def test_after_each_of_the_first_looks_what_is_asked_next_is_told(driven, monkeypatch) -> None:
    """Once a second is too seldom for a run of some seconds, and always the first after a writing."""
    hook, pulse = hooks.modules.ModuleHook(driven.agent), driven.agent.pulse
    hook.is_grad_enabled = lambda: False
    monkeypatch.setattr(pulse_module, "_frames", lambda thread: [(driven.flush.__code__, 1, 0)])

    def asked(*shape: int) -> None:
        hook._replaced(lambda *_: None)(Model(True), SimpleNamespace(shape=shape))

    driven.tick()
    driven.flush()
    for rows in range(1, 5):
        asked(rows, 8)
        asked(100 + rows, 8)  # nobody has looked since
        pulse.look()
    monkeypatch.setattr(pulse_module, "RARER_AFTER", (4,))
    for rows in range(5, 8):
        asked(rows, 8)
        pulse.look()
    driven.tick()
    driven.flush()
    seen = inputs_within(driven.read(), None, None)
    assert seen == {ModelInput(False, (rows, 8)): 1 for rows in range(1, 6)}


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
    seen = inputs_within(driven.read(), None, None)
    assert seen == {ModelInput(True, (64, 8)): 1, ModelInput(False, (1, 8)): 2}
