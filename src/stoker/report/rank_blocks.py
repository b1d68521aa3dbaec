"""The GPUs of all training processes: one bar of their mean, and a row for each."""

from __future__ import annotations

from stoker.diagnose.gpu_budget import GpuBudget, Kind, Part
from stoker.diagnose.gpu_causes import Known
from stoker.diagnose.gpu_use import GpuUse
from stoker.diagnose.rank_gpus import Together, together
from stoker.diagnose.summary import Summary
from stoker.report.gpu_blocks import label, pct, segments
from stoker.report.page import Block, Notes, Stack, Table


def rank_blocks(summary: Summary) -> list[Block]:
    found = together(summary)
    return [*(_together(found) if found else []), *_rows(summary, found)]


def _together(found: Together) -> list[Block]:
    drawn = tuple(segments(found.parts, found.waiting_pct, _note))
    blocks: list[Block] = [Stack(_heading(found), drawn)]
    if found.reason:
        blocks.append(Notes("", (f"how long ranks wait for each other is not in this bar: {found.reason}",)))
    return blocks


def _heading(found: Together) -> str:
    names = {one.use.name or "GPU" for one in found.ranks}
    of = "ranks" if all(one.rank is not None for one in found.ranks) else "training processes"
    cards = f"{len(found.ranks)} × {names.pop()}" if len(names) == 1 else "of different cards"
    return f"What the GPUs of {len(found.ranks)} {of} do, on average ({cards})"


def _note(part: Part) -> str:
    return "waits for one small kernel after another" if part.kind is Kind.LAUNCHING else ""


def _rows(summary: Summary, found: Together | None) -> list[Block]:
    """One per training process and GPU, where there are several."""
    uses = [(trainer, use) for trainer in summary.trainers for use in trainer.gpus.uses]
    if len(uses) < 2:
        return []
    waits = found is not None and found.waiting_pct is not None
    columns = (
        "rank",
        "pid",
        "GPU",
        "busy",
        *(["of it waiting"] if waits else []),
        "real work",
        "idle",
        "most of it",
    )
    rows = tuple(
        (
            "-" if trainer.record.rank is None else str(trainer.record.rank),
            str(trainer.record.pid),
            _number(use),
            pct(use.budget.busy_pct),
            *([pct(_waiting_pct(found, use))] if waits else []),
            pct(use.budget.real_work_pct),
            pct(use.budget.idle_pct),
            _top_cause(use.budget),
        )
        for trainer, use in uses
    )
    heading = "GPUs of all training processes"
    return [Table(heading, columns, rows, frozenset(range(len(columns) - 1)))]


def _waiting_pct(found: Together | None, use: GpuUse) -> float | None:
    return next((one.waiting_pct for one in found.ranks if one.use is use), None) if found else None


def _number(use: GpuUse) -> str:
    return str(use.view.gpu if use.view else "-" if use.index is None else use.index)


def _top_cause(budget: GpuBudget) -> str:
    lost = [part for part in budget.parts if part.kind in (Kind.IDLE, Kind.LAUNCHING, Kind.UNKNOWN_IDLE)]
    top = max(lost, key=lambda part: part.pct, default=None)
    if top is None:
        return "-"
    cause = "unknown" if top.known is Known.UNKNOWN else label(top).removeprefix("idle: ")
    return f"{cause} {top.pct:.1f} %"
