"""Other threads that run Python: what they take of the CPU, and where. Threads are real, clocks made up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from stoker.inside import threads
from stoker.inside.places import Places
from stoker.inside.threads import OtherThreads


@pytest.fixture
def waiting() -> Iterator[threading.Thread]:
    """A thread in a line of this file."""
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    yield thread
    end.set()
    thread.join()


def test_the_cpu_of_every_thread_that_runs_python_is_told(waiting: threading.Thread) -> None:
    told = dict(threads._cpu_times())
    assert {threading.get_ident(), waiting.ident} <= told.keys()
    assert all(seconds >= 0 for seconds in told.values())


def test_what_a_thread_spends_is_of_the_line_it_is_found_in(
    waiting: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, other = threading.get_ident(), waiting.ident
    clocks = iter([{me: 1.0, other: 5.0}, {me: 2.0, other: 5.5}, {me: 3.0, other: 5.51}])
    monkeypatch.setattr(threads, "_cpu_times", lambda: next(clocks).items())
    places = Places()
    seen = OtherThreads(places)
    assert seen.row(me) is None
    for now in (10.0, 11.0, 12.0):
        seen.look(now, (me,))
    row = seen.row(me)
    assert row == {"looked_s": 2.0, "spent": [[1, 0.5]], "trains_first": True}, "0.01 s are rest"
    assert places.new[0]["leaf"][2].endswith("wait")
    assert seen.row(other)["trains_first"] is False


def test_what_a_thread_at_rest_has_spent_is_of_the_line_it_last_worked_in(
    waiting: threading.Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, places = waiting.ident, Places()
    spent = iter([{other: 1.0}, {other: 2.0}, {other: 4.0}])
    monkeypatch.setattr(threads, "_cpu_times", lambda: next(spent).items())
    at_work, at_rest = [(compile("0", "/home/me/train.py", "exec"), 9, -1)], threads.stack_of(other)
    assert [places.rests(stack) for stack in (at_work, at_rest)] == [False, True]
    looks = iter([at_work, at_rest])
    monkeypatch.setattr(threads, "stack_of", lambda _: next(looks))
    seen = OtherThreads(places)
    for now in (10.0, 11.0, 12.0):
        seen.look(now, ())
    row = seen.row(other)
    assert [seconds for _, seconds in row["spent"]] == [3.0]
    assert places.new[row["spent"][0][0] - 1]["leaf"][:2] == ("/home/me/train.py", 9)


@pytest.mark.parametrize(
    ("spent_s", "computes", "rests", "wanted"),
    [
        (0.5, [True, True, True, True], False, [False, True, True, True]),
        (0.5, [True, True, True, False], False, [False, True, True, False]),
        (0.5, [True, False, True, False], False, [False, False, False, False]),
        (0.09, [True, True, True, True], False, [False] * 4),
        (0.5, [True, True, True, True], True, [False] * 4),
    ],
)
def test_a_busy_thread_found_computing_in_python_wants_the_interpreter(
    spent_s: float,
    computes: list[bool],
    rests: bool,
    wanted: list[bool],
    waiting: threading.Thread,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other, places, told = waiting.ident, Places(), iter(computes)
    clocks = iter([{other: 1.0 + spent_s * number} for number in range(5)])
    monkeypatch.setattr(threads, "_cpu_times", lambda: next(clocks).items())
    monkeypatch.setattr(places, "rests", lambda stack: rests)
    monkeypatch.setattr(places, "computes", lambda stack: next(told))
    seen, found = OtherThreads(places), []
    for now in range(10, 15):
        seen.look(float(now), ())
        found.append(seen.wanting > 0.5)
    assert found == [False, *wanted]
    monkeypatch.setattr(threads, "_cpu_times", lambda: 1 / 0)
    seen.look(15.0, ())
    assert seen.wanting == 0.0


def test_a_failure_ends_it_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_cpu_times", lambda: 1 / 0)
    seen = OtherThreads(Places())
    seen.look(1.0, ())
    assert "ZeroDivisionError" in str(seen.error)
    seen.look(2.0, ())
    assert seen.row(1) is None


def test_without_an_interpreter_lock_nobody_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    monkeypatch.setattr(threads, "_cpu_times", lambda: pytest.fail("asked"))
    seen = OtherThreads(Places())
    seen.look(1.0, ())
    assert seen.error is None
