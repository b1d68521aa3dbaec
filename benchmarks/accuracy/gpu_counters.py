"""How busy a GPU says it was: readings of its counters, each with the stretch of time it speaks of.

`read_counters` is the one place that asks; everything else works on its `Reading`s. Times are of the wall
clock (`time.time()`), the one Kineto uses, too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

GRAPHICS_BUSY = 1  # NVML_GPM_METRIC_GRAPHICS_UTIL
UTILISATION_SAMPLES = 1  # NVML_GPU_UTILIZATION_SAMPLES
GPM_MIN_S = 0.101  # NVML wants more than 100 ms between two samples
VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


@dataclass(frozen=True, slots=True)
class Reading:
    source: str
    """gpm or nvml"""
    begin_s: float
    end_s: float
    busy_pct: float


class Counters:
    """One card, asked through NVML. What is not supported gives no readings, and `refused` says why."""

    def __init__(self, index: int = 0) -> None:
        import pynvml

        self.nvml = pynvml
        pynvml.nvmlInit()
        self.card = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.refused: dict[str, str] = {}
        self.samples: list[Any] = []
        self.taken_s: float | None = None
        self.seen_us = 0
        self.polled_s: float | None = None
        self.nvml_by = "samples"
        self._prepare_gpm()

    def _prepare_gpm(self) -> None:
        try:
            if not self.nvml.nvmlGpmQueryDeviceSupport(self.card).isSupportedDevice:
                raise LookupError("GPM is not supported by this card")
            self.samples = [self.nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        except Exception as error:
            self.refused["gpm"] = str(error)

    def read(self) -> list[Reading]:
        """Since the last time; to be asked more than 100 ms apart."""
        return [*self._gpm(), *self._nvml()]

    def _gpm(self) -> list[Reading]:
        if "gpm" in self.refused:
            return []
        if self.taken_s is not None and time.time() - self.taken_s < GPM_MIN_S:
            return []
        older, newer = self.samples
        self.nvml.nvmlGpmSampleGet(self.card, newer)
        before_s, self.taken_s = self.taken_s, time.time()
        self.samples = [newer, older]
        if before_s is None:
            return []
        request = self.nvml.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = 1, 1
        request.sample1, request.sample2 = older, newer
        request.metrics[0].metricId = GRAPHICS_BUSY
        self.nvml.nvmlGpmMetricsGet(request)
        if request.metrics[0].nvmlReturn != 0:
            return []
        return [Reading("gpm", before_s, self.taken_s, request.metrics[0].value)]

    def _nvml(self) -> list[Reading]:
        if self.nvml_by == "samples":
            try:
                return self._driver_samples()
            except self.nvml.NVMLError as error:
                if error.value == self.nvml.NVML_ERROR_NOT_FOUND:  # nothing new since
                    return []
                self.refused["samples"] = str(error)
                self.nvml_by = "polling"
        return self._poll()

    def _driver_samples(self) -> list[Reading]:
        """Each is of the time since the one before it."""
        kind, found = self.nvml.nvmlDeviceGetSamples(self.card, UTILISATION_SAMPLES, self.seen_us)
        field = VALUE_FIELDS[kind]
        rows = [(row.timeStamp, float(getattr(row.sampleValue, field))) for row in found]
        return self.new_samples(sorted(rows), time.time())

    def new_samples(self, rows: list[tuple[int, float]], now_s: float) -> list[Reading]:
        fresh = [row for row in rows if row[0] > self.seen_us]
        first, self.seen_us = self.seen_us, fresh[-1][0] if fresh else self.seen_us
        shift_s = wall_shift_s(self.seen_us / 1e6, now_s)
        edges = [first, *(stamp for stamp, _ in fresh)]
        return [
            Reading("nvml", before / 1e6 + shift_s, stamp / 1e6 + shift_s, value)
            for before, (stamp, value) in zip(edges, fresh, strict=False)
            if before  # of the very first one it is not known where it begins
        ]

    def _poll(self) -> list[Reading]:
        busy_pct = self.nvml.nvmlDeviceGetUtilizationRates(self.card).gpu
        before_s, self.polled_s = self.polled_s, time.time()
        return [] if before_s is None else [Reading("nvml", before_s, self.polled_s, float(busy_pct))]


def wall_shift_s(stamp_s: float, now_s: float) -> float:
    """From the driver's clock to the wall clock. It is the wall clock on the drivers seen so far (580)."""
    return 0.0 if abs(now_s - stamp_s) < 60.0 else now_s - stamp_s


def read_counters(counters: Counters) -> list[Reading]:
    """What the card says since the last call. To be pointed at the product's own seam."""
    return counters.read()
