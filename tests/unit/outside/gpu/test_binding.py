"""The real binding, without a driver: the names we call are there, and its structures take what we put in."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pynvml
import pytest

from stoker.outside.gpu import nvml
from stoker.outside.gpu.calls import Calls
from stoker.outside.gpu.gpm import METRICS, Gpm
from stoker.outside.gpu.seam import GpmInterval, Refused

FOLDER = Path(nvml.__file__).parent


def names_called() -> set[str]:
    found = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if re.fullmatch(r"(c_)?nvml[A-Z]\w+", text):
                    found.add(text)
    return found


def test_every_name_is_in_the_binding() -> None:
    assert len(names_called()) > 20
    assert {name for name in names_called() if not hasattr(pynvml, name)} == set()


def test_our_numbers_are_those_of_the_binding() -> None:
    named = {
        "graphics": "GRAPHICS_UTIL", "sm": "SM_UTIL", "occupancy": "SM_OCCUPANCY",
        "tensor": "ANY_TENSOR_UTIL", "dram": "DRAM_BW_UTIL", "fp32": "FP32_UTIL",
        "pcie_tx": "PCIE_TX_PER_SEC",
        "pcie_rx": "PCIE_RX_PER_SEC", "nvlink_rx": "NVLINK_TOTAL_RX_PER_SEC",
        "nvlink_tx": "NVLINK_TOTAL_TX_PER_SEC",
    }  # fmt: skip
    assert {name: getattr(pynvml, f"NVML_GPM_METRIC_{end}") for name, end in named.items()} == METRICS
    assert nvml._GPU_UTILIZATION_SAMPLES == pynvml.NVML_GPU_UTILIZATION_SAMPLES
    assert pynvml.nvmlMemory_v2 == nvml._MEMORY_V2
    assert (nvml._CLOCK_SM, nvml._TEMPERATURE_GPU) == (pynvml.NVML_CLOCK_SM, pynvml.NVML_TEMPERATURE_GPU)


def test_gpm_with_the_bindings_own_structures() -> None:
    """Only the three calls into the driver are replaced."""
    asked: list[int] = []

    class Binding:
        c_nvmlGpmMetricsGet_t = pynvml.c_nvmlGpmMetricsGet_t
        nvmlGpmSampleAlloc = staticmethod(lambda: pynvml.c_nvmlGpmSample_t(pynvml.struct_c_nvmlGpmSample_t()))

        @staticmethod
        def nvmlGpmMetricsGet(request: Any) -> Any:
            assert request.version == pynvml.NVML_GPM_METRICS_GET_VERSION
            for place in range(request.numMetrics):
                asked.append(request.metrics[place].metricId)
                request.metrics[place].value = 2.5 * place
            request.metrics[1].nvmlReturn = 3
            return request

    times = iter([1.0, 1.2])
    made = Gpm(Calls(Binding), lambda sample: sample, lambda: next(times))  # type: ignore[arg-type]
    assert made.look() is None
    interval = made.look()
    assert isinstance(interval, GpmInterval)
    assert asked == list(METRICS.values())
    assert interval.seconds == pytest.approx(0.2)
    assert (interval.metrics["graphics"], interval.metrics["nvlink_tx"]) == (0.0, 22.5)
    assert isinstance(interval.metrics["sm"], Refused)


def test_without_a_driver_every_call_is_refused_with_its_reason() -> None:
    calls = Calls(pynvml)
    answer = calls.ask("nvmlDeviceGetHandleByIndex", 0)
    if not isinstance(answer, Refused):
        pytest.skip("there is a driver here, and it is open")
    assert answer.reason.startswith("nvmlDeviceGetHandleByIndex: ")
