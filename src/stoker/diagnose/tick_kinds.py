"""What a tick is: an optimizer's step; where none is seen, an env call, or else a backward pass.

A rollout, a random policy, an evaluation of a finished agent step environments alone. Weights that are
changed by hand, or by a library's own optimizer, change in no step of torch's, but their gradients come from
backward. Both are counted every second; here they take the place of the ticks, so that the window, the speed
and the page need not know the difference.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from stoker.model.record import NOTHING, Mark, ProcessRecord, Second


class TickKind(StrEnum):
    OPTIMIZER_STEP = "optimizer step"
    ENV_CALL = "env call"
    BACKWARD_PASS = "backward pass"

    @property
    def one(self) -> str:
        """As the page calls it."""
        return "tick" if self is TickKind.OPTIMIZER_STEP else self.value

    @property
    def many(self) -> str:
        return f"{self.one}es" if self is TickKind.BACKWARD_PASS else f"{self.one}s"


def tick_kind(record: ProcessRecord) -> TickKind:
    last = record.seconds[-1] if record.seconds else None
    if last is None or any(record.optimizer_steps):
        return TickKind.OPTIMIZER_STEP
    if last.env_calls:
        return TickKind.ENV_CALL
    return TickKind.BACKWARD_PASS if last.sums.backwards else TickKind.OPTIMIZER_STEP


def with_ticks(record: ProcessRecord) -> ProcessRecord:
    """The record with what stands in for ticks. Until the second of the first it is startup."""
    kind = tick_kind(record)
    if kind is TickKind.OPTIMIZER_STEP:
        return record
    seconds = tuple(_counted(second, kind) for second in record.seconds)
    idle = [second.sums for second in seconds if not second.sums.ticks]
    start = idle[-1] if idle else replace(NOTHING, t_s=record.began_s)
    marks = tuple(_marked(mark, seconds, kind) for mark in record.marks)
    looks = tuple(replace(look, stage=_usual(look.stage)) for look in record.sampled)
    return replace(record, seconds=seconds, marks=(Mark("train", start), *marks), sampled=looks)


def _counted(second: Second, kind: TickKind) -> Second:
    ticks = second.env_calls if kind is TickKind.ENV_CALL else second.sums.backwards
    return replace(second, sums=replace(second.sums, ticks=ticks))


def _marked(mark: Mark, seconds: tuple[Second, ...], kind: TickKind) -> Mark:
    """An evaluation ends where the usual goes on. Env calls are known to the second only."""
    ticks = mark.sums.backwards
    if kind is TickKind.ENV_CALL:
        ticks = max((row.sums.ticks for row in seconds if row.sums.t_s <= mark.sums.t_s), default=0)
    return Mark(_usual(mark.stage), replace(mark.sums, ticks=ticks))


def _usual(stage: str) -> str:
    """Without ticks all but evaluations was called startup."""
    return "train" if stage == "startup" else stage
