"""How a run died, from its words. Ordered: the root of the trouble before its echo.

`nccl` alone is no failure: its version line and the usual `destroy_process_group() was not called` warning
hold the word too.
"""

from __future__ import annotations

import re
from enum import StrEnum

from stoker.ingest.failure_signatures import SIGNATURES
from stoker.model.failure import FailureClass


class Failure(StrEnum):
    OOM = "out of memory"
    OVERFLOW = "integer overflow in the simulator"
    PORT = "port in use"
    RENDER = "graphics version"
    NCCL = "NCCL error"
    TIMEOUT = "timeout"
    OOM_OR_NCCL = "out of memory or NCCL"
    BUDGET = "time budget not reached"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    NOT_RUN = "not run"


_OF_CLASS = {
    FailureClass.GPU_OOM: Failure.OOM,
    FailureClass.HOST_OOM: Failure.OOM,
    FailureClass.OVERFLOW: Failure.OVERFLOW,
    FailureClass.PORT: Failure.PORT,
    FailureClass.NCCL_TIMEOUT: Failure.NCCL,
    FailureClass.NCCL_REMOTE: Failure.NCCL,
    FailureClass.NCCL_SYSTEM: Failure.NCCL,
}
"""What a bench's console is judged by, of the one table in `failure_signatures.py`."""

_ORDER = (Failure.OOM, Failure.OVERFLOW, Failure.PORT, Failure.RENDER, Failure.NCCL)


def _words(failure: Failure) -> re.Pattern[str]:
    rows = [row.words.pattern for row in SIGNATURES if _OF_CLASS.get(row.kind) is failure]
    own = {Failure.OOM: r"out of memory|failed to allocate", Failure.RENDER: r"GLSL [\d.]+ is not supported"}
    return re.compile("|".join([*rows, *([own[failure]] if failure in own else [])]), re.IGNORECASE)


_PATTERNS: tuple[tuple[Failure, re.Pattern[str]], ...] = (
    *((failure, _words(failure)) for failure in _ORDER),
    (Failure.INTERRUPTED, re.compile(r"^KeyboardInterrupt\b")),
    (Failure.ERROR, re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): ")),
)
_RANK = {kind: rank for rank, (kind, _) in enumerate(_PATTERNS)}
_QUICK = re.compile(
    r"memory|allocate|non-negative|EADDR|already in use|GLSL|DistBackend|NCCL|nccl|Interrupt|Error|Exception"
    r"|Watchdog"
)


def failure_in(line: str) -> Failure | None:
    if not _QUICK.search(line):
        return None
    return next((kind for kind, pattern in _PATTERNS if pattern.search(line)), None)


def is_nearer_the_root(new: Failure, old: Failure | None) -> bool:
    return old is None or _RANK[new] < _RANK[old]


_STATUS_WORDS: tuple[tuple[str, Failure], ...] = (
    ("oom_or_nccl", Failure.OOM_OR_NCCL),
    ("oom", Failure.OOM),
    ("negative_shape", Failure.OVERFLOW),
    ("nccl", Failure.NCCL),
    ("timeout", Failure.TIMEOUT),
    ("glsl", Failure.RENDER),
    ("budget", Failure.BUDGET),
    ("unrun", Failure.NOT_RUN),
    ("in_progress", Failure.NOT_RUN),
)


def failure_of_status(status: str) -> Failure:
    """The class a status or note of the bench stands for."""
    lowered = status.lower()
    return next((kind for word, kind in _STATUS_WORDS if word in lowered), Failure.ERROR)
