"""What other people's files say, in one shape: the nouns that `ingest` fills and `diagnose` judges.

Nothing here is computed: a figure that is not in the file is None (or NaN inside an array of samples).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Stage(StrEnum):
    """Which part of a job a figure belongs to. A class is given from LONG and TRAIN only."""

    PROBE = "probe"
    LONG = "long"
    TRAIN = "train"
    TEST = "test"
    VIZ = "viz"
    EVAL = "eval"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Setting:
    """What was chosen for a run: the part of a configuration that the file names."""

    variant: str | None = None
    num_envs: int | None = None
    agent_config: str | None = None

    def label(self) -> str:
        parts = [self.variant or "", "" if self.num_envs is None else f"e{self.num_envs}"]
        return " ".join(part for part in parts if part) or "setting not named"


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """What a long run was asked to do, and what it did."""

    target_s: float | None
    elapsed_s: float | None
    claimed_reached: bool | None
    exit_code: int | None
    stop_reason: str


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One outcome of one setting of one case: a row of a table, or one attempt."""

    case: str
    line: int
    method: str | None = None
    status: str = ""
    ok: bool | None = None
    note: str = ""
    case_type: str = ""
    stage: Stage = Stage.UNKNOWN
    setting: Setting = Setting()
    mean_util_pct: tuple[float | None, ...] = ()
    min_avg_util_pct: float | None = None
    peak_util_pct: tuple[float | None, ...] = ()
    peak_mem_mib: tuple[float | None, ...] = ()
    mem_total_mib: float | None = None
    samples_per_s: float | None = None
    samples: float | None = None
    elapsed_s: float | None = None
    budget: TimeBudget | None = None
    selection_reason: str = ""
    base_agent: str = ""
    repeats_a_better_row: bool = False
    """An allocation profile copies rows of the table beside it; it is no second measurement."""


@dataclass(frozen=True, slots=True)
class GpuTrace:
    """Samples of one GPU, of one case where the file names it. NaN is a sample without a figure."""

    gpu: str
    util_pct: array[float]
    times_s: array[float] | None = None
    """One per sample, any origin. None where the file has no clock."""
    poll_s: float | None = None
    """The distance of samples where the file or its maker states it and there is no clock."""
    mem_peak_mib: float | None = None
    mem_total_mib: float | None = None
    case: str | None = None
    stage: Stage = Stage.UNKNOWN
    warm_up_samples: int = 0
    """Leading samples that the maker of this file drops before averaging."""


@dataclass(frozen=True, slots=True)
class StepLog:
    """One session of rows with the times of single steps (metrics.jsonl)."""

    first_line: int
    iters: array[int]
    epochs: array[int]
    data_s: array[float]
    step_s: array[float]
    stage_s: dict[str, float] = field(default_factory=dict)
    sample_s: float | None = None
    """Mean time one loader worker needs for one sample, where the run probed it."""
    sample_parts_s: dict[str, float] = field(default_factory=dict)
    detailed_rows: int = 0
    """Rows from which `stage_s` and `sample_s` were taken."""
    warnings: int = 0
    epochs_closed: int = 0


@dataclass(frozen=True, slots=True)
class DurationLog:
    """Rows that say how long it took to get from one step count to the next."""

    first_line: int
    mode: str
    steps: array[float]
    duration_s: array[float]


@dataclass(frozen=True, slots=True)
class IterationLog:
    """Iterations of an on-policy trainer: console tables, or its log.txt."""

    iterations: array[int]
    wall_s: array[float]
    samples: array[float]
    evaluated: tuple[bool, ...]
    """Whether this iteration contains an evaluation rollout."""
    keys: frozenset[str]
    complete: bool
    """Every iteration is here (a console), or only those the trainer chose to log."""
    parameters: int | None = None
    envs_built: int | None = None
    stage: Stage = Stage.UNKNOWN


@dataclass(frozen=True, slots=True)
class EpisodeLog:
    """Episodes of an off-policy trainer's console."""

    episodes: int
    seconds_per_episode: float | None
    updates_seen: bool


@dataclass(frozen=True, slots=True)
class LoopProfile:
    """Counts and times of one off-policy loop."""

    env_steps: int
    updates: int
    update_interval: int | None
    batch_size: int | None
    steps_per_s: float | None
    wall_s: float | None
    phase_s: dict[str, float] = field(default_factory=dict)
    configuration: str = ""


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """A window of GPU readings that somebody has already averaged and written down."""

    name: str
    line: int
    gpu_avg_pct: tuple[float | None, ...] = ()
    both_avg_pct: float | None = None
    both_p50_pct: float | None = None
    both_avg_active_pct: float | None = None
    active_s: float | None = None
    idle_s: float | None = None
    window_s: float | None = None
    rows: int | None = None
    last_iter: int | None = None
    data_mean_s: float | None = None
    data_max_s: float | None = None
    step_mean_s: float | None = None
    step_max_s: float | None = None
    sample_s: float | None = None
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailureText:
    """The words with which a run ended, from a console."""

    kind: str
    line: int
    text: str
    stage: Stage = Stage.UNKNOWN


@dataclass(frozen=True, slots=True)
class EvaluationText:
    """The result lines of a test or visualisation run."""

    episodes: int | None
    mean_return: float | None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings read from a configuration file, by our own names for them."""

    values: dict[str, float]
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    done: int | None
    total: int | None
    last_case: str
    status: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The cases a bench was meant to run: name, method, whether it trains."""

    cases: tuple[tuple[str, str, bool], ...]


Evidence = (
    CaseRow
    | GpuTrace
    | StepLog
    | DurationLog
    | IterationLog
    | EpisodeLog
    | LoopProfile
    | WindowSummary
    | FailureText
    | EvaluationText
    | RunSettings
    | Progress
    | Manifest
)


@dataclass(frozen=True, slots=True)
class BadLine:
    line: int
    why: str
    text: str


@dataclass(frozen=True, slots=True)
class FileReading:
    """Everything one file gave, with what could not be read of it."""

    path: Path
    root: Path
    """The folder (or file) named on the command line under which this file was found."""
    format: str
    items: tuple[Evidence, ...]
    bad_count: int = 0
    bad_lines: tuple[BadLine, ...] = ()
    """The first few of them."""
    notes: tuple[str, ...] = ()
