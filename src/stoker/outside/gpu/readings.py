"""From a device's answers to a reading: units, the source of busy, whose processes, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stoker.launch import procfs
from stoker.model.gpu import POWER_CAP, BusySource, GpuDevice, GpuReading
from stoker.outside.gpu.seam import (
    Answers,
    Facts,
    GpmInterval,
    Refused,
    Using,
    UtilSamples,
    known,
    tells_share,
)

MIB = 2**20
PAUSE = 3
"""A gap so many times longer than the longest between samples is no period of the driver's."""
MPS_SERVER = "nvidia-cuda-mps"
IDLE_BIT = 0x1
"""The card says "idle" where it has nothing to do: no throttling."""
THROTTLE_NAMES = {
    0x2: "application clocks setting",
    0x4: POWER_CAP,
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks setting",
    0x200: "board limit",
    0x400: "reliability",
}
"""nvmlClocksEventReason* of nvml.h (driver 580)."""
CHOSEN_CLOCKS = frozenset({"application clocks setting", "sync boost", "display clocks setting"})
"""Clocks that somebody set so: no sign of trouble, and the same from trial to trial."""


def _percent(value: float) -> float:
    return round(min(max(value, 0.0), 100.0), 2)


def _bytes(mib: float) -> int:
    return round(mib * MIB)


OF_GPM: dict[str, tuple[str, Callable[[float], float]]] = {
    "sm_active_pct": ("sm", _percent),
    "sm_occupancy_pct": ("occupancy", _percent),
    "tensor_pct": ("tensor", _percent),
    "dram_pct": ("dram", _percent),
    "fp32_pct": ("fp32", _percent),
    "pcie_rx_bytes_per_s": ("pcie_rx", _bytes),
    "pcie_tx_bytes_per_s": ("pcie_tx", _bytes),
    "nvlink_rx_bytes_per_s": ("nvlink_rx", _bytes),
    "nvlink_tx_bytes_per_s": ("nvlink_tx", _bytes),
}
"""What only GPM tells. (NVML would tell PCIe traffic by waiting 20 ms for each direction: not asked.)"""

NO_METRIC = Refused("GPM: there is no such metric")

OTHER_NAMESPACE = (
    "NVML's process IDs are those of another PID namespace (a container): whose they are cannot be told"
)


@dataclass
class Reader:
    """Readings of one device; remembers what is missing and why."""

    gpu: int
    pids_comparable: bool
    missing: dict[str, str] = field(default_factory=dict)
    comm: Callable[[int], str] = lambda pid: (procfs.read_text(f"/proc/{pid}/comm") or "").strip()
    _t_before: float | None = None

    def reading(self, t: float, answers: Answers, own: Collection[int]) -> GpuReading:
        found = {
            **self._busy(t, answers),
            **self._work(answers.gpm),
            **self._plain(answers),
            **self._processes(answers.processes, own),
        }
        self._t_before = t
        return GpuReading(round(t, 4), self.gpu, **found)  # type: ignore[arg-type]

    def _take(self, name: str, answer: Any) -> Any:
        """The answer; a refusal is noted, once."""
        if isinstance(answer, Refused):
            self.missing.setdefault(name, answer.reason)
            return None
        return answer

    def _busy(self, t: float, answers: Answers) -> dict[str, object]:
        gpm = answers.gpm
        if gpm is None:
            return {}
        if isinstance(gpm, GpmInterval):
            share = known(gpm.metrics.get("graphics"))
            if share is not None:
                return _busy_of(_percent(share), gpm.seconds, BusySource.GPM)
        return self._busy_of_nvml(t, answers)

    def _busy_of_nvml(self, t: float, answers: Answers) -> dict[str, object]:
        samples, rate = answers.samples, answers.utilization_pct
        if samples is not None and not isinstance(samples, Refused):
            if not tells_share(samples):
                return {}  # of the first look only the newest time is kept
            share, seconds = _over_samples(samples)
            return _busy_of(_percent(share), seconds, BusySource.NVML)
        if rate is None or isinstance(rate, Refused):
            self._take("busy_pct", rate)
            return {}
        if self._t_before is None:
            return {}
        values = [*answers.polled_pct, rate]
        return _busy_of(_percent(sum(values) / len(values)), t - self._t_before, BusySource.NVML)

    def _work(self, gpm: GpmInterval | Refused | None) -> dict[str, object]:
        if gpm is None:
            return {}
        if isinstance(gpm, Refused):
            for name in OF_GPM:
                self._take(name, gpm)
            return {}
        found: dict[str, object] = {}
        for name, (metric, convert) in OF_GPM.items():
            value = self._take(name, gpm.metrics.get(metric, NO_METRIC))
            if value is not None:
                found[name] = convert(value)
        return found

    def _plain(self, answers: Answers) -> dict[str, object]:
        power_mw = self._take("power_w", answers.power_mw)
        bits = self._take("throttled_by", answers.throttle_bits)
        return {
            "nvml_util_pct": self._utilization(answers),
            "memory_used_bytes": self._take("memory_used_bytes", answers.memory_used_bytes),
            "sm_clock_mhz": self._take("sm_clock_mhz", answers.sm_clock_mhz),
            "throttled_by": None if bits is None else throttle_names(bits),
            "power_w": None if power_mw is None else power_mw / 1000,
            "energy_mj_total": self._take("energy_mj_total", answers.energy_mj),
            "temperature_c": self._take("temperature_c", answers.temperature_c),
        }

    def _utilization(self, answers: Answers) -> float | None:
        """Over the time since the last dear look; where the driver keeps no samples, its latest figure."""
        samples, rate = answers.samples, answers.utilization_pct
        if tells_share(samples):
            return _percent(_over_samples(samples)[0])
        if isinstance(samples, UtilSamples):  # they will tell: that the rate is refused costs nothing
            return known(rate)
        return self._take("nvml_util_pct", rate)  # type: ignore[no-any-return]

    def _processes(
        self, answer: tuple[Using, ...] | Refused | None, own: Collection[int]
    ) -> dict[str, object]:
        names = ("processes", "own_memory_bytes", "foreign_pids", "foreign_memory_bytes")
        if answer is None:
            return {}
        if isinstance(answer, Refused):
            for name in names:
                self._take(name, answer)
            return {}
        ours = [one for one in answer if one.pid in own]
        if not ours and not self._comparable(answer):
            for name in names[1:]:
                self._take(name, Refused(OTHER_NAMESPACE))
            return {"processes": len(answer)}
        others = [one for one in answer if one.pid not in own and not self._is_mps(one.pid)]
        return {
            "processes": len(answer),
            "own_pids": tuple(one.pid for one in ours),
            "own_memory_bytes": self._memory("own_memory_bytes", ours),
            "foreign_pids": tuple(one.pid for one in others),
            "foreign_memory_bytes": self._memory("foreign_memory_bytes", others),
        }

    def _comparable(self, answer: tuple[Using, ...]) -> bool:
        """Some sandboxes look like the machine itself, but their /proc knows none of the processes."""
        return self.pids_comparable and (not answer or any(self.comm(one.pid) for one in answer))

    def _memory(self, name: str, using: list[Using]) -> int | None:
        known_bytes = [one.memory_bytes for one in using if one.memory_bytes is not None]
        if len(known_bytes) < len(using):
            return self._take(name, Refused("the driver does not tell the memory of single processes"))  # type: ignore[no-any-return]
        return sum(known_bytes)

    def _is_mps(self, pid: int) -> bool:
        """The server of MPS works for others, ours among them: no foreign process by itself."""
        return self.comm(pid).startswith(MPS_SERVER)


