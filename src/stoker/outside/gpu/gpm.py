"""GPM, the card's own counters (Hopper and newer): two samples, and what happened between them.

Each look takes one new sample and gives the metrics since the one before, so that no time is left out. NVML
wants more than 100 ms between two samples; a look that comes sooner gives nothing and takes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stoker.outside.gpu.calls import Calls
from stoker.outside.gpu.seam import GpmInterval, Refused

MIN_S = 0.101
VERSION = 1  # NVML_GPM_METRICS_GET_VERSION
METRICS = {
    "graphics": 1,
    "sm": 2,
    "occupancy": 3,
    "tensor": 5,
    "dram": 10,
    "fp32": 12,
    "pcie_tx": 20,
    "pcie_rx": 21,
    "nvlink_rx": 60,
    "nvlink_tx": 61,
}
"""Names used here, and NVML_GPM_METRIC_* (nvml.h of driver 580, 2026-11)."""


class Gpm:
    """Counters of one device. `take` fills a sample: of the whole device, or of one MIG slice."""

    def __init__(
        self, calls: Calls, take: Callable[[Any], Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._calls, self._take, self._clock = calls, take, clock
        self._samples: list[Any] = []
        self._request: Any = None
        self._taken_s: float | None = None
        self.refused: Refused | None = self._allocate()

    def _allocate(self) -> Refused | None:
        for _ in range(2):
            sample = self._calls.ask("nvmlGpmSampleAlloc")
            if isinstance(sample, Refused):
                return sample
            self._samples.append(sample)
        request = self._calls.ask("c_nvmlGpmMetricsGet_t")
        if isinstance(request, Refused):
            return request
        request.version = VERSION
        request.numMetrics = len(METRICS)
        for place, metric in enumerate(METRICS.values()):
            request.metrics[place].metricId = metric
        self._request = request
        return None

    def look(self) -> GpmInterval | Refused | None:
        """None at the first look and where the last one was too short ago."""
        if self.refused is not None:
            return self.refused
        now = self._clock()
        if self._taken_s is not None and now - self._taken_s < MIN_S:
            return None
        older, newer = self._samples
        answer = self._take(newer)
        if isinstance(answer, Refused):
            self._taken_s = None
            return answer
        before_s, self._taken_s = self._taken_s, now
        self._samples = [newer, older]  # the one just taken is the next interval's beginning
        return None if before_s is None else self._between(older, newer, now - before_s)

    def _between(self, older: Any, newer: Any, seconds: float) -> GpmInterval | Refused:
        request = self._request
        request.sample1, request.sample2 = older, newer
        answer = self._calls.ask("nvmlGpmMetricsGet", request)
        if isinstance(answer, Refused):
            return answer
        return GpmInterval(
            seconds, {name: self._metric(request.metrics[n]) for n, name in enumerate(METRICS)}
        )

    def _metric(self, metric: Any) -> float | Refused:
        if metric.nvmlReturn:
            why = self._calls.text("nvmlErrorString", metric.nvmlReturn)
            return Refused(f"GPM: {why.reason if isinstance(why, Refused) else why}")
        return float(metric.value)

    def close(self) -> None:
        for sample in self._samples:
            self._calls.ask("nvmlGpmSampleFree", sample)
        self._samples = []
