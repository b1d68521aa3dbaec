"""Looking at the training thread, and leaving no trace of it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stoker.inside import pulse, wire
from stoker.inside.places import LIBRARY, PLUMBING, USER, Places
from stoker.inside.pulse import SAMPLE_S, Pulse


@pytest.fixture
def quiet_pulse(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse.time, "sleep", lambda seconds: None)
    return Pulse(SimpleNamespace(), Places(), lambda: None)


def test_a_nap_puts_the_switch_interval_back(quiet_pulse) -> None:
    before = sys.getswitchinterval()
    quiet_pulse._nap()
    assert sys.getswitchinterval() == before


def test_a_fork_in_the_middle_of_a_nap_puts_it_back_too(quiet_pulse, monkeypatch) -> None:
    """The child has no pulse thread that would."""
    before, during = sys.getswitchinterval(), []

    def forked(seconds: float) -> None:
        during.append(sys.getswitchinterval())
        quiet_pulse.wake()
        during.append(sys.getswitchinterval())

    monkeypatch.setattr(pulse.time, "sleep", forked)
    quiet_pulse._nap()
    assert during[0] < before
    assert during[1] == sys.getswitchinterval() == before


def test_an_interval_the_script_chose_meanwhile_stays(quiet_pulse, monkeypatch) -> None:
    before = sys.getswitchinterval()
    monkeypatch.setattr(pulse.time, "sleep", lambda seconds: sys.setswitchinterval(0.02))
    try:
        quiet_pulse._nap()
        assert sys.getswitchinterval() == pytest.approx(0.02)
    finally:
        sys.setswitchinterval(before)


def test_a_dear_look_makes_looks_rare(quiet_pulse) -> None:
    for _ in range(100):
        quiet_pulse._limit(0.003)
    assert quiet_pulse.interval_s > 10 * SAMPLE_S
    for _ in range(200):
        quiet_pulse._limit(0.0001)
    assert quiet_pulse.interval_s == pytest.approx(SAMPLE_S)


def code(filename: str):
    return compile("0", filename, "eval")


@pytest.mark.parametrize(
    ("filename", "kind"),
    [
        ("/home/me/train.py", USER),
        ("<stdin>", USER),
        ("<string>", PLUMBING),
        ("<frozen importlib._bootstrap>", PLUMBING),
        (sys.modules["json"].__file__ if "json" in sys.modules else __import__("json").__file__, PLUMBING),
        ("/other/venv/lib/python3.9/site-packages/torch/nn/modules/linear.py", PLUMBING),
        ("/other/venv/lib/python3.9/site-packages/stable_baselines3/ppo/ppo.py", LIBRARY),
        ("/usr/lib/python3/dist-packages/numpy/core/x.py", PLUMBING),
        (pulse.__file__, PLUMBING),
    ],
)
def test_whose_code_it_is(filename: str, kind: int) -> None:
    assert Places().kind(code(filename)) == kind


def test_places_and_files_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PLACES_MAX", 5)
    monkeypatch.setattr(wire, "FILES_MAX", 5)
    places = Places()
    for number in range(50):
        places.kind(code(f"/made/on/the/fly/{number}.py"))
        places._id(("file", number, "function"), None)
    assert len(places._kinds) <= 5
    assert len(places.new) == 5
    assert places._id(("file", 49, "function"), None) == 0
