from __future__ import annotations

import signal

import pytest

from stoker.launch.failure import FailureKind, classify, parse_oom_kills
from stoker.model.exit import EndedBy, Exit

KILLED = Exit(None, signal.SIGKILL, EndedBy.ITSELF)


@pytest.mark.parametrize(
    ("exit", "shell_code"),
    [
        (Exit(0, None, EndedBy.ITSELF), 0),
        (Exit(3, None, EndedBy.ITSELF), 3),
        (Exit(None, 15, EndedBy.USER), 143),
        (Exit(None, 9, EndedBy.TIME_LIMIT), 137),
    ],
)
def test_the_code_a_shell_would_report(exit: Exit, shell_code: int) -> None:
    assert exit.shell_code == shell_code


@pytest.mark.parametrize(
    ("exit", "kind", "text"),
    [
        (Exit(0, None, EndedBy.ITSELF), FailureKind.OK, "ended normally"),
        (Exit(1, None, EndedBy.ITSELF), FailureKind.EXIT_CODE, "exit code 1"),
        (Exit(None, 11, EndedBy.ITSELF), FailureKind.SIGNAL, "ended by SIGSEGV"),
        (Exit(None, 2, EndedBy.USER), FailureKind.SIGNAL, "ended by SIGINT after the user asked for it"),
        (Exit(None, 2, EndedBy.TIME_LIMIT), FailureKind.TIME_LIMIT, "ended by Stoker at the time limit"),
        (Exit(None, 40, EndedBy.ITSELF), FailureKind.SIGNAL, "ended by signal 40"),
    ],
)
def test_classes(exit: Exit, kind: FailureKind, text: str) -> None:
    failure = classify(exit)
    assert (failure.kind, failure.text) == (kind, text)


def test_a_kill_is_laid_to_the_kernel_only_where_its_counter_rose() -> None:
    assert "out-of-memory killer ended 2" in classify(KILLED, oom_before=1, oom_after=3).hint
    assert "did not act" in classify(KILLED, oom_before=3, oom_after=3).hint
    assert "cannot be told" in classify(KILLED).hint


def test_no_such_hint_when_the_user_killed_it() -> None:
    assert classify(Exit(None, 9, EndedBy.USER), oom_before=1, oom_after=3).hint == ""


def test_a_shells_way_to_report_a_signal_is_explained() -> None:
    assert "SIGKILL" in classify(Exit(137, None, EndedBy.ITSELF)).hint
    assert classify(Exit(200, None, EndedBy.ITSELF)).hint == ""


def test_the_kernels_counter() -> None:
    assert parse_oom_kills("nr_free_pages 4\noom_kill 12\nx 1\n") == 12
    assert parse_oom_kills("nr_free_pages 4\n") is None
