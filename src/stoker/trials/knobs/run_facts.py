"""The facts of a recorded training that a setting may change: workers, batch, environments, types, model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stoker.diagnose.env_calls import envs_per_call
from stoker.diagnose.summary import Trainer, summarise
from stoker.model.knobs import TrainingFacts
from stoker.model.run import Run

TOLERANCE_FRAC = 0.05
"""Of figures that depend a little on where a run was cut."""

Value = tuple[object, ...] | float


@dataclass(frozen=True, slots=True)
class RunFacts:
    compared: Mapping[str, Value] = field(default_factory=dict)
    """By the name they are shown under."""
    shown_by_meaning: Mapping[str, frozenset[object]] = field(default_factory=dict)
    """What the run shows of the settings in `known.MEANINGS`."""
    variables: Mapping[str, str | None] = field(default_factory=dict)
    packages: tuple[str, ...] = ()


def facts_of(run: Run) -> RunFacts | None:
    """None where no training was recorded."""
    summary = summarise(run)
    if summary.main is None:
        return None
    main, told = summary.main, summary.main.record.facts or TrainingFacts()
    compared = {
        "training processes": (len(summary.trainers),),
        **_of_loaders(main),
        **_of_environments(main),
        **_of_model(told),
    }
    return RunFacts(compared, _by_meaning(main, told), told.variables, told.packages)


def _of_loaders(main: Trainer) -> dict[str, Value]:
    loaders = main.record.loaders
    return {
        "workers": _set(loader.num_workers for loader in loaders),
        "batch size": _set(loader.batch_size for loader in loaders),
        "batches in an epoch": _set(loader.length for loader in loaders),
        "prefetch factor": _set(loader.prefetch_factor for loader in loaders),
        "pinned memory": _set(loader.pin_memory for loader in loaders),
        "persistent workers": _set(loader.persistent_workers for loader in loaders),
        "data set": _set(loader.dataset for loader in loaders),
    }


def _of_environments(main: Trainer) -> dict[str, Value]:
    flow = main.throughput
    found: dict[str, Value] = {}
    if envs := _envs(main):
        found["environments"] = (envs,)
    if flow.updates_per_env_step:
        found["updates per env step"] = flow.updates_per_env_step
    if main.iteration is not None and (row := main.iteration.updates_in_a_row):
        found["updates in a row"] = row
    if flow.backwards_per_tick:
        found["backward passes per tick"] = flow.backwards_per_tick
    return found


def _of_model(told: TrainingFacts) -> dict[str, Value]:
    return {
        "parameters": tuple(sorted(told.models.items())),
        "input shape": tuple(sorted(told.inputs.items())),
        "rows a model gets": tuple(sorted(told.rows.items())),
        "type of the forward pass": told.dtypes,
        "threads": (told.threads,),
        "optimizers": tuple(tuple(sorted((k, str(v)) for k, v in one.items())) for one in told.optimizers),
    }


def _by_meaning(main: Trainer, told: TrainingFacts) -> dict[str, frozenset[object]]:
    loaders = main.record.loaders
    batches = {loader.batch_size for loader in loaders if loader.batch_size} | set(told.rows.values())
    return {
        "num_workers": frozenset(loader.num_workers for loader in loaders),
        "prefetch_factor": frozenset(one.prefetch_factor for one in loaders),
        "pin_memory": frozenset(loader.pin_memory for loader in loaders),
        "persistent_workers": frozenset(loader.persistent_workers for loader in loaders),
        "batch": frozenset(batches),
        "envs": frozenset({envs} if (envs := _envs(main)) else ()),
        "lr": frozenset(one["lr"] for one in told.optimizers if "lr" in one),
        "seed": frozenset({told.seed} if told.seed is not None else ()),
        "threads": frozenset({told.threads} if told.threads is not None else ()),
    }


def _envs(main: Trainer) -> int | None:
    """Environments behind one call of `step`."""
    envs = envs_per_call(main.record)
    return round(envs) if envs is not None else None


def _set(values: Iterable[object]) -> tuple[object, ...]:
    return tuple(sorted(set(values), key=str))


def same(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= TOLERANCE_FRAC * max(abs(one), abs(other))
    return one == other


def shown(value: Value | None) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, float):
        return f"{value:.3g}"
    return ", ".join(_text(part) for part in value)


def _text(part: object) -> str:
    if isinstance(part, tuple) and part and isinstance(part[0], tuple):
        return " ".join(f"{name}={value}" for name, value in part)
    return f"{part[0]} {part[1]}" if isinstance(part, tuple) and len(part) == 2 else str(part)
