"""A torch whose record_function is made another way is wrapped, not rewritten: it gets the same arguments."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.inside.hooks.ranges import RecordFunctionHook

from .conftest import Driven


class Entered:
    def __enter__(self) -> Entered:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class NameAlone(Entered):
    def __init__(self, name: str) -> None:
        self.name = name
        self.given = (name,)


class OneMore(Entered):
    def __init__(self, name: str, args: str | None = None, colour: int = 3) -> None:
        self.name = name
        self.given = (name, args, colour)


class LikeTorch(Entered):
    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record = None


def installed(driven: Driven, kind: type) -> RecordFunctionHook:
    driven.recorder.adopt()
    hook = RecordFunctionHook(driven.agent)
    profiler = SimpleNamespace(record_function=kind)
    hook.install_in(SimpleNamespace(autograd=SimpleNamespace(profiler=profiler)))
    return hook


@pytest.mark.parametrize(
    ("kind", "words", "named", "given"),
    [
        (NameAlone, ("mine",), {}, ("mine",)),
        (NameAlone, (), {"name": "mine"}, ("mine",)),
        (OneMore, ("mine",), {}, ("mine", None, 3)),
        (OneMore, ("mine", "x"), {"colour": 4}, ("mine", "x", 4)),
    ],
)
def test_another_signature(driven: Driven, kind: type, words: tuple, named: dict, given: tuple) -> None:
    hook = installed(driven, kind)
    try:
        with kind(*words, **named) as made:
            assert made.given == given
        assert driven.recorder.range_totals["mine"][0] == 1
        with pytest.raises(TypeError):
            kind()
        assert hook.error is None
    finally:
        hook.take_off()


def test_the_signature_of_torch_is_rewritten_with_the_same_effect(driven: Driven) -> None:
    plain = vars(LikeTorch("mine", "x"))
    hook = installed(driven, LikeTorch)
    try:
        assert "init" not in LikeTorch.__init__.__code__.co_freevars
        assert vars(LikeTorch("mine", "x")) == plain
        with LikeTorch("mine"):
            pass
        assert driven.recorder.range_totals["mine"][0] == 1
        assert hook.error is None
    finally:
        hook.take_off()
