"""The class of a failed trial, from its log, its exit and what was raised inside.

Roots before weak signs before cascades; among roots the first. An exception seen inside is better than any
line. A trial that ended in good order (or at its time limit) failed only if its losses went to nothing.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stoker.diagnose.failure import culprit
from stoker.ingest.failure_signatures import Signature, signature_in
from stoker.model.exit import EndedBy, Exit
from stoker.model.failure import FailureClass, Role
from stoker.model.record import ProcessRecord
from stoker.trials.failures.actions import ACTIONS
from stoker.trials.failures.log_events import Event, after_last_progress, events
from stoker.trials.failures.losses import gone_wrong

EVIDENCE_MAX = 300
_CASCADES = {
    "ChildFailedError",
    "ProcessRaisedException",
    "ProcessExitedException",
    "SystemExit",
    "SignalException",
}
_PEER_GONE = {
    "EOFError",
    "BrokenPipeError",
    "ConnectionResetError",
    "ConnectionRefusedError",
    "BrokenProcessPool",
}
_IN_ENVIRONMENT = re.compile(
    r"vector|vec_env|_env\b|env_|envs?[./]|worker|AsyncVectorEnv|SubprocVecEnv", re.I
)
_KILLED = re.compile(
    r"exitcode\s*:\s*-9|Signal 9 \(SIGKILL\)|\(Killed\)|^Killed$|exit(?:ed with)? code 137", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureClass
    evidence: str
    """The line, the exception or the signal that tells it."""
    action: str
    """What a tuner does about it."""


def classify_failure(
    log_tail: str,
    exit: Exit,
    processes: Iterable[ProcessRecord] = (),
    *,
    hung: bool = False,
    oom_killed: bool = False,
) -> Failure | None:
    """`oom_killed`: the kernel's out-of-memory killer acted while it ran."""
    if exit.ended_by is EndedBy.USER:
        return _failure(FailureClass.INTERRUPTED, "a signal from the user")
    if exit.ended_by is EndedBy.TIME_LIMIT or exit.code == 0:
        wrong = gone_wrong(log_tail)
        return _failure(FailureClass.NUMERIC, wrong) if wrong else None
    found = [*_raised(processes), *after_last_progress(events(log_tail))]
    return (
        _from_role(found, Role.ROOT)
        or _from_exception(found)
        or (None if _names(found, FailureClass.LOADER_DIED) else _peer_gone(found))
        or _from_kill(found, exit, oom_killed)
        or _from_role(found, Role.WEAK)
        or _from_role(found, Role.CASCADE)
        or _from_whole_log(log_tail)
        or _from_exit(exit, hung)
    )


def _failure(kind: FailureClass, evidence: str) -> Failure:
    return Failure(kind, evidence[:EVIDENCE_MAX], ACTIONS[kind])


def _raised(processes: Iterable[ProcessRecord]) -> Iterator[Event]:
    """The one nearest to the cause first."""
    processes = list(processes)
    first = culprit(processes)
    for record in sorted((p for p in processes if p.raised), key=lambda process: process is not first):
        assert record.raised is not None
        yield Event(f"{record.raised.type}: {record.raised.message}", record.raised.type)


def _signs(found: list[Event]) -> Iterator[tuple[Event, Signature]]:
    for event in found:
        row = signature_in(event.text, said_by_exception=event.exception is not None)
        if row is not None:
            yield event, row


def _names(found: list[Event], kind: FailureClass) -> bool:
    return any(row.kind is kind for _, row in _signs(found))


def _from_role(found: list[Event], role: Role) -> Failure | None:
    return next((_failure(row.kind, event.text) for event, row in _signs(found) if row.role is role), None)


def _from_exception(found: list[Event]) -> Failure | None:
    """An exception that says nothing of the machine: the script's own."""
    for event in found:
        if event.exception is None or event.exception in _CASCADES | _PEER_GONE:
            continue
        if event.exception == "KeyboardInterrupt":
            return _failure(FailureClass.INTERRUPTED, event.text)
        if not event.exception.endswith("Warning") and signature_in(event.text) is None:
            return _failure(FailureClass.USER_ERROR, event.text)
    return _usage_error(found)


_USAGE = re.compile(
    r"^(?:usage: .*|[\w./-]+: error: .*|.*No such file or directory.*|.*can't open file .*|"
    r".*[Cc]ommand not found.*|.*Permission denied.*|.*No module named .*)$"
)


def _usage_error(found: list[Event]) -> Failure | None:
    return next(
        (_failure(FailureClass.USER_ERROR, event.text) for event in found[::-1] if _USAGE.match(event.text)),
        None,
    )


def _peer_gone(found: list[Event]) -> Failure | None:
    """A pipe to an environment's process broke, and nobody says why that process ended."""
    for event in found:
        if event.exception in _PEER_GONE:
            where = " ".join(event.frames)
            in_environment = _IN_ENVIRONMENT.search(where) or not event.frames
            return _failure(FailureClass.ENV_CRASH if in_environment else FailureClass.CRASH, event.text)
    return None


def _from_kill(found: list[Event], exit: Exit, oom_killed: bool) -> Failure | None:
    killed = [event.text for event in found if _KILLED.search(event.text)]
    by_kernel = exit.signal == signal.SIGKILL or exit.code == 137
    if oom_killed and (killed or by_kernel or found):
        return _failure(
            FailureClass.HOST_OOM, killed[0] if killed else "the kernel's out-of-memory killer acted"
        )
    if exit.signal == signal.SIGBUS or exit.code == 128 + signal.SIGBUS:
        return _failure(FailureClass.SHM, "ended by SIGBUS: mostly a full /dev/shm")
    return None


def _from_whole_log(log_tail: str) -> Failure | None:
    """Nothing after the last step: perhaps the step's own line tells it, or what came before."""
    wrong = gone_wrong(log_tail)
    return _failure(FailureClass.NUMERIC, wrong) if wrong else None


def _from_exit(exit: Exit, hung: bool) -> Failure:
    if hung:
        return _failure(FailureClass.HANG, "no tick for a long time, and no word of why")
    if exit.ended_by is EndedBy.STOKER:
        return _failure(FailureClass.CRASH, "one of its processes ended without a word")
    if exit.signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        return _failure(FailureClass.PREEMPTED, f"ended by {signal.Signals(exit.signal).name}")
    if exit.signal is not None:
        return _failure(FailureClass.CRASH, f"ended by signal {exit.signal}")
    return _failure(FailureClass.CRASH, f"exit code {exit.code}")