def device_row(gpu: int, facts: Facts, missing: dict[str, str]) -> GpuDevice:
    for name in ("uuid", "name", "memory_total_bytes", "sm_clock_max_mhz", "parent_uuid"):
        answer = getattr(facts, name)
        if isinstance(answer, Refused):
            missing[name] = answer.reason
    for name in ("power_limit", "power_default"):
        answer = getattr(facts, f"{name}_mw")
        if isinstance(answer, Refused):
            missing[f"{name}_w"] = answer.reason
    return GpuDevice(
        gpu,
        uuid=known(facts.uuid),
        name=known(facts.name),
        memory_total_bytes=known(facts.memory_total_bytes),
        power_limit_w=_watts(facts.power_limit_mw),
        power_default_w=_watts(facts.power_default_mw),
        sm_clock_max_mhz=known(facts.sm_clock_max_mhz),
        gpm=facts.gpm is True,
        gpm_reason=facts.gpm.reason if isinstance(facts.gpm, Refused) else None,
        mig=facts.mig,
        parent_uuid=known(facts.parent_uuid),
    )


def _watts(answer: int | Refused) -> float | None:
    milliwatts = known(answer)
    return None if milliwatts is None else milliwatts / 1000


def throttle_names(bits: int) -> tuple[str, ...]:
    """A bit of a later driver is named by its number."""
    rest = bits & ~IDLE_BIT
    names = [name for bit, name in THROTTLE_NAMES.items() if rest & bit]
    unknown = rest & ~sum(THROTTLE_NAMES)
    return (*names, *([f"reason {unknown:#x}"] if unknown else []))


def _busy_of(share_pct: float, seconds: float, source: BusySource) -> dict[str, object]:
    return {"busy_pct": share_pct, "busy_s": round(seconds, 3), "busy_source": source.value}


def _over_samples(told: UtilSamples) -> tuple[float, float]:
    """Mean and length; each sample speaks of the time since the one before it. After a pause that the
    driver's buffer does not reach back over, the first one speaks of its own period alone."""
    samples = sorted(told.samples)
    stamps = [stamp for stamp, _ in samples]
    periods = [later - earlier for earlier, later in pairwise(stamps)]
    first_us = stamps[0] - (told.since_us or 0)
    if periods and first_us > PAUSE * max(periods):
        first_us = max(periods)
    lengths = [first_us, *periods]
    total_us = sum(lengths)
    shares = (value * length for (_, value), length in zip(samples, lengths, strict=True))
    return (sum(shares) / total_us if total_us else samples[-1][1]), total_us / 1e6
