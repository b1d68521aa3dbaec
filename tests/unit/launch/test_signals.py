from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from stoker.launch.signals import Gate, Insistence, Repeats


def test_one_interrupt_asks_and_two_insist_after_a_while() -> None:
    insistence = Insistence(patience_s=3.0)
    insistence.press(100.0)
    assert insistence.end_at == float("inf")
    insistence.press(101.0)
    assert insistence.end_at == 104.0
    assert not insistence.at_once


def test_three_will_not_wait() -> None:
    insistence = Insistence()
    for now in (1.0, 1.5, 2.0):
        insistence.press(now)
    assert insistence.at_once


def test_interrupts_far_apart_never_add_up() -> None:
    insistence = Insistence(forget_s=30.0)
    for now in (0.0, 60.0, 120.0, 180.0):
        insistence.press(now)
    assert insistence.end_at == float("inf")


def test_the_same_request_told_twice_is_one() -> None:
    repeats = Repeats()
    assert not repeats.seen(signal.SIGTERM, 50, 1.0)
    assert repeats.seen(signal.SIGTERM, 50, 1.001)


def test_only_requests_to_end_are_told_twice() -> None:
    repeats = Repeats()
    assert [repeats.seen(signal.SIGUSR1, 50, now) for now in (1.0, 1.001)] == [False, False]


def test_a_stream_of_requests_is_not_swallowed_for_ever() -> None:
    repeats = Repeats()
    heard = [not repeats.seen(signal.SIGINT, 50, tick * 0.06) for tick in range(5)]
    assert heard == [True, False, True, False, True]


def test_another_sender_signal_or_time_is_another_request() -> None:
    repeats = Repeats()
    assert not repeats.seen(signal.SIGTERM, 50, 1.0)
    assert not repeats.seen(signal.SIGINT, 50, 1.001)
    assert not repeats.seen(signal.SIGINT, 51, 1.002)
    assert not repeats.seen(signal.SIGINT, 51, 2.0)


@pytest.mark.parametrize(("number", "is_heard"), [(0, False), (signal.SIGURG, False), (signal.SIGTERM, True)])
def test_only_what_is_held_back_is_heard(
    monkeypatch: pytest.MonkeyPatch, number: int, is_heard: bool
) -> None:
    """Stopped and continued, Python's sigtimedwait returned a signal 0 (3.11)."""
    monkeypatch.setattr(signal, "sigtimedwait", lambda *_: SimpleNamespace(si_signo=number))
    assert (Gate(shares_group=False).next(1.0) is not None) is is_heard
