"""How a run died, from its words. Ordered: the root of the trouble before its echo.

`nccl` alone is no failure: its version line and the usual `destroy_process_group() was not called` warning
hold the word too.
"""

from __future__ import annotations

import re
from enum import StrEnum


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


_PATTERNS: tuple[tuple[Failure, re.Pattern[str]], ...] = (
    (Failure.OOM, re.compile(r"out of memory|failed to allocate|OutOfMemoryError", re.I)),
    (Failure.OVERFLOW, re.compile(r"array shapes must be non-negative", re.I)),
    (Failure.PORT, re.compile(r"EADDRINUSE|address already in use", re.I)),
    (Failure.RENDER, re.compile(r"GLSL [\d.]+ is not supported", re.I)),
    (Failure.NCCL, re.compile(r"DistBackendError|NCCL (?:error|failure|timeout)|ncclSystemError"
                              r"|ncclInternalError|ncclUnhandledCudaError|Watchdog caught collective", re.I)),
    (Failure.INTERRUPTED, re.compile(r"^KeyboardInterrupt\b")),
    (Failure.ERROR, re.compile(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception): ")),
)  # fmt: skip
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
