"""What is told of a trial from inside without touching anything of the script's."""

from __future__ import annotations

import importlib.util
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType

import pytest

from stoker.inside.guard.resumed import _holds_optimizer
from stoker.inside.knobs.facts import Facts
from stoker.inside.places import Places

STATE = {"state": {}, "param_groups": []}


def packages() -> list[str]:
    return Facts((), Places()).row()["packages"]


def test_a_module_that_is_loaded_when_first_used_stays_unloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy.py").write_text("raise SystemExit('it was loaded')")
    spec = importlib.util.spec_from_file_location("heavy", tmp_path / "heavy.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "heavy", module)
    spec.loader.exec_module(module)
    packages()
    with pytest.raises(SystemExit, match="it was loaded"):
        _ = module.anything


def test_packages_are_told_also_without_an_init_and_of_odd_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced, plain = ModuleType("spaced"), ModuleType("plain")
    spaced.__path__ = [str(tmp_path / "spaced")]
    plain.__file__ = str(tmp_path / "plain.py")
    for name, module in (("spaced", spaced), ("plain", plain), ("odd", object()), ("none", None)):
        monkeypatch.setitem(sys.modules, name, module)
    found = packages()
    assert {str(tmp_path / "spaced"), str(tmp_path / "plain.py")} <= set(found)
    assert not any("stoker" in Path(one).name for one in found), "our own"
    assert Path(threading_file()).parent not in map(Path, found), "Python's own"


def threading_file() -> str:
    import threading

    return threading.__file__


class Own(dict):
    def values(self):
        raise AssertionError("it was asked")


@pytest.mark.parametrize(
    ("content", "holds"),
    [
        (STATE, True),
        ({"step": 3, "optimizer": STATE}, True),
        ({"model": {str(n): n for n in range(5000)}, "optimizers": [STATE]}, True),
        (OrderedDict(trainer=OrderedDict(optimizer=STATE)), True),
        ([[list(range(100))] * 100] * 100, False),
        ({"weights": [1, 2]}, False),
        (Own(optimizer=1), False),
        ({"a": Own(b=1)}, False),
        (3, False),
    ],
    ids=["itself", "a checkpoint", "behind a model", "ordered", "data", "weights", "own", "own inside", "no"],
)
def test_where_the_state_of_an_optimizer_is(content: object, holds: bool) -> None:
    assert _holds_optimizer(content) is holds
