"""What a signal handler of the script's raises while our code runs reaches the script, and no hook fails."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from stoker.inside import wire
from stoker.inside.hooks.base import Hook
from stoker.inside.hooks.envs import _env_count


class TooLate(Exception):
    pass


def named(number: int, frame: object) -> None:
    raise TooLate


def starred(*given: object) -> None:
    named(*given)  # type: ignore[arg-type]


class Bound:
    def __call__(self, number: int, frame: object) -> None:
        raise TooLate


@pytest.fixture(params=[named, starred, Bound()], ids=["a function", "one with stars", "an object"])
def alarm(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    before = signal.signal(signal.SIGUSR1, request.param)
    yield lambda *_: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("where", ["begin", "end"])
def test_around_a_call(driven, alarm: Callable[..., None], where: str) -> None:
    hook = Hook(driven.agent)
    hook.begin = hook.end = lambda *_: None  # type: ignore[method-assign]
    setattr(hook, where, alarm)
    with pytest.raises(TooLate):
        hook.wrap(abs)(-1)
    assert hook.error is None


def test_in_a_phase(driven, alarm: Callable[..., None]) -> None:
    hook, recorder = Hook(driven.agent), driven.recorder
    call = hook.wrap_phase(abs, wire.SAVE, ends=alarm)
    with pytest.raises(TooLate):
        call(-1)
    assert (hook.error, recorder.phase) == (None, wire.OTHER)


def test_while_an_environment_is_looked_at(alarm: Callable[..., None]) -> None:
    class Counted:
        num_envs = property(alarm)

    with pytest.raises(TooLate):
        _env_count(Counted())


def test_an_exception_of_our_own_goes_no_further(driven) -> None:
    hook = Hook(driven.agent)

    def failing(frame: object) -> None:
        raise ValueError(frame)

    hook.begin = failing  # type: ignore[method-assign]
    assert hook.wrap(abs)(-1) == 1
    assert hook.error is not None
