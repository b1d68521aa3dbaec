"""Why a command ended, as far as its exit tells. What happened inside (the exception and its line) comes
from inside and is put beside this later."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum

from stoker.launch import procfs
from stoker.model.exit import EndedBy, Exit


class FailureKind(StrEnum):
    OK = "ok"
    EXIT_CODE = "exit-code"
    SIGNAL = "signal"
    TIME_LIMIT = "time-limit"


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    text: str
    hint: str = ""


def oom_kills() -> int | None:
    """How many processes the kernel's out-of-memory killer has ended on this machine, containers counted."""
    return parse_oom_kills(procfs.read_text("/proc/vmstat") or "")


def parse_oom_kills(vmstat: str) -> int | None:
    found = re.search(r"^oom_kill (\d+)$", vmstat, re.MULTILINE)
    return int(found[1]) if found else None


def classify(exit: Exit, *, oom_before: int | None = None, oom_after: int | None = None) -> Failure:
    if exit.ended_by is EndedBy.TIME_LIMIT:
        return Failure(FailureKind.TIME_LIMIT, "ended by Stoker at the time limit")
    if exit.signal is not None:
        return _from_signal(exit, oom_before, oom_after)
    if exit.code == 0:
        return Failure(FailureKind.OK, "ended normally")
    if exit.code in _SHELL_SIGNALS:
        name = _name(exit.shell_code - 128)
        return Failure(FailureKind.EXIT_CODE, f"exit code {exit.code}", f"a shell reports {name} this way")
    return Failure(FailureKind.EXIT_CODE, f"exit code {exit.code}")


_SHELL_SIGNALS = frozenset(
    128 + number
    for number in (
        signal.SIGINT,
        signal.SIGABRT,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGTERM,
        signal.SIGBUS,
    )
)


def _from_signal(exit: Exit, oom_before: int | None, oom_after: int | None) -> Failure:
    assert exit.signal is not None
    sender = " after the user asked for it" if exit.ended_by is EndedBy.USER else ""
    text = f"ended by {_name(exit.signal)}{sender}"
    return Failure(FailureKind.SIGNAL, text, _hint(exit, oom_before, oom_after))


def _hint(exit: Exit, oom_before: int | None, oom_after: int | None) -> str:
    if exit.signal == signal.SIGBUS:
        return "often a full /dev/shm: DataLoader workers pass batches through it"
    if exit.signal != signal.SIGKILL or exit.ended_by is EndedBy.USER:
        return ""
    if oom_before is None or oom_after is None:
        return "sent by somebody, or by the kernel out of memory; which one cannot be told here"
    if oom_after > oom_before:
        return (
            "the kernel's out-of-memory killer ended "
            f"{oom_after - oom_before} process(es) on this machine during the run"
        )
    return "the kernel's out-of-memory killer did not act during the run; somebody sent it"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
