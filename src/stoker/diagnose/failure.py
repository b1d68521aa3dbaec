"""Why a command failed: what its exit says from outside, and the exception seen inside, put together."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.launch.failure import Failure, FailureKind
from stoker.model.record import ProcessRecord, Raised
from stoker.model.run import RunFailure

MESSAGE_MAX = 300
_KINDS = {"out of memory": "out-of-memory", "interrupted": "interrupted"}


def combine(verdict: Failure, processes: Iterable[ProcessRecord]) -> RunFailure | None:
    """None where it ended normally, or Stoker ended it at the time limit."""
    if verdict.kind in (FailureKind.OK, FailureKind.TIME_LIMIT):
        return None
    found = culprit(processes)
    if found is None or found.raised is None:
        return RunFailure(verdict.kind.value, verdict.text, verdict.hint)
    raised = found.raised
    return RunFailure(
        kind=_KINDS.get(raised.kind, "exception"),
        text=verdict.text,
        hint=verdict.hint,
        exception=raised.type,
        message=raised.message[:MESSAGE_MAX],
        file=raised.file,
        line=raised.line,
        pid=found.pid,
    )


def culprit(processes: Iterable[ProcessRecord]) -> ProcessRecord | None:
    """Of several, the one nearest to the cause: not one that was only told to stop, and a process that
    trained before the launcher that started it, which fails in its turn."""
    failed = [process for process in processes if process.raised is not None]
    return min(failed, key=_distance, default=None)


def _distance(process: ProcessRecord) -> tuple[bool, bool, bool, float]:
    assert process.raised is not None
    trained = process.last is not None and process.last.ticks > 0
    return (
        process.raised.kind == "interrupted",
        process.raised.kind != "out of memory",
        not trained,
        -process.began_s,
    )


def place(raised: Raised | RunFailure) -> str:
    return f"{raised.file}:{raised.line}" if raised.file and raised.line else ""
