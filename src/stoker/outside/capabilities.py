"""What can be measured on this machine, what not, and why. Asks only, and never makes a CUDA context."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from stoker.launch import procfs
from stoker.launch.reaper import become_subreaper
from stoker.outside import cgroup, host, pressure
from stoker.outside.core_waits import parse_schedstat
from stoker.outside.gpu.nvml import open_nvml
from stoker.outside.gpu.seam import Facts, Refused
from stoker.outside.machine import read_cores

GPM = "real work (GPM)"
PROCESS_TREE = "process tree (/proc)"


@dataclass(frozen=True, slots=True)
class Capability:
    name: str
    available: bool
    detail: str = ""
    """What was found."""
    reason: str = ""
    """Why it is not available, and what is lost without it."""


def all_capabilities() -> list[Capability]:
    return [*host_capabilities(), *gpu_capabilities()]


def host_capabilities() -> list[Capability]:
    return [
        _python(),
        _guarded(PROCESS_TREE, _proc),
        _guarded("cores allowed", _cores),
        _guarded("cgroup limits", _cgroup),
        _guarded("pressure (PSI)", _pressure),
        _guarded("waits for a core", _schedstat),
        _guarded("disk bytes per process", _process_io),
        _guarded("shared memory (/dev/shm)", _shm),
        _guarded("orphans come to Stoker", _subreaper),
        _guarded("signal by descriptor", _pidfd),
        _guarded("queue depth (sem_getvalue)", _queue_depth),
        _guarded("clock", _clock),
    ]


def _guarded(name: str, ask: Callable[[str], Capability]) -> Capability:
    try:
        return ask(name)
    except Exception as error:  # whatever a strange machine answers, the other lines are still worth having
        return Capability(name, False, reason=f"{type(error).__name__}: {error}")


def _python() -> Capability:
    return Capability("Python of Stoker", True, f"{sys.version.split()[0]}, {sys.executable}")


def _proc(name: str) -> Capability:
    pids = procfs.list_pids()
    if pids is None or procfs.read_stat(os.getpid()) is None:
        return Capability(name, False, reason="/proc cannot be read: nothing is seen from outside")
    if procfs.read("/proc/1/stat") is None:
        return Capability(name, True, "own processes only (/proc is mounted with hidepid)")
    return Capability(name, True, f"{len(pids)} processes visible")


def _cores(name: str) -> Capability:
    cores = read_cores(os.getpid(), cgroup.find(os.getpid()))
    if cores.allowed is None:
        return Capability(name, False, reason="neither affinity nor the number of cores can be read")
    quota = "none" if cores.quota is None else f"{cores.quota:g}"
    detail = f"{cores.allowed:g} of {cores.machine} (affinity {len(cores.affinity)}, quota {quota})"
    return Capability(name, True, detail)


def _cgroup(name: str) -> Capability:
    group = cgroup.find(os.getpid())
    if group.version is None:
        return Capability(name, False, reason="no cgroup is mounted: throttling is not measured")
    limits = []
    if group.quota_cores is not None:
        limits.append(f"{group.quota_cores:g} cores")
    if group.memory_limit_bytes is not None:
        limits.append(f"{group.memory_limit_bytes / 2**30:.1f} GiB")
    return Capability(name, True, f"version {group.version}, {' and '.join(limits) or 'no limit set'}")


def _pressure(name: str) -> Capability:
    text = procfs.read_text("/proc/pressure/cpu")
    if text is None or pressure.parse(text) == pressure.NOT_MEASURED:
        return Capability(
            name,
            False,
            reason="the kernel does not keep it (CONFIG_PSI, boot option psi=1): CPU and disk "
            "waits of the machine are not measured",
        )
    return Capability(name, True, "cpu, io, memory")


def _schedstat(name: str) -> Capability:
    """Kernels that do not count it give zeros."""
    counted = parse_schedstat(procfs.read_text("/proc/self/schedstat") or "")
    if counted is None or not counted[0]:
        return Capability(
            name,
            False,
            reason="the kernel does not count it (CONFIG_SCHED_INFO): whether others slow a training down "
            "(SK504), or a thread of its own (SK206), cannot be told",
        )
    return Capability(name, True, "schedstat")


def _process_io(name: str) -> Capability:
    if host.parse_process_io(procfs.read_text("/proc/self/io") or "") is None:
        return Capability(name, False, reason="/proc/<pid>/io is not readable: disk bytes of the run unknown")
    return Capability(name, True, "/proc/<pid>/io")


def _shm(name: str) -> Capability:
    room = os.statvfs("/dev/shm")
    total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    return Capability(name, True, f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free")


def _subreaper(name: str) -> Capability:
    answer = become_subreaper()
    if answer:
        return Capability(name, True, "PR_SET_CHILD_SUBREAPER")
    reason = f"{answer.reason}; processes that lose parent and marker are missed by --for"
    return Capability(name, False, reason=reason)


def _pidfd(name: str) -> Capability:
    os.close(os.pidfd_open(os.getpid()))
    return Capability(name, True, "pidfd")


def _queue_depth(name: str) -> Capability:
    """What a queue's `qsize` rests on; missing on some systems."""
    value = multiprocessing.get_context("fork").Semaphore(3).get_value()
    return Capability(name, value == 3, "readable", f"gave {value} for 3" if value != 3 else "")


def _clock(name: str) -> Capability:
    source = procfs.read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    calls = 2000
    began = time.perf_counter_ns()
    for _ in range(calls):
        time.perf_counter_ns()
    each_ns = (time.perf_counter_ns() - began) / calls
    detail = f"{source.strip()}, {each_ns:.0f} ns a reading"
    slow = each_ns > 1000
    return Capability(name, not slow, detail, "reading the clock is slow: hooks cost more" if slow else "")


def gpu_capabilities(nvml: ModuleType | None = None) -> list[Capability]:
    """NVML and, per device, GPM. `nvml` takes the place of the library in tests."""
    gpus = open_nvml(nvml)
    try:
        box = gpus.describe()
    finally:
        gpus.close()
    if box.source == "cpu":
        return [Capability("NVML", False, reason=f"{box.reason}; the device is the CPU")]
    found = [Capability("NVML", True, f"driver {box.driver or 'unknown'}, {len(box.devices)} device(s)")]
    for index, device in enumerate(box.devices):
        found += _device(f"GPU {index}", device)
    return found


def _device(name: str, device: Facts | Refused) -> list[Capability]:
    if isinstance(device, Refused):
        return [Capability(name, False, reason=device.reason)]
    model = device.name if isinstance(device.name, str) else "name unknown"
    detail = f"{model} (a MIG slice: unverified)" if device.mig else model
    return [Capability(name, True, detail), _gpm(device, f"{name} {GPM}")]


def has_gpm(found: Sequence[Capability]) -> bool | None:
    """Do the counters of all GPUs tell real work? None where there is no GPU."""
    told = [one.available for one in found if one.name.endswith(GPM)]
    return all(told) if told else None


def _gpm(device: Facts, name: str) -> Capability:
    if not isinstance(device.gpm, Refused):
        return Capability(name, True, "Hopper or newer")
    lost = 'busy time comes from NVML, "real work" needs a deep window'
    return Capability(name, False, reason=f"{device.gpm.reason}; {lost}")
