"""Classes of failures; each has its own way back (`trials/failures/actions.py`)."""

from __future__ import annotations

from enum import StrEnum


class FailureClass(StrEnum):
    GPU_OOM = "gpu_oom"
    GPU_OOM_LIKE = "gpu_oom_like"
    """A refusal of cuDNN that is mostly a lack of memory in disguise."""
    HOST_OOM = "host_oom"
    SHM = "shm"
    LOADER_DIED = "loader_died"
    NCCL_TIMEOUT = "nccl_timeout"
    """Also gloo's."""
    NCCL_REMOTE = "nccl_remote"
    """A peer is gone; also gloo's."""
    NCCL_SYSTEM = "nccl_system"
    GPU_HW = "gpu_hw"
    NUMERIC = "numeric"
    ENV_CRASH = "env_crash"
    OVERFLOW = "overflow"
    """A size in a simulator went past 32 bits."""
    PORT = "port"
    DISK_FULL = "disk_full"
    USER_ERROR = "user_error"
    PREEMPTED = "preempted"
    INTERRUPTED = "interrupted"
    HANG = "hang"
    CRASH = "crash"
    """A signal or an exit code, and nothing that says why."""


class Role(StrEnum):
    ROOT = "root"
    """The trouble itself."""
    WEAK = "weak"
    """The trouble if nothing better is found: often another's."""
    CASCADE = "cascade"
    """What follows from somebody else's trouble."""
