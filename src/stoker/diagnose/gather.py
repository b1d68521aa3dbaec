"""From files to trials: evidence about the same root, case and setting is put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.diagnose import iteration_facts, step_facts
from stoker.diagnose.classes import LIMITS, Limits
from stoker.diagnose.gpu_stats import stats_of, window_of
from stoker.diagnose.naming import place_of, root_order, short_case, subject_of
from stoker.diagnose.trial import Trial
from stoker.model.evidence import (
    CaseRow,
    DurationLog,
    EpisodeLog,
    FailureText,
    FileReading,
    GpuTrace,
    IterationLog,
    RunSettings,
    Setting,
    Stage,
    StepLog,
    WindowSummary,
)

_Key = tuple[Path, str, str | None, int | None, Stage | None]
_NAMELESS = (GpuTrace, StepLog, DurationLog, IterationLog, EpisodeLog, FailureText)


@dataclass
class _Gathered:
    """A trial while its files are still coming in."""

    case: str
    root: Path
    setting: Setting
    rows: list[tuple[CaseRow, bool]] = field(default_factory=list)
    traces: list[GpuTrace] = field(default_factory=list)
    noted: WindowSummary | None = None
    steps: list[StepLog] = field(default_factory=list)
    iterations: list[IterationLog] = field(default_factory=list)
    durations: list[DurationLog] = field(default_factory=list)
    episodes: EpisodeLog | None = None
    failures: list[FailureText] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)


def gather(
    files: Sequence[FileReading], given: dict[str, float] | None = None, limits: Limits = LIMITS
) -> tuple[Trial, ...]:
    found: dict[_Key, _Gathered] = {}
    crowded = Counter((reading.path.parent, reading.format) for reading in files)
    for reading in files:
        _sort_in(reading, crowded[reading.path.parent, reading.format] > 1, found)
    orders = _root_orders(files, found)
    settings = _settings_by_folder(files)
    return tuple(
        _trial(trial, orders[trial.root], _known_for(trial.sources, settings) | (given or {}), limits)
        for trial in found.values()
    )


def _sort_in(reading: FileReading, crowded: bool, found: dict[_Key, _Gathered]) -> None:
    place = place_of(reading.path)
    for item in reading.items:
        if isinstance(item, CaseRow):
            key_case, root, setting = short_case(item.case), place.root, item.setting
            trial = _of(found, root, key_case, setting, None, reading.path)
            trial.rows.append((item, reading.format == "case table"))
        elif isinstance(item, WindowSummary):
            _of(found, place.root, item.name, Setting(), None, reading.path).noted = item
        elif isinstance(item, _NAMELESS):
            _put(_trial_for(item, reading, place.case, place.setting, place.root, crowded, found), item)


def _trial_for(
    item: object,
    reading: FileReading,
    case: str | None,
    setting: Setting,
    root: Path,
    crowded: bool,
    found: dict[_Key, _Gathered],
) -> _Gathered:
    stage = None
    if isinstance(item, GpuTrace) and item.case is not None:
        case, stage = short_case(item.case), item.stage
    if case is None:
        root, case = subject_of(reading.path, crowded)
    return _of(found, root, case, setting, stage, reading.path)


def _of(
    found: dict[_Key, _Gathered], root: Path, case: str, setting: Setting, stage: Stage | None, path: Path
) -> _Gathered:
    key = (root, case, setting.variant, setting.num_envs, stage)
    trial = found.setdefault(key, _Gathered(case, root, setting))
    if path not in trial.sources:
        trial.sources.append(path)
    return trial


def _put(trial: _Gathered, item: object) -> None:
    match item:
        case GpuTrace():
            trial.traces.append(item)
        case StepLog():
            trial.steps.append(item)
        case IterationLog():
            trial.iterations.append(item)
        case DurationLog():
            trial.durations.append(item)
        case EpisodeLog():
            trial.episodes = item
        case FailureText():
            trial.failures.append(item)


def _root_orders(files: Sequence[FileReading], found: dict[_Key, _Gathered]) -> dict[Path, int]:
    """The order on the command line first, then the stamp in the name."""
    named = list(dict.fromkeys(reading.root for reading in files))
    place = {
        path: named.index(reading.root) for reading in files for path in (reading.path, *reading.path.parents)
    }
    roots = {trial.root for trial in found.values()}
    ordered = sorted(roots, key=lambda root: (place.get(root, 0), root_order(root)))
    return {root: order for order, root in enumerate(ordered)}


def _settings_by_folder(files: Sequence[FileReading]) -> dict[Path, dict[str, float]]:
    """Values of one folder; what two files of it say differently is not used."""
    folders: dict[Path, dict[str, set[float]]] = {}
    for reading in files:
        for item in reading.items:
            if isinstance(item, RunSettings):
                kept = folders.setdefault(reading.path.parent, {})
                for name, value in item.values.items():
                    kept.setdefault(name, set()).add(value)
    return {
        folder: {name: next(iter(values)) for name, values in kept.items() if len(values) == 1}
        for folder, kept in folders.items()
    }


def _known_for(sources: Sequence[Path], settings: dict[Path, dict[str, float]]) -> dict[str, float]:
    """The configuration nearest above the files of the trial."""
    for source in sources:
        for folder in source.parents:
            if folder in settings:
                return dict(settings[folder])
    return {}


def _trial(found: _Gathered, order: int, known: dict[str, float], limits: Limits) -> Trial:
    row, in_table = _best_row(found.rows)
    traces = sorted(found.traces, key=lambda trace: (len(trace.gpu), trace.gpu))
    if found.noted:
        known = found.noted.settings | known
    return Trial(
        case=found.case,
        root=found.root,
        order=order,
        setting=row.setting if row else found.setting,
        stage=_stage(row, traces),
        row=row,
        gpus=tuple(stats_of(trace, limits) for trace in traces),
        window=window_of(traces, limits),
        noted=found.noted,
        steps=tuple(step_facts.facts_of(log) for log in found.steps if log.iters),
        iterations=_iterations(found.iterations),
        durations=tuple(found.durations),
        episodes=found.episodes,
        failures=tuple(found.failures),
        known=known,
        sources=tuple(found.sources),
        in_table=in_table,
    )


def _best_row(rows: list[tuple[CaseRow, bool]]) -> tuple[CaseRow | None, bool]:
    """A table's own row before the copy in a profile or the attempt it came from."""
    if not rows:
        return None, False
    ranked = sorted(rows, key=lambda pair: (pair[1], not pair[0].repeats_a_better_row))
    return ranked[-1][0], any(in_table for _, in_table in rows)


def _stage(row: CaseRow | None, traces: Sequence[GpuTrace]) -> Stage:
    if traces and traces[0].stage is not Stage.UNKNOWN:
        return traces[0].stage
    return row.stage if row else Stage.UNKNOWN


def _iterations(logs: Sequence[IterationLog]) -> dict[Stage, iteration_facts.IterationFacts]:
    """A console with every iteration says more than the sparse log.txt beside it."""
    best: dict[Stage, IterationLog] = {}
    for log in logs:
        if log.stage not in best or (log.complete and not best[log.stage].complete):
            best[log.stage] = log
    return {stage: iteration_facts.facts_of(log) for stage, log in best.items()}
