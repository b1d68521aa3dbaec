"""Roots in a log while a trial still runs: only what no training survives without a word of progress."""

from __future__ import annotations

from stoker.ingest.failure_signatures import signature_in
from stoker.model.failure import FailureClass
from stoker.trials.failures.log_events import after_last_progress, events

_FATAL = (FailureClass.GPU_OOM, FailureClass.HOST_OOM, FailureClass.SHM, FailureClass.GPU_HW)


def names_a_root(log_tail: str) -> str:
    for event in after_last_progress(events(log_tail)):
        row = signature_in(event.text, said_by_exception=event.exception is not None)
        if row is not None and row.kind in _FATAL:
            return event.text[:120]
    return ""
