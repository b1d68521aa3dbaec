"""What writes a training's state to a file is the phase `save`, also where NumPy does it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stoker.inside.hooks.saving import SaveHook
from stoker.inside.wire import OTHER, SAVE


def test_torch_and_numpy_save(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, phases = driven.recorder, []
    recorder.adopt()

    def write(*_: object) -> str:
        phases.append(recorder.phase)
        return "written"

    numpy = SimpleNamespace(save=write, savez=write, load=write)
    torch = SimpleNamespace(save=write, serialization=SimpleNamespace(save=write))
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    SaveHook(driven.agent).install(torch)
    assert [torch.save(), numpy.save("x"), numpy.savez("x"), numpy.load("x")] == ["written"] * 4
    assert phases == [SAVE, SAVE, SAVE, OTHER]


def test_a_machine_without_numpy(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    torch = SimpleNamespace(save=len, serialization=SimpleNamespace(save=len))
    SaveHook(driven.agent).install(torch)
    assert torch.save is not len
