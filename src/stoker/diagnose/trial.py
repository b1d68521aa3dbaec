"""A trial: one setting of one case under one root, with all the evidence there is about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from stoker.diagnose.classes import Figures
from stoker.diagnose.gpu_stats import GpuStats, WindowStats
from stoker.diagnose.iteration_facts import IterationFacts
from stoker.diagnose.step_facts import StepFacts
from stoker.ingest.failure_words import Failure, failure_of_status
from stoker.model.evidence import CaseRow, DurationLog, EpisodeLog, FailureText, Setting, Stage, WindowSummary

_TRAINING = (Stage.LONG, Stage.TRAIN)


@dataclass(frozen=True, slots=True)
class Trial:
    case: str
    root: Path
    order: int
    """Later roots have larger ones."""
    setting: Setting
    stage: Stage
    """Of the figures that a class would be made from."""
    row: CaseRow | None = None
    gpus: tuple[GpuStats, ...] = ()
    window: WindowStats | None = None
    noted: WindowSummary | None = None
    steps: tuple[StepFacts, ...] = ()
    iterations: dict[Stage, IterationFacts] = field(default_factory=dict)
    durations: tuple[DurationLog, ...] = ()
    episodes: EpisodeLog | None = None
    failures: tuple[FailureText, ...] = ()
    known: dict[str, float] = field(default_factory=dict)
    """Settings from a configuration file beside it, or given by the user."""
    sources: tuple[Path, ...] = ()
    in_table: bool = False
    """Named by the bench as the best of its case."""

    @property
    def ok(self) -> bool | None:
        if self.row is not None and self.row.ok is not None:
            return self.row.ok
        deaths = [death for death in self.failures if death.kind != Failure.INTERRUPTED.value]
        return False if deaths else None

    @property
    def failure(self) -> Failure | None:
        """What the console says is better than the status made from it."""
        if self.ok is not False:
            return None
        for text in self.failures:
            if text.kind != Failure.INTERRUPTED.value:
                return Failure(text.kind)
        return failure_of_status(self.row.note or self.row.status) if self.row else Failure.ERROR

    @property
    def util_per_gpu_pct(self) -> tuple[float | None, ...]:
        if self.row and self.row.mean_util_pct:
            return self.row.mean_util_pct
        if self.gpus:
            return tuple(gpu.mean_pct for gpu in self.gpus)
        return self.noted.gpu_avg_pct if self.noted else ()

    @property
    def util_pct(self) -> float | None:
        """The mean of the least busy GPU: a job is as fast as its slowest part."""
        if self.row and self.row.min_avg_util_pct is not None:
            return self.row.min_avg_util_pct
        known = [util for util in self.util_per_gpu_pct if util is not None]
        return min(known, default=None)

    @property
    def mem_per_gpu_mib(self) -> tuple[float | None, ...]:
        if self.row and self.row.peak_mem_mib:
            return self.row.peak_mem_mib
        return tuple(gpu.mem_peak_mib for gpu in self.gpus)

    @property
    def peak_mem_mib(self) -> float | None:
        return max((mem for mem in self.mem_per_gpu_mib if mem is not None), default=None)

    @property
    def mem_total_mib(self) -> float | None:
        if self.row and self.row.mem_total_mib:
            return self.row.mem_total_mib
        return min((gpu.mem_total_mib for gpu in self.gpus if gpu.mem_total_mib), default=None)

    @property
    def samples_per_s(self) -> float | None:
        if self.row and self.row.samples_per_s is not None:
            return self.row.samples_per_s or None
        return self.own_samples_per_s

    @property
    def own_samples_per_s(self) -> float | None:
        """From the trainer's own clock: the same for all settings, unlike the bench's elapsed seconds."""
        facts = next(iter(self.iterations.values()), None)
        return facts.samples_per_s if facts else None

    @property
    def gpu_samples(self) -> int | None:
        return min((gpu.n for gpu in self.gpus), default=None)

    @property
    def evaluation_share_frac(self) -> float | None:
        facts = self.iterations.get(self.stage) or next(iter(self.iterations.values()), None)
        return facts.evaluation_share_frac if facts else None

    @property
    def is_training(self) -> bool:
        return self.stage in _TRAINING

    def figures(self) -> Figures:
        counted = (
            None if self.row and self.row.min_avg_util_pct is not None and not self.gpus else self.gpu_samples
        )
        return Figures(self.util_pct, self.peak_mem_mib, self.mem_total_mib, counted)
