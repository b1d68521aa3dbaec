"""The way back from each class of failure (who tunes does it, who reads is told it)."""

from __future__ import annotations

from stoker.model.failure import FailureClass

ACTIONS: dict[FailureClass, str] = {
    FailureClass.GPU_OOM: "back off this setting; its size is a ceiling and is not tried again",
    FailureClass.GPU_OOM_LIKE: "once more with less; if it fails again the script is at fault",
    FailureClass.HOST_OOM: "fewer workers or environments, less prefetching",
    FailureClass.SHM: "fewer workers, the file_system sharing strategy, or a larger /dev/shm",
    FailureClass.LOADER_DIED: "look for a lack of memory first; else fewer workers",
    FailureClass.NCCL_TIMEOUT: "find the rank that did not report it; once more, then one GPU alone",
    FailureClass.NCCL_REMOTE: "find the rank that died first",
    FailureClass.NCCL_SYSTEM: "once more; then NCCL_P2P_DISABLE=1 on a box without NVLink",
    FailureClass.GPU_HW: "stop using this GPU; its administrator should look at it",
    FailureClass.NUMERIC: "stop: this setting breaks the training",
    FailureClass.ENV_CRASH: "start the environments again, and count it",
    FailureClass.OVERFLOW: "fewer environments; a size in the simulator is past 32 bits",
    FailureClass.PORT: "once more with another port",
    FailureClass.DISK_FULL: "make room on the disk; no setting helps",
    FailureClass.USER_ERROR: "stop: the script or its command line is at fault; never tried again as it is",
    FailureClass.PREEMPTED: "again, for free",
    FailureClass.INTERRUPTED: "stop: somebody asked for it",
    FailureClass.HANG: "end it with its tree, once more",
    FailureClass.CRASH: "once more; the same end again is the script's fault",
}
