# ruff: noqa: E501
"""Tails of failures that could not be provoked here, written after what the tools are known to print.

    python benchmarks/failures/write_quoted.py DIR

Once the GPU cases of provoke.py have been run, real ones stand beside them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

STEPS = "".join(f"step {i} loss {1.0 / (i + 1):.3f}\n" for i in range(4))
TRACE = 'Traceback (most recent call last):\n  File "train.py", line 31, in <module>\n    loss.backward()\n'
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB "
    "of which 1.12 GiB is free. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.\n"
)
WATCHDOG = (
    "[rank0]:[E1116 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing out.\n"
)
ELASTIC = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n"
PT = "the texts of PyTorch 2.x"
NV = "the texts of the NVIDIA driver"

CASES: dict[str, tuple[str, str, str, int | None, int | None, str, str]] = {
    # name: (script, class, looks like, code, signal, origin, text)
    "q_oom": ("q_oom", "gpu_oom", "", 1, None, PT, STEPS + TRACE + OOM),
    "q_oom_rank1": ("q_oom_rank1", "gpu_oom", "nccl_timeout", 1, None, PT,
        STEPS + "".join(f"[rank1]: {line}\n" for line in (TRACE + OOM).splitlines()) + WATCHDOG + ELASTIC),
    "q_cublas": ("q_cublas", "gpu_oom", "", 1, None, PT,
        STEPS + TRACE + "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n"),
    "q_warp": ("q_warp", "gpu_oom", "nccl_system", 1, None, "the texts of Warp 1.11",
        "NCCL version 2.27.5\n" + STEPS + "Warp CUDA error 2: out of memory (in function wp_alloc_device)\n" + TRACE
        + "RuntimeError: Failed to allocate 2147483648 bytes on device 'cuda:0'\n"),
    "q_launch_blocking": ("q_launch", "user_error", "gpu_hw", 1, None, PT,
        STEPS + TRACE + "torch.AcceleratorError: CUDA error: device-side assert triggered\nCUDA kernel errors might be "
        "asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging "
        "consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"),
    "q_cudnn": ("q_cudnn", "gpu_oom_like", "user_error", 1, None, PT,
        STEPS + TRACE + "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in "
        "a non-contiguous input.\n"),
    "q_cudnn_bn": ("q_cudnn_bn", "gpu_oom_like", "", 1, None, PT,
        TRACE + "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED\n"),
    "q_cudnn_rank": ("q_cudnn_rank", "gpu_oom_like", "nccl_remote", 1, None, PT,
        "".join(f"[rank0]: {line}\n" for line in (TRACE + "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED").splitlines())
        + "[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error, "
        "ncclRemoteError\n"),
    "q_watchdog": ("q_watchdog", "nccl_timeout", "", None, 6, PT, STEPS + WATCHDOG
        + "terminate called after throwing an instance of 'c10::DistBackendError'\n"),
    "q_watchdog_user": ("q_watchdog_user", "user_error", "nccl_timeout", 1, None, PT,
        STEPS + "".join(f"[rank1]: {line}\n" for line in (TRACE + "KeyError: 'lr'").splitlines()) + WATCHDOG),
    "q_remote": ("q_remote", "nccl_remote", "", 1, None, PT, STEPS + "[rank0]: torch.distributed.DistBackendError: NCCL "
        "error in: ProcessGroupNCCL.cpp:3000, remote process exited or there was a network error\n[rank0]: "
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"),
    "q_peer": ("q_peer", "nccl_remote", "", 1, None, PT, STEPS + TRACE
        + "RuntimeError: [/pytorch/third_party/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234\n"),
    "q_system": ("q_system", "nccl_system", "", 1, None, PT, STEPS + TRACE + "torch.distributed.DistBackendError: NCCL "
        "error in: ProcessGroupNCCL.cpp:2690, unhandled system error\nncclSystemError: System call (e.g. socket, malloc) "
        "or external library call failed\n"),
    "q_cuda_failure": ("q_cuda_failure", "nccl_system", "", 1, None, PT, STEPS
        + "node1:77:90 [0] init.cc:1840 NCCL WARN Cuda failure 'invalid argument'\n"),
    "q_invalid": ("q_invalid", "nccl_system", "user_error", 1, None, PT, TRACE + "torch.distributed.DistBackendError: NCCL "
        "error in: NCCLUtils.cpp:94, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.5\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nDuplicate GPU detected : rank 1 and rank 0 "
        "both on CUDA device 40000\n"),
    "q_xid": ("q_xid", "gpu_hw", "", 1, None, NV, STEPS + "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, GPU has fallen off the "
        "bus.\n" + TRACE + "RuntimeError: CUDA error: unspecified launch failure\n"),
    "q_ecc": ("q_ecc", "gpu_hw", "user_error", 1, None, PT, STEPS + TRACE
        + "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"),
    "q_lost": ("q_lost", "gpu_hw", "nccl_remote", 1, None, NV, STEPS + "Unable to determine the device handle for GPU"
        "0000:41:00.0: GPU is lost. Reboot the system to recover this GPU\n[rank0]: ncclRemoteError: remote process exited\n"),
    "q_killed": ("q_killed", "host_oom", "crash", 137, None, "the texts of Slurm", STEPS
        + "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. Some of the step tasks have been OOM Killed.\nKilled\n"),
    "q_cgroup": ("q_cgroup", "host_oom", "loader_died", 1, None, "the texts of Linux and PyTorch", STEPS
        + "Memory cgroup out of memory: Killed process 4312 (python) total-vm:91234kB\n" + TRACE
        + "RuntimeError: DataLoader worker (pid 4312) is killed by signal: Killed.\n"),
    "q_shm": ("q_shm", "shm", "loader_died", 1, None, PT, STEPS + "ERROR: Unexpected bus error encountered in worker. This "
        "might be caused by insufficient shared memory (shm).\n" + TRACE
        + "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. It is possible that dataloader's workers "
        "are out of shared memory. Please try to raise your shared memory limit.\n"),
}  # fmt: skip


def main() -> int:
    folder = Path(sys.argv[1])
    for name, (script, kind, like, code, signal, origin, text) in CASES.items():
        entry = {"class": kind, "looks_like": like, "script": script, "origin": f"written after {origin}"}
        entry |= {"code": code, "signal": signal, "hung": False}
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
        (folder / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
