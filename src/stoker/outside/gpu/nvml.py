"""The GPUs as NVML tells them. Makes no CUDA context and needs no rights beyond the user's.

GPM is asked at every look. All else is dear: on an H200 a full look took 3 ms of CPU (driver 580, 2026-11).
Without GPM the time axis comes from the driver's own samples since the last dear look (it keeps them for some
14 s); where it does not hand those out, from its `utilization.gpu`, asked more often than one looks.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from types import ModuleType
from typing import Any

from stoker.outside.gpu.calls import Calls, part, whole
from stoker.outside.gpu.cpu import CpuDevice
from stoker.outside.gpu.gpm import Gpm
from stoker.outside.gpu.seam import (
    Answers,
    Box,
    Facts,
    GpmInterval,
    Gpus,
    Refused,
    Using,
    UtilSamples,
    known,
    tells_share,
)

LIBRARY = "libnvidia-ml.so.1"
NO_GPM = "STOKER_NO_GPM"
# Numbers of nvml.h: a binding that lacks the names has the calls all the same.
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_GPU_UTILIZATION_SAMPLES = 1
_MEMORY_V2 = 0x02000028
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_POLLS_MAX = 1000
# Dear looks after which the dearest question is asked again. (CPU on an H200, driver 580, 2026-11: energy 4.2
# ms, samples 2.9 ms, all the others together 0.5 ms; GPM, at every look, 2.3 ms.)
_ENERGY_EVERY = 30
_EMPTY_LOOKS_MAX = 3


def find_gpus() -> Gpus:
    """NVML where the driver's library is there; a machine without it does not even load the binding."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        return CpuDevice(f"no NVIDIA driver here ({error})")
    return open_nvml()


def open_nvml(nvml: ModuleType | None = None) -> Gpus:
    """`nvml` takes the place of the binding in tests."""
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError as error:
            return CpuDevice(f"nvidia-ml-py is not installed: {error}")
    calls = Calls(nvml)
    for answer in (calls.ask("nvmlInit"), calls.number("nvmlDeviceGetCount")):
        if isinstance(answer, Refused):
            calls.ask("nvmlShutdown")
            return CpuDevice(f"NVML does not answer ({answer.reason})")
    return NvmlGpus(calls, answer, no_gpm=os.environ.get(NO_GPM, "") not in ("", "0"))


class NvmlGpus:
    def __init__(self, calls: Calls, count: int, *, no_gpm: bool) -> None:
        self._calls = calls
        self._no_gpm = no_gpm
        self._devices: list[Device | Refused] = []
        for index in range(count):
            handle = calls.ask("nvmlDeviceGetHandleByIndex", index)
            refused = isinstance(handle, Refused)
            self._devices.append(handle if refused else Device(calls, handle, no_gpm=no_gpm))
        for device in list(self._devices):
            if isinstance(device, Device):
                self._devices += device.slices()

    def describe(self) -> Box:
        driver = self._calls.text("nvmlSystemGetDriverVersion")
        return Box(
            source="nvml",
            devices=tuple(
                device.facts() if isinstance(device, Device) else device for device in self._devices
            ),
            driver=known(driver),
            no_gpm=self._no_gpm,
            extra={"driver": driver.reason} if isinstance(driver, Refused) else {},
        )

    def ask(self, device: int, *, dear: bool) -> Answers:
        chosen = self._devices[device]
        return Answers() if isinstance(chosen, Refused) else chosen.ask(dear=dear)

    def poll(self, device: int) -> bool:
        chosen = self._devices[device]
        return not isinstance(chosen, Refused) and chosen.poll()

    def close(self) -> None:
        for device in self._devices:
            if isinstance(device, Device):
                device.close()
        self._calls.ask("nvmlShutdown")


