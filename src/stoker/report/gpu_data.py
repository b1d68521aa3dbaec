"""A GPU of a run as plain data, for the JSON."""

from __future__ import annotations

from dataclasses import asdict

from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.gpu_view import watcher_cost
from stoker.diagnose.rank_gpus import Together
from stoker.model.run import Run


def gpu_data(use: GpuUse) -> dict[str, object]:
    budget = use.budget
    return {
        "index": use.index,
        "name": use.name,
        "uuid": use.view.uuid if use.view else None,
        "busy_pct": budget.busy_pct,
        "busy_source": budget.busy_source,
        "real_work_pct": budget.real_work_pct,
        "real_work_source": budget.real_work_source,
        "idle_pct": budget.idle_pct,
        "idle_by_phase_pct": budget.idle_by_phase_pct,
        "idle_source": budget.idle_source,
        "launching_pct": budget.launching_pct,
        "unknown_idle_pct": budget.unknown_idle_pct,
        "unknown_pct": budget.unknown_pct,
        "unknown_reason": budget.unknown_reason or None,
        "told_idle_pct": budget.told_idle_pct,
        "contradiction": budget.contradiction or None,
        "parts": [asdict(part) for part in budget.parts],
        "phases": [asdict(cause) for cause in budget.phases],
        "shared": use.view.sharing.shared if use.view else None,
        "own_processes": use.own_processes,
        "counters": asdict(use.view) if use.view else None,
        "no_counters": use.no_view or None,
        "lead": asdict(use.lead) if use.lead else None,
        "deep": asdict(use.deep) if use.deep else None,
    }


def together_data(found: Together | None) -> dict[str, object] | None:
    """Each rank's budget is with its trainer."""
    if found is None:
        return None
    return {
        "parts": [asdict(part) for part in found.parts],
        "waiting_pct": found.waiting_pct,
        "reason": found.reason or None,
        "ranks": [
            {
                "rank": one.rank,
                "pid": one.pid,
                "parts": [asdict(part) for part in one.parts],
                "waiting_pct": one.waiting_pct,
            }
            for one in found.ranks
        ],
    }


def gpu_watcher(run: Run) -> dict[str, object] | None:
    header, cost = run.gpu.header, watcher_cost(run.gpu)
    if header is None:
        return None
    return {
        "source": header.source,
        "reason": header.reason,
        "driver": header.driver,
        "interval_s": header.interval_s,
        "cost": asdict(cost) if cost else None,
    }
