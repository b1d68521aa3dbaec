"""What writes a training's state to a file is the phase `save`, also where NumPy or pickle does it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stoker.inside.hooks import saving
from stoker.inside.hooks.saving import SaveHook
from stoker.inside.wire import OTHER, SAVE


def test_torch_numpy_and_pickle_save(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, phases = driven.recorder, []
    recorder.adopt()

    def write(*_: object) -> str:
        phases.append(recorder.phase)
        return "written"

    numpy = SimpleNamespace(save=write, savez=write, load=write)
    torch = SimpleNamespace(save=write, serialization=SimpleNamespace(save=write))
    pickle = SimpleNamespace(dump=write, dumps=write)
    monkeypatch.setitem(sys.modules, "numpy", numpy)
    monkeypatch.setattr(saving, "pickle", pickle)
    SaveHook(driven.agent).install(torch)
    calls = (torch.save, numpy.save, numpy.savez, pickle.dump, numpy.load, pickle.dumps)
    assert [call("x") for call in calls] == ["written"] * 6
    assert phases == [SAVE] * 4 + [OTHER] * 2


def test_safetensors_save(driven) -> None:
    recorder, phases = driven.recorder, []
    recorder.adopt()

    def write(*_: object) -> None:
        phases.append(recorder.phase)

    safetensors = SimpleNamespace(save_file=write, load_file=write)
    hook = SaveHook(driven.agent)
    hook.install(safetensors)
    safetensors.save_file()
    safetensors.load_file()
    assert phases == [SAVE, OTHER]
    hook.take_off()
    assert safetensors.save_file is write


def test_one_wrapper_is_put_wherever_it_is_found(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, other = SimpleNamespace(dump=len), SimpleNamespace(dump=max)
    for place in (compiled, other):
        pickle = SimpleNamespace(dump=len)
        monkeypatch.setattr(saving, "pickle", pickle)
        monkeypatch.setitem(sys.modules, "_pickle", place)
        SaveHook(driven.agent).install(SimpleNamespace(save=len, serialization=SimpleNamespace(save=len)))
        assert pickle.dump is not len
        assert (place.dump is pickle.dump) is (place is compiled)
    assert other.dump is max, "somebody else's stays"


def test_a_machine_without_numpy(driven, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr(saving, "pickle", SimpleNamespace(dump=len))
    torch = SimpleNamespace(save=len, serialization=SimpleNamespace(save=len))
    SaveHook(driven.agent).install(torch)
    assert torch.save is not len
