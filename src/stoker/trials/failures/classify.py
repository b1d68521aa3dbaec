"""The class of a failed trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from stoker.model.exit import Exit
from stoker.model.record import ProcessRecord


class FailureClass(StrEnum):
    GPU_OOM = "gpu_oom"
    GPU_OOM_LIKE = "gpu_oom_like"
    HOST_OOM = "host_oom"
    SHM = "shm"
    LOADER_DIED = "loader_died"
    NCCL_TIMEOUT = "nccl_timeout"
    NCCL_REMOTE = "nccl_remote"
    NCCL_SYSTEM = "nccl_system"
    GPU_HW = "gpu_hw"
    NUMERIC = "numeric"
    ENV_CRASH = "env_crash"
    OVERFLOW = "overflow"
    USER_ERROR = "user_error"
    PREEMPTED = "preempted"
    INTERRUPTED = "interrupted"
    HANG = "hang"
    CRASH = "crash"
    """A signal or an exit code, and nothing that says why."""


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
) -> Failure | None:
    """None where the trial ended well, or was ended at its time limit."""
    raise NotImplementedError
