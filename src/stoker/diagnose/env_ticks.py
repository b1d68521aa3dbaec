"""A process that steps environments and no optimizer: its tick is an env call.

A rollout, a random policy, an evaluation of a finished agent. Env calls are counted every second; here they
take the place of the ticks, so that the window, the speed and the page need not know the difference.
"""

from __future__ import annotations

from dataclasses import replace

from stoker.model.record import NOTHING, Mark, ProcessRecord, Second


def ticks_are_env_calls(record: ProcessRecord) -> bool:
    last = record.seconds[-1] if record.seconds else None
    return last is not None and not last.sums.ticks and last.env_calls > 0


def with_env_ticks(record: ProcessRecord) -> ProcessRecord:
    """The record with env calls for ticks. Until the second of the first env call it is startup."""
    seconds = tuple(_counted(second) for second in record.seconds)
    idle = [second.sums for second in seconds if not second.sums.ticks]
    start = idle[-1] if idle else replace(NOTHING, t_s=record.began_s)
    marks = tuple(_marked(mark, seconds) for mark in record.marks)
    return replace(record, seconds=seconds, marks=(Mark("train", start), *marks))


def _counted(second: Second) -> Second:
    return replace(second, sums=replace(second.sums, ticks=second.env_calls))


def _marked(mark: Mark, seconds: tuple[Second, ...]) -> Mark:
    """An evaluation ends where the usual goes on: without ticks that was called startup."""
    calls = max((second.sums.ticks for second in seconds if second.sums.t_s <= mark.sums.t_s), default=0)
    return Mark("train" if mark.stage == "startup" else mark.stage, replace(mark.sums, ticks=calls))
