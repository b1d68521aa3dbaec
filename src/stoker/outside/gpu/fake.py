"""A GPU that answers what its fields say; for tests of anything that looks at GPUs, ours and others'."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.outside.gpu.gpm import METRICS
from stoker.outside.gpu.seam import Answers, Box, Facts, GpmInterval, Refused, Using, UtilSamples

GIB = 2**30
CHEAP = ("gpm", "utilization_pct", "polled_pct")
"""What a look that is not dear tells, as with NVML: GPM, or the rate where nothing else tells the share."""


def fake_facts(number: int = 0) -> Facts:
    return Facts(
        uuid=f"GPU-00000000-0000-0000-0000-{number:012d}",
        name="Fake GPU",
        memory_total_bytes=80 * GIB,
        power_limit_mw=700_000,
        power_default_mw=700_000,
        sm_clock_max_mhz=1980,
        gpm=True,
    )


def fake_answers(busy_pct: float = 50.0, sm_active_pct: float = 10.0, seconds: float = 0.2) -> Answers:
    """A look at a busy card with GPM."""
    metrics: dict[str, float | Refused] = dict.fromkeys(METRICS, 0.0)
    return Answers(
        gpm=GpmInterval(seconds, {**metrics, "graphics": busy_pct, "sm": sm_active_pct}),
        utilization_pct=busy_pct,
        memory_used_bytes=2 * GIB,
        sm_clock_mhz=1980,
        throttle_bits=0,
        power_mw=300_000,
        energy_mj=1_000_000,
        temperature_c=45,
        processes=(),
    )


@dataclass
class FakeGpus:
    """Set `answers[n]` to change what device `n` says next."""

    devices: list[Facts | Refused] = field(default_factory=lambda: [fake_facts()])
    answers: list[Answers] = field(default_factory=list)
    needs_polls: bool = False
    driver: str | None = "000.00"
    asked: list[tuple[int, bool]] = field(default_factory=list)
    """Each look: the device, and whether dear questions were asked."""
    polled: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self.answers += [fake_answers() for _ in self.devices[len(self.answers) :]]

    def used_by(self, device: int, *pids: int, each_bytes: int | None = GIB) -> None:
        using = tuple(Using(pid, each_bytes) for pid in pids)
        self.answers[device] = replace(self.answers[device], processes=using)

    def describe(self) -> Box:
        return Box("fake", tuple(self.devices), self.driver)

    def ask(self, device: int, *, dear: bool) -> Answers:
        self.asked.append((device, dear))
        answers = self.answers[device]
        if dear:
            return answers
        by_rate = isinstance(answers.gpm, Refused) and not isinstance(answers.samples, UtilSamples)
        kept = CHEAP if by_rate else CHEAP[:1]
        return Answers(**{name: getattr(answers, name) for name in kept})

    def poll(self, device: int) -> bool:
        self.polled += self.needs_polls
        return self.needs_polls

    def close(self) -> None:
        self.closed = True
