"""The one table of how failures read in a log: class, role, words. Union of what PyTorch, NCCL, NVIDIA's
resiliency tools, Warp and the trainers we know print (2026-11).

A line of advice is no evidence ("try setting …", "might be caused by …"), unless it is the message of an
exception, and `nccl` alone is no failure: version lines and the usual warning about destroy_process_group
hold the word too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.model.failure import FailureClass, Role


@dataclass(frozen=True, slots=True)
class Signature:
    kind: FailureClass
    role: Role
    words: re.Pattern[str]


def _signature(kind: FailureClass, role: Role, words: str) -> Signature:
    return Signature(kind, role, re.compile(words, re.IGNORECASE))


SIGNATURES: tuple[Signature, ...] = (
    _signature(
        FailureClass.GPU_HW,
        Role.ROOT,
        r"NVRM: Xid \(|uncorrectable (?:NVLink|ECC)|ECC error|fallen off the bus|GPU is lost|"
        r"CUDA error: (?:unspecified launch failure|hardware stack error)|NVLink.*fatal|PCIe.*fatal",
    ),
    _signature(
        FailureClass.GPU_OOM,
        Role.ROOT,
        r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|"
        r"^(?:torch\.)?(?:cuda\.)?OutOfMemoryError\b|HIP out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
        r"Warp.*error 2: out of memory|Failed to allocate \d+ bytes on device '?cuda|"
        r"RESOURCE_EXHAUSTED: Out of memory",
    ),
    _signature(
        FailureClass.SHM,
        Role.ROOT,
        r"Unexpected bus error encountered in worker|insufficient shared memory|"
        r"unable to (?:write to file|allocate shared memory|open shared memory|mmap).*torch_|"
        r"received 0 items of ancdata|Too many open files|No space left on device.*(?:/dev/shm|/?torch_)|"
        r"(?:/dev/shm|/?torch_).*No space left on device",
    ),
    _signature(
        FailureClass.HOST_OOM,
        Role.ROOT,
        r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|Memory cgroup out of memory|"
        r"oom_kill event|Out of memory: Killed process|oom-kill:|^MemoryError\b|std::bad_alloc|"
        r"Unable to allocate [\d.]+ [KMGT]iB|Cannot allocate memory|"
        r"Failed to allocate \d+ bytes on device '?cpu",
    ),
    _signature(FailureClass.GPU_OOM_LIKE, Role.ROOT, r"CUDNN_STATUS_NOT_SUPPORTED"),
    _signature(
        FailureClass.OVERFLOW,
        Role.ROOT,
        r"array shapes must be non-negative|negative (?:shape|dimensions? are not allowed)|"
        r"Trying to create tensor with negative dimension|invalid shape dimension -\d+",
    ),
    _signature(
        FailureClass.NUMERIC,
        Role.ROOT,
        r"\b(?:loss|grad(?:ient)?s?|norm|value|reward|output|logits?|weights?)\b[^\n]{0,40}?"
        r"(?:\bnan\b|\b-?inf(?:inity)?\b|non-?finite)|non-?finite|returned nan values|"
        r"\b(?:nan|inf) (?:in|loss|detected|values?)|\bdiverged\b|\bexploded\b|NonFinite|"
        r"FloatingPointError|contains? (?:NaN|inf)|found invalid values:?",
    ),
    _signature(FailureClass.PORT, Role.ROOT, r"EADDRINUSE|address already in use"),
    _signature(FailureClass.DISK_FULL, Role.ROOT, r"No space left on device|Disk quota exceeded"),
    _signature(
        FailureClass.PREEMPTED,
        Role.ROOT,
        r"DUE TO TIME LIMIT|DUE TO PREEMPTION|DUE TO NODE FAILURE|"
        r"SLURM.*(?:preempt|NODE_FAIL)|spot.*interrupt",
    ),
    _signature(
        FailureClass.NCCL_TIMEOUT,
        Role.WEAK,
        r"Watchdog caught collective operation timeout|watchdog got stuck for \d+ seconds|NCCL.{0,20}timeout|"
        r"Timed out waiting \d+ ?ms for (?:recv|send)|Collective operation timed out|"
        r"Ranks? [\d, ]+ failed to pass monitoredBarrier|monitored_?barrier.*tim|wait timeout after \d+ms|"
        r"timed out after \d+ seconds waiting for clients|Gloo.*timed? ?out|Heartbeat monitor timed out",
    ),
    _signature(
        FailureClass.NCCL_REMOTE,
        Role.CASCADE,
        r"ncclRemoteError|remote process exited|Connection (?:closed|reset) by peer|recvBytes|"
        r"Connection was likely closed|Broken pipe.*rank|failed to recv, got 0 bytes|Socket Timeout",
    ),
    _signature(
        FailureClass.NCCL_SYSTEM,
        Role.WEAK,
        r"ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|NCCL WARN Cuda failure|"
        r"NCCL (?:error|failure)|DistBackendError",
    ),
    _signature(
        FailureClass.LOADER_DIED,
        Role.WEAK,
        r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:exited unexpectedly|is killed by signal)",
    ),
)

_ADVICE = re.compile(
    r"\btry (?:reducing|setting|to|a )|\bif you (?:see|get|run|hit)|\bm(?:ight|ay) be|\bc(?:an|ould) be|"
    r"\bconsider\b|\b(?:hint|tip|note)\s*:|compile with `?TORCH_USE_CUDA_DSA|\bsee https?:|"
    r"\bwill (?:retry|fall back)|\bto (?:avoid|prevent)\b|\bin (?:case of|order to)\b|\bon (?:oom|failure)\b|"
    r"\bfallback\b",
    re.IGNORECASE,
)


def signature_in(text: str, *, said_by_exception: bool = True) -> Signature | None:
    """The first row of the table that the text shows. In a plain line, words after advice do not count."""
    advice = None if said_by_exception else _ADVICE.search(text)
    end = advice.start() if advice else len(text)
    return next(
        (row for row in SIGNATURES if (match := row.words.search(text)) and match.start() < end), None
    )
