from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.failure import combine
from stoker.diagnose.host import host_view
from stoker.launch.failure import Failure, FailureKind
from stoker.model.host import HostReading, HostRecord
from stoker.model.record import Raised

Make = Any
EXIT_1 = Failure(FailureKind.EXIT_CODE, "exit code 1")


def raised(make: Make, type: str, kind: str = "exception", **more: Any) -> Any:
    return make.training({"forward": 1.0}, raised=Raised(type, "why", kind, "/x/a.py", 3), **more)


@pytest.mark.parametrize("kind", [FailureKind.OK, FailureKind.TIME_LIMIT])
def test_no_failure(make: Make, kind: FailureKind) -> None:
    assert combine(Failure(kind, "x"), [raised(make, "ValueError")]) is None


def test_exit_alone() -> None:
    failure = combine(Failure(FailureKind.SIGNAL, "ended by SIGBUS", "a full /dev/shm"), [])
    assert failure is not None
    assert (failure.kind, failure.text, failure.hint) == ("signal", "ended by SIGBUS", "a full /dev/shm")
    assert failure.exception is None


@pytest.mark.parametrize(
    ("inside", "kind"),
    [("exception", "exception"), ("out of memory", "out-of-memory"), ("interrupted", "interrupted")],
)
def test_the_exception_is_put_beside_the_exit(make: Make, inside: str, kind: str) -> None:
    failure = combine(EXIT_1, [raised(make, "SomeError", inside, pid=7)])
    assert failure is not None
    assert (failure.kind, failure.text) == (kind, "exit code 1")
    assert (failure.exception, failure.message, failure.file, failure.line) == (
        "SomeError",
        "why",
        "/x/a.py",
        3,
    )
    assert failure.pid == 7


def test_of_several_the_cause_is_named(make: Make) -> None:
    """A rank runs out of memory, the others are interrupted, the launcher fails because a child failed."""
    launcher = replace(raised(make, "ChildFailedError", pid=1), seconds=(), began_s=0.0)
    processes = [
        launcher,
        raised(make, "KeyboardInterrupt", "interrupted", pid=2),
        raised(make, "Bad", pid=3),
    ]
    assert getattr(combine(EXIT_1, processes), "pid", None) == 3
    processes.append(raised(make, "OutOfMemoryError", "out of memory", pid=4))
    assert getattr(combine(EXIT_1, processes), "pid", None) == 4
    assert getattr(combine(EXIT_1, processes[:1]), "pid", None) == 1


def test_host_rates_come_from_the_part_asked_for(make: Make) -> None:
    view = host_view(make.host(), start_s=1010.0)
    assert view is not None
    assert view.seconds == pytest.approx(53.0)
    assert (view.cores_used, view.cores_allowed) == (pytest.approx(2.5), 8.0)
    assert view.rss_peak_bytes == 2_400_000_000
    assert view.read_bytes_per_s == pytest.approx(1000.0)
    assert (view.throttled_frac, view.shm_peak_frac, view.watcher_cpu_pct) == (None, None, None)


def test_a_part_too_short_falls_back_to_all_of_it(make: Make) -> None:
    view = host_view(make.host(10), start_s=1012.5)
    assert view is not None
    assert view.seconds == pytest.approx(13.0)


def test_too_few_readings_are_no_view() -> None:
    assert host_view(HostRecord()) is None
    assert host_view(HostRecord(None, (HostReading(1.0), HostReading(1.5)))) is None


def test_what_was_not_read_stays_unknown() -> None:
    view = host_view(HostRecord(None, (HostReading(1.0), HostReading(9.0, cpu_s_total=3.0))))
    assert view is not None
    assert (view.cores_used, view.cores_allowed, view.rss_peak_bytes, view.iowait_pct) == (None,) * 4