class Device:
    """One GPU, or with a `parent` one MIG slice of it. What is done for slices was never tried on one."""

    def __init__(self, calls: Calls, handle: Any, *, no_gpm: bool, parent: Any = None) -> None:
        self._calls, self._handle, self._parent = calls, handle, parent
        self._whole = handle if parent is None else parent
        self._no_gpm = no_gpm
        self._gpm: Gpm | None = None
        self._seen_us: int | None = None
        self._waited = 0
        self._no_samples: Refused | None = None
        self._polled: list[float] = []
        self._dear_looks = 0
        self._by_gpm = False
        self.gpm_refused = self._open_gpm()

    def facts(self) -> Facts:
        ask = self._calls
        memory, name = self._memory(), "nvmlDeviceGetMemoryInfo"
        parent = ask.text("nvmlDeviceGetUUID", self._parent) if self._parent is not None else None
        return Facts(
            uuid=ask.text("nvmlDeviceGetUUID", self._handle),
            name=ask.text("nvmlDeviceGetName", self._handle),
            memory_total_bytes=part(memory, "total", name),
            power_limit_mw=ask.number("nvmlDeviceGetEnforcedPowerLimit", self._whole),
            power_default_mw=ask.number("nvmlDeviceGetPowerManagementDefaultLimit", self._whole),
            sm_clock_max_mhz=ask.number("nvmlDeviceGetMaxClockInfo", self._whole, _CLOCK_SM),
            gpm=self.gpm_refused or True,
            mig=self._parent is not None,
            parent_uuid=parent,
        )

    def slices(self) -> list[Device | Refused]:
        """Of a GPU in MIG mode; there are none where the mode is off or not known. Where there are and they
        cannot be found, one refusal stands for all."""
        mode = self._calls.ask("nvmlDeviceGetMigMode", self._handle)
        if isinstance(mode, Refused) or not mode[0]:
            return []
        most = self._calls.number("nvmlDeviceGetMaxMigDeviceCount", self._handle)
        if isinstance(most, Refused):
            return [most]
        found: list[Device | Refused] = []
        refused: list[Device | Refused] = []
        for index in range(most):
            handle = self._calls.ask("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
            if not isinstance(handle, Refused):
                found.append(Device(self._calls, handle, no_gpm=self._no_gpm, parent=self._handle))
            elif not _nothing_there(handle):  # of a place that is not taken
                refused.append(handle)
        return found or refused[:1]

    def ask(self, *, dear: bool) -> Answers:
        gpm = self._gpm.look() if self._gpm is not None else self.gpm_refused
        self._by_gpm = _tells_busy(gpm)
        if dear:
            return Answers(gpm, **self._dear())
        if self._by_gpm or self._no_samples is None:  # the driver keeps its samples for us
            return Answers(gpm)
        return Answers(gpm, **self._rate())

    def _rate(self) -> dict[str, Any]:
        polled, self._polled = tuple(self._polled), []
        rate = part(self._rates(), "gpu", "nvmlDeviceGetUtilizationRates")
        return {"utilization_pct": rate, "polled_pct": polled}

    def poll(self) -> bool:
        if self._by_gpm or self._no_samples is None:
            return False
        rate = part(self._rates(), "gpu", "nvmlDeviceGetUtilizationRates")
        if isinstance(rate, Refused):
            return False
        if len(self._polled) < _POLLS_MAX:
            self._polled.append(float(rate))
        return True

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()

    def _dear(self) -> dict[str, Any]:
        ask, handle = self._calls, self._handle
        reasons = ask.first(
            ("nvmlDeviceGetCurrentClocksEventReasons", handle),
            ("nvmlDeviceGetCurrentClocksThrottleReasons", handle),  # drivers before 535
        )
        number, self._dear_looks = self._dear_looks, self._dear_looks + 1
        samples = self._samples()
        return {
            "samples": samples,
            **({} if tells_share(samples) else self._rate()),
            "memory_used_bytes": part(self._memory(), "used", "nvmlDeviceGetMemoryInfo"),
            "sm_clock_mhz": ask.number("nvmlDeviceGetClockInfo", handle, _CLOCK_SM),
            "throttle_bits": whole(reasons, "nvmlDeviceGetCurrentClocksEventReasons"),
            "power_mw": ask.number("nvmlDeviceGetPowerUsage", handle),
            "temperature_c": ask.number("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU),
            "processes": self._processes(),
            **(self._energy() if number % _ENERGY_EVERY == 0 else {}),
        }

    def _energy(self) -> dict[str, Any]:
        return {"energy_mj": self._calls.number("nvmlDeviceGetTotalEnergyConsumption", self._handle)}

    def _open_gpm(self) -> Refused | None:
        """None where it works."""
        if self._no_gpm:
            return Refused(f"GPM was switched off ({NO_GPM})")
        support = self._calls.ask("nvmlGpmQueryDeviceSupport", self._whole)
        supported = part(support, "isSupportedDevice", "nvmlGpmQueryDeviceSupport")
        if isinstance(supported, Refused):
            return supported
        if not supported:
            return Refused("this card has no GPM (it came with Hopper)")
        take = self._taker()
        if isinstance(take, Refused):
            return take
        self._gpm = Gpm(self._calls, take)
        return self._gpm.refused

    def _taker(self) -> Any:
        if self._parent is None:
            return lambda sample: self._calls.ask("nvmlGpmSampleGet", self._handle, sample)
        number = self._calls.number("nvmlDeviceGetGpuInstanceId", self._handle)
        if isinstance(number, Refused):
            return number
        return lambda sample: self._calls.ask("nvmlGpmMigSampleGet", self._parent, number, sample)

    def _rates(self) -> Any:
        return self._calls.ask("nvmlDeviceGetUtilizationRates", self._handle)

    def _memory(self) -> Any:
        """The newer form does not count what the driver keeps for itself, as nvidia-smi."""
        name = "nvmlDeviceGetMemoryInfo"
        return self._calls.first((name, self._handle, _MEMORY_V2), (name, self._handle))

    def _samples(self) -> UtilSamples | Refused:
        if self._no_samples is not None:
            return self._no_samples
        since_us = self._seen_us
        answer = self._calls.ask(
            "nvmlDeviceGetSamples", self._handle, _GPU_UTILIZATION_SAMPLES, since_us or 0
        )
        if isinstance(answer, Refused):
            return self._nothing_new(answer)
        kind, raw = answer
        samples = tuple(_sample(kind, one) for one in raw if one.timeStamp > (since_us or 0))
        self._seen_us = max((stamp for stamp, _ in samples), default=since_us)
        return UtilSamples(since_us, samples)

    def _nothing_new(self, answer: Refused) -> UtilSamples | Refused:
        """The driver says so by refusing. One that never has any is not asked for ever."""
        if _nothing_there(answer) and (self._seen_us or self._waited < _EMPTY_LOOKS_MAX):
            self._waited += 1
            return UtilSamples(self._seen_us, ())
        self._no_samples = answer
        return answer

    def _processes(self) -> tuple[Using, ...] | Refused:
        name = "nvmlDeviceGetComputeRunningProcesses"
        answer = self._calls.ask(name, self._handle)
        if isinstance(answer, Refused):
            return answer
        return tuple(Using(int(one.pid), known(part(one, "usedGpuMemory", name))) for one in answer)


def _nothing_there(answer: Refused) -> bool:
    """NVML_ERROR_NOT_FOUND; a driver without the function says "Function Not Found"."""
    return answer.reason.lower().endswith(": not found")


def _tells_busy(gpm: GpmInterval | Refused | None) -> bool:
    """Whether GPM looks after the time axis; also while its first interval is still open."""
    if isinstance(gpm, GpmInterval):
        return not isinstance(gpm.metrics.get("graphics"), Refused)
    return gpm is None


def _sample(kind: int, sample: Any) -> tuple[int, float]:
    field = _VALUE_FIELDS[kind] if 0 <= kind < len(_VALUE_FIELDS) else "uiVal"
    return int(sample.timeStamp), float(getattr(sample.sampleValue, field))
