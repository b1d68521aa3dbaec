"""From the recorded run of a trial to the measure of its arm.

The speed is that of the steady window `stoker why` would show, in whole cycles of what repeats.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stoker.diagnose.steady import SCREEN_S, Steadiness, Verdict
from stoker.diagnose.summary import Summary, Trainer, summarise
from stoker.diagnose.unsteady import Reason
from stoker.model.run import Run
from stoker.trials.ab.measure import ArmMeasure
from stoker.trials.ab.metric import Far, read_metric
from stoker.trials.ab.plan import Windows
from stoker.trials.progress import tail_of

COMPILED_MAX_FRAC = 0.01
"""Of a short window: with as much of torch.compile in it, it does not show the speed of the training."""
LOG_MAX_BYTES = 20_000_000
_TAIL_BYTES = 16_384


def measured(
    blank: ArmMeasure, run: Run, log: Path, windows: Windows, metric: str, share: bool
) -> ArmMeasure:
    """`blank` says whose trial it was."""
    summary = summarise(run)
    main = summary.main
    if main is None or not main.window.content.ticks:
        return replace(blank, remark="no training step was seen")
    steady, remark = window_verdict(main, windows)
    rates, rows = _rates(summary), _rows_per_tick(main)
    if rows is not None and "samples" not in rates and "ticks" in rates:
        rates["rows"] = rows * rates["ticks"]
    found = replace(
        blank,
        start_s=_start_s(main),
        rates=rates,
        window_s=main.window.seconds,
        half_width_frac=main.window.steadiness.half_width_frac if main.window.steadiness else None,
        ticks=main.window.content.ticks,
        steady=steady,
        remark=remark,
        updates_per_env_step=main.throughput.updates_per_env_step,
        updates_in_a_row=main.iteration.updates_in_a_row if main.iteration else None,
        samples_per_tick=_per_tick(main),
        rows_per_tick=rows,
        invalid="" if share else _foreign(main),
        whole_s=summary.length.seconds if summary.length else None,
        whole_from=summary.length.source if summary.length else "",
        notes=(*blank.notes, *_read_by_each(blank, main)),
    )
    return _with_metric(_with_gpu(found, main), main, log, metric)


def window_verdict(main: Trainer, windows: Windows) -> tuple[bool, str]:
    """Whether the window is long and even enough, and if not, why."""
    window, found = main.window, main.window.steadiness
    if window.seconds < windows.min_s or window.content.ticks < windows.min_ticks:
        return False, (
            f"{window.content.ticks:,} ticks in {window.seconds:.2f} s of steady training, a {windows.name} "
            f"window needs {windows.min_ticks} ticks and {windows.min_s:g} s"
        )
    if found is None or found.verdict is not Verdict.UNSTEADY:
        return True, ""
    if found.reason is Reason.SHORT and windows.min_s < SCREEN_S:
        compiled_frac = window.content.phase("compile") / window.seconds
        if compiled_frac >= COMPILED_MAX_FRAC:
            return False, f"{compiled_frac:.0%} of the {window.seconds:.0f} s is torch.compile"
        return True, "a window too short to be judged steady"
    return False, f"{found.phrase}: {found.seen}"


def _start_s(main: Trainer) -> float | None:
    began = main.record.process_start_s
    first = next((mark.sums.t_s for mark in main.record.marks if mark.stage == "train"), None)
    return first - began if began is not None and first is not None else None


def _rates(summary: Summary) -> dict[str, float]:
    """Ticks of the main process; samples and env steps of all ranks together."""
    main = summary.trainers[0]
    rates: dict[str, float] = {}
    for trainer in summary.trainers:
        content, ticks_per_s = trainer.window.content, _ticks_per_s(trainer)
        if not content.ticks or ticks_per_s is None:
            continue
        for unit, count in (("samples", content.samples), ("env_steps", content.env_steps)):
            if count:
                rates[unit] = rates.get(unit, 0.0) + ticks_per_s * count / content.ticks
    if (own := _ticks_per_s(main)) is not None:
        rates["ticks"] = own
    return rates


def _ticks_per_s(trainer: Trainer) -> float | None:
    found: Steadiness | None = trainer.window.steadiness
    if found is not None and found.verdict is not Verdict.UNSTEADY:
        return found.ticks_per_s
    return trainer.throughput.ticks_per_s


def _per_tick(main: Trainer) -> float | None:
    content = main.window.content
    return content.samples / content.ticks if content.samples and content.ticks else None


def _rows_per_tick(main: Trainer) -> float | None:
    rows = main.record.facts.rows.get("training") if main.record.facts else None
    return rows * (main.throughput.backwards_per_tick or 1.0) if rows else None


def _read_by_each(blank: ArmMeasure, main: Trainer) -> list[str]:
    return [
        f"{blank.arm}: {one.num_workers} workers read {one.dataset}: an IterableDataset "
        f"that does not share itself out gives every sample {one.num_workers} times"
        for one in main.record.loaders
        if one.num_workers > 1 and one.iterable and one.batches
    ]


def _with_gpu(found: ArmMeasure, main: Trainer) -> ArmMeasure:
    use = main.gpus.main
    if use is None:
        return found
    view = use.view
    held = view.allocator.reserved_max_bytes if view and view.allocator else None
    own = view.own_memory_peak_bytes if view else None
    return replace(
        found,
        busy_pct=use.budget.busy_pct,
        real_work_pct=use.budget.real_work_pct,
        memory_peak_bytes=own or held or (view.memory_peak_bytes if view else None),
    )


def _foreign(main: Trainer) -> str:
    use = main.gpus.main
    return "another process computed on this GPU meanwhile" if use is not None and use.shared else ""


def _with_metric(found: ArmMeasure, main: Trainer, log: Path, pattern: str) -> ArmMeasure:
    last = main.record.last
    far = Far(last.ticks, last.samples, last.env_steps) if last else Far(0, 0, 0)
    metric = read_metric(log_lines(log), far, pattern)
    return replace(
        found,
        metric_name=metric.name,
        metric=metric.points,
        metric_by=metric.by,
        metric_unit=metric.unit,
        metric_missing=metric.missing,
    )


def log_lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as handle:
            text = handle.read(LOG_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return text.replace("\r", "\n").split("\n")


def log_tail(log: Path, lines: int = 12) -> tuple[str, ...]:
    """The last lines that say something."""
    text = tail_of(log, _TAIL_BYTES)
    said = [line.rstrip() for line in text.replace("\r", "\n").split("\n") if line.strip()]
    return tuple(line[:300] for line in said[-lines:])


def short_by_itself(measure: ArmMeasure, ended_by_itself: bool) -> ArmMeasure:
    """A command that ended well before its window was full will do so again."""
    if not ended_by_itself or measure.steady or measure.failure is not None:
        return measure
    text = f"the command ended by itself after {measure.took_s:.0f} s: {measure.remark}"
    return replace(measure, too_short=True, remark=text)
