"""A stand-in for the binding of NVML: one Hopper card, any call of which can be taken away."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

GIB = 2**30
WHOLE_UUID = "GPU-11111111-2222-3333-4444-555555555555"


class NvmlError(Exception):
    pass


class Card:
    """What the stand-in's card does; tests change its fields."""

    def __init__(self) -> None:
        self.metrics = {
            1: 80.0,
            2: 40.0,
            3: 20.0,
            5: 10.0,
            10: 5.0,
            12: 7.0,
            20: 1.0,
            21: 2.0,
            60: 3.0,
            61: 4.0,
        }
        self.metric_errors: dict[int, int] = {}
        self.samples_taken = 0
        self.pairs: list[tuple[int, int]] = []
        self.util_samples = [(1_000_000, 10), (1_100_000, 90)]
        self.rate = 77
        self.processes = [SimpleNamespace(pid=41, usedGpuMemory=3 * GIB)]
        self.calls: list[str] = []
        self.slices = 0
        """In MIG mode where there are any."""
        self.taken: list[tuple[object, int]] = []
        """Parent and instance of each sample of a slice."""


def _request() -> Any:
    metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(400)]
    return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)


def stub(card: Card) -> SimpleNamespace:
    def sample_get(handle: Any, sample: Any) -> Any:
        card.samples_taken += 1
        sample.number = card.samples_taken
        return sample

    def mig_sample_get(parent: Any, instance: int, sample: Any) -> Any:
        card.taken.append((parent, instance))
        return sample_get(parent, sample)

    def slice_handle(handle: Any, index: int) -> str:
        if index >= card.slices:
            raise NvmlError("Not Found")
        return f"slice {index}"

    def uuid(handle: str) -> str:
        return WHOLE_UUID if handle.startswith("handle") else f"MIG-{handle[-1]}"

    def metrics_get(request: Any) -> Any:
        card.pairs.append((request.sample1.number, request.sample2.number))
        for metric in request.metrics[: request.numMetrics]:
            metric.value = card.metrics[metric.metricId]
            metric.nvmlReturn = card.metric_errors.get(metric.metricId, 0)
        return request

    def get_samples(handle: Any, kind: int, since_us: int) -> Any:
        assert kind == 1
        new = [one for one in card.util_samples if one[0] > since_us]
        if not new:
            raise NvmlError("Not Found")
        made = [
            SimpleNamespace(timeStamp=stamp, sampleValue=SimpleNamespace(uiVal=value, dVal=-1.0))
            for stamp, value in new
        ]
        return 1, made

    calls: dict[str, Callable[..., Any]] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlErrorString": lambda code: f"error {code}",
        "nvmlSystemGetDriverVersion": lambda: "580.10",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"handle {index}",
        "nvmlDeviceGetName": lambda handle: b"NVIDIA H200",
        "nvmlDeviceGetUUID": uuid,
        "nvmlDeviceGetMemoryInfo": lambda handle, version=None: SimpleNamespace(
            total=141 * GIB, used=5 * GIB if version else 6 * GIB
        ),
        "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 600_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda handle: 700_000,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetMigMode": lambda handle: [int(card.slices > 0)] * 2,
        "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": slice_handle,
        "nvmlDeviceGetGpuInstanceId": lambda handle: 3,
        "nvmlGpmMigSampleGet": mig_sample_get,
        "nvmlGpmQueryDeviceSupport": lambda handle: SimpleNamespace(isSupportedDevice=1),
        "nvmlGpmSampleAlloc": lambda: SimpleNamespace(number=0),
        "nvmlGpmSampleGet": sample_get,
        "nvmlGpmSampleFree": lambda sample: None,
        "nvmlGpmMetricsGet": metrics_get,
        "c_nvmlGpmMetricsGet_t": _request,
        "nvmlDeviceGetSamples": get_samples,
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=card.rate, memory=3),
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1755,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4 | 0x20,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x4 | 0x20,
        "nvmlDeviceGetPowerUsage": lambda handle: 350_500,
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 123_456_789,
        "nvmlDeviceGetTemperature": lambda handle, kind: 51,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: card.processes,
    }
    return SimpleNamespace(**calls)


@pytest.fixture
def card() -> Card:
    return Card()


@pytest.fixture
def stub_nvml(card: Card) -> Callable[..., SimpleNamespace]:
    """`stub_nvml(without="nvmlInit", nvmlDeviceGetName=...)`."""

    def make(without: str = "", **changes: Any) -> SimpleNamespace:
        module = stub(card)
        for name, call in changes.items():
            setattr(module, name, call)
        if without:
            delattr(module, without)
        return module

    return make
