"""Memory per env a hundred times the neighbours': a simulator problem, not a ceiling to search for."""

from __future__ import annotations

from statistics import median

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.cases import Case
from stoker.diagnose.labels import listed

_FAR_ABOVE = 20.0
_FEWEST_NEIGHBOURS = 2


def look(board: Board) -> list[Observation]:
    costs = {case.name: cost for case in board.cases if (cost := _mib_per_env(case))}
    if len(costs) <= _FEWEST_NEIGHBOURS:
        return []
    far = [name for name, cost in costs.items() if cost > _FAR_ABOVE * _lower_median(list(costs.values()))]
    rest = [case for case in board.cases if case.name in costs and case.name not in far]
    # Few envs carry the same fixed memory as many; only a case that also needs more in total is strange.
    typical = median(case.chosen.peak_mem_mib or 0 for case in rest)
    strange = [
        case.name for case in board.cases if case.name in far and (case.chosen.peak_mem_mib or 0) > typical
    ]
    return [_observation(strange, costs, median(costs[case.name] for case in rest))] if strange else []


def _lower_median(figures: list[float]) -> float:
    """Of the lower half: the strange ones must not set the measure they are held against."""
    ordered = sorted(figures)
    return median(ordered[: (len(ordered) + 1) // 2])


def _mib_per_env(case: Case) -> float | None:
    envs, memory = case.chosen.setting.num_envs, case.chosen.peak_mem_mib
    return memory / envs if envs and memory and case.chosen.ok is not False else None


def _observation(strange: list[str], costs: dict[str, float], usual: float) -> Observation:
    low, high = min(costs[name] for name in strange), max(costs[name] for name in strange)
    span = f"{low:.0f}" if round(low) == round(high) else f"{low:.0f}-{high:.0f}"
    return Observation(
        "memory-per-env",
        tuple(strange),
        f"{listed(strange)}: {span} MiB per env, {low / usual:.0f}x the other cases' {usual:.1f} MiB",
        "a simulator problem (contact buffers, the asset), not a ceiling to search for with num_envs",
    )
