"""A run as JSON, for programs: every figure of the page and more, under a schema."""

from __future__ import annotations

import json
from dataclasses import asdict

from stoker.diagnose.causes.arrivals import arrivals
from stoker.diagnose.conclusion import in_short
from stoker.diagnose.host import host_view
from stoker.diagnose.over_time import OverTime
from stoker.diagnose.rank_gpus import together
from stoker.diagnose.remedies import not_worth_trying
from stoker.diagnose.run_class import run_class
from stoker.diagnose.sentence import stage_findings
from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.verdict import verdict
from stoker.model.deep import DeepNote
from stoker.report.cause_data import verdict_data
from stoker.report.class_row import class_data
from stoker.report.gpu_data import gpu_data, gpu_watcher, together_data
from stoker.report.knob_blocks import settings_data
from stoker.report.over_time_data import over_time_data
from stoker.report.run_notes import notes

SCHEMA = "stoker.why/1"


def render(summary: Summary, told: OverTime | None = None) -> str:
    info = summary.run.info
    view = host_view(summary.run.host, summary.main.record.began_s if summary.main else None)
    met, found = arrivals(summary), verdict(summary)
    content = {
        "schema": SCHEMA,
        "run": asdict(info),
        "folder": str(summary.run.folder),
        "sentence": in_short(summary, found),
        "verdict": verdict_data(found),
        "settings": settings_data(summary.run),
        "not_worth_trying": [asdict(one) for one in not_worth_trying(summary)],
        "class": class_data(run_class(summary), summary.limits),
        "whole_training": asdict(summary.length) if summary.length else None,
        "chosen": asdict(summary.chosen) if summary.chosen else None,
        "over_time": over_time_data(told, info) if told else None,
        "ranks": asdict(met) if met else None,
        "gpus_together": together_data(together(summary)),
        "trainers": [_trainer(trainer) for trainer in summary.trainers],
        "processes": [
            {"pid": p.pid, "rank": p.rank, "ticks": p.last.ticks if p.last else 0, "ended": p.ended}
            for p in summary.run.processes
        ],
        "host": asdict(view) if view else None,
        "gpu_watcher": gpu_watcher(summary.run),
        "notes": notes(summary),
    }
    return json.dumps(content, indent=1, ensure_ascii=True)


def _trainer(trainer: Trainer) -> dict[str, object]:
    record, window = trainer.record, trainer.window
    return {
        "pid": record.pid,
        "rank": record.rank,
        "world": record.world,
        "python": record.python,
        "torch": record.torch,
        "window": {
            "seconds": window.seconds,
            "ticks": window.content.ticks,
            "tick": str(trainer.tick_kind),
            "samples": window.content.samples,
            "env_steps": window.content.env_steps,
            "warmup_s": window.warmup_s,
            "remark": window.remark,
            "steadiness": asdict(window.steadiness) if window.steadiness else None,
        },
        "stages_s": trainer.stages_s,
        "stage_pct": trainer.stage_pct,
        "rest_pct": trainer.rest_pct,
        "stage_findings": stage_findings(trainer),
        "phase_pct": trainer.phase_pct,
        "acting_pct": trainer.acting_pct,
        "compute_pct": trainer.compute_pct,
        "throughput": asdict(trainer.throughput),
        "optimizers": list(record.optimizers),
        "optimizer_steps": list(record.optimizer_steps),
        "iteration": asdict(trainer.iteration) if trainer.iteration else None,
        "batch_rows": record.batch_rows,
        "lines": [{**asdict(line), "under": sorted(line.under)} for line in trainer.lines[:50]],
        "loaders": [asdict(view) for view in trainer.loaders],
        "workers": [asdict(worker) for worker in record.workers],
        "ranges": {name: {"count": n, "seconds": s} for name, (n, s) in record.ranges.items()},
        "hook_failures": [asdict(hook) for hook in record.hook_failures],
        "knobs": [asdict(knob) for knob in record.knobs],
        "facts": asdict(record.facts) if record.facts else None,
        "deep": _deep(record.deep),
        "gpu": gpu_data(trainer.gpus.main) if trainer.gpus.main else None,
        "other_gpus": [gpu_data(use) for use in trainer.gpus.uses[1:]],
        "no_gpu": trainer.gpus.reason or None,
        "raised": asdict(record.raised) if record.raised else None,
        "pulse_cpu_s": record.seconds[-1].pulse_s if record.seconds else None,
    }


def _deep(note: DeepNote | None) -> dict[str, object] | None:
    """Without the names of the kernels, which may be thousands."""
    return {name: value for name, value in asdict(note).items() if name != "names"} if note else None
