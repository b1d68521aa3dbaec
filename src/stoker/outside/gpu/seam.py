"""The one seam to GPU hardware. Behind it: NVML, a recording, a fake with fields, and the CPU device.

What comes through it is what a driver answered, call by call, and nothing made of it: a call that is absent
or refused is one `Refused` with its reason, and the others stand. `readings.py` makes figures of the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeGuard, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str


@dataclass(frozen=True, slots=True)
class GpmInterval:
    """Metrics between two samples of the card's own counters. PCIe and NVLink are in MiB/s, as in NVML."""

    seconds: float
    metrics: Mapping[str, float | Refused]


@dataclass(frozen=True, slots=True)
class UtilSamples:
    """The driver's samples since the last look, each with its time on the driver's clock."""

    since_us: int | None
    """The last one seen before; None at the first look."""
    samples: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Using:
    """A compute process on a device."""

    pid: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Answers:
    """What one device said in one look. None: it was not asked this time."""

    gpm: GpmInterval | Refused | None = None
    samples: UtilSamples | Refused | None = None
    utilization_pct: float | Refused | None = None
    polled_pct: tuple[float, ...] = ()
    """Further values of the same, taken since the last look."""
    memory_used_bytes: int | Refused | None = None
    sm_clock_mhz: int | Refused | None = None
    throttle_bits: int | Refused | None = None
    power_mw: int | Refused | None = None
    energy_mj: int | Refused | None = None
    temperature_c: int | Refused | None = None
    processes: tuple[Using, ...] | Refused | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change of one device."""

    uuid: str | Refused
    name: str | Refused
    memory_total_bytes: int | Refused
    power_limit_mw: int | Refused
    """In force now: the lowest of those that apply."""
    sm_clock_max_mhz: int | Refused
    gpm: bool | Refused
    """True, or why not."""
    mig: bool = False
    parent_uuid: str | Refused | None = None
    power_default_mw: int | Refused = Refused("not asked for")
    """What the card is delivered with; a limit below it was set by somebody."""


@dataclass(frozen=True, slots=True)
class Box:
    """All devices, or why there are none."""

    source: str
    devices: tuple[Facts | Refused, ...] = ()
    """A device that cannot be opened holds its place with the reason."""
    driver: str | None = None
    reason: str = ""
    no_gpm: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    """Facts of the box that could not be had, by name."""


class Gpus(Protocol):
    def describe(self) -> Box: ...

    def ask(self, device: int, *, dear: bool) -> Answers:
        """One look at one device; with `dear` also what takes longer or changes slowly."""

    def poll(self, device: int) -> bool:
        """Between two looks, where the driver's value covers less than the time between them; False where
        that is not needed."""

    def close(self) -> None: ...


def tells_share(samples: UtilSamples | Refused | None) -> TypeGuard[UtilSamples]:
    """Whether there is something new, and since when is known."""
    return isinstance(samples, UtilSamples) and samples.since_us is not None and bool(samples.samples)


def known(answer: _T | Refused | None) -> _T | None:
    return None if isinstance(answer, Refused) else answer
