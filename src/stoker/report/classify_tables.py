"""The tables of evidence on the page of `stoker classify`: each is left out where there is nothing for it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from stoker.diagnose.analysis import Analysis
from stoker.diagnose.checklist import checklist_of
from stoker.diagnose.labels import label_of, listed
from stoker.diagnose.targets import TargetAnswer
from stoker.diagnose.trial import Trial
from stoker.report.figures import counted, pair, seconds, shown
from stoker.report.page import Block, Facts, Table

_MOST_ROWS = 24
_STAGES = ("to_device", "forward", "loss", "backward")
_NOT_HERE = "not in these files"


def evidence_tables(analysis: Analysis) -> list[Block]:
    tables = [
        _targets(analysis),
        _methods(analysis),
        _gpus(analysis),
        _windows(analysis),
        _steps(analysis),
        _stages(analysis),
        _iterations(analysis),
        _durations(analysis),
        _loops(analysis),
        _failures(analysis),
        _reruns(analysis),
    ]
    return [table for table in tables if isinstance(table, Table) and table.rows]


def _cut(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    if len(rows) <= _MOST_ROWS:
        return tuple(rows)
    rest = (f"… {len(rows) - _MOST_ROWS} more in --json", *[""] * (len(rows[0]) - 1))
    return (*rows[:_MOST_ROWS], rest)


def _label(trial: Trial) -> str:
    named = trial.setting.num_envs or trial.setting.variant
    stage = "" if trial.stage.value in ("unknown", "probe") else f" ({trial.stage.value})"
    return f"{trial.case} {trial.setting.label()}" if named else f"{trial.case}{stage}"


def _targets(analysis: Analysis) -> Table:
    """One row per case, one column per target; the heading counts."""
    targets = list(dict.fromkeys(answer.target for answer in analysis.targets))
    cells = {(answer.case, answer.target): _target_cell(answer) for answer in analysis.targets}
    rows = [(case.name, *(cells[case.name, target] for target in targets)) for case in analysis.cases]
    columns = ("case", *(f"{target.name.value} {target.value:g}" for target in targets))
    met = [
        f"{target.name.value} {target.value:g} met by "
        f"{sum(bool(answer.met) for answer in analysis.targets if answer.target == target)} of {len(rows)}"
        for target in targets
    ]
    return Table(f"Targets: {', '.join(met)}", columns, tuple(rows) if targets else ())


def _target_cell(answer: TargetAnswer) -> str:
    if answer.met is None:
        return f"? {answer.why_unknown}"
    return f"{'met' if answer.met else 'not met'} {shown(answer.figure, 1)}"


def _methods(analysis: Analysis) -> Table:
    rows = [
        (
            row.method,
            str(row.cases),
            shown(row.util_pct, 2),
            shown(row.peak_mem_mib, 1)
            if row.peak_mem_mib is not None
            else f"{_NOT_HERE} ({row.with_memory} of {row.cases})",
            shown(row.samples_per_s, 0),
        )
        for row in analysis.methods
        if (row.with_util or row.with_memory) and len(analysis.cases) > 1
    ]
    columns = ("method", "cases", "mean util %", "mean peak memory MiB", "samples/s")
    return Table("Methods (memory: the fuller GPU)", columns, tuple(rows), frozenset({1, 2, 3, 4}))


def _gpus(analysis: Analysis) -> Table:
    rows = [
        (
            _label(trial),
            gpu.gpu,
            str(gpu.n),
            shown(gpu.mean_pct, 2),
            shown(gpu.p50_pct, 0),
            shown(gpu.peak_pct, 0),
            shown(gpu.mem_peak_mib, 0),
            seconds(gpu.active_s),
            seconds(gpu.idle_s),
        )
        for trial in analysis.board.trials
        for gpu in trial.gpus
    ]
    columns = ("samples of", "gpu", "n", "mean", "p50", "peak", "MiB", "active", "idle")
    heading = f"GPU samples (active: {analysis.limits.active_util_pct:g} % and above)"
    return Table(heading, columns, _cut(rows), frozenset(range(2, 9)))


def _windows(analysis: Analysis) -> Table:
    rows = []
    for trial in analysis.board.trials:
        if trial.noted:
            noted = trial.noted
            rows.append(
                (
                    f"{trial.case} (as noted)",
                    pair(noted.gpu_avg_pct, 2),
                    shown(noted.both_avg_pct, 2),
                    shown(noted.both_p50_pct, 2),
                    shown(noted.both_avg_active_pct, 2),
                )
            )
        elif trial.window:
            window = trial.window
            rows.append(
                (
                    _label(trial),
                    pair(window.gpu_avg_pct, 2)
                    if len(window.gpu_avg_pct) <= 2
                    else counted(len(window.gpu_avg_pct), "GPU"),
                    shown(window.both_avg_pct, 2),
                    shown(window.both_p50_pct, 2),
                    shown(window.both_avg_active_pct, 2),
                )
            )
    columns = ("window", "gpu0/gpu1_avg", "both_avg", "both_p50", "while active")
    return Table("Windows, all GPUs together (%)", columns, _cut(rows), frozenset({1, 2, 3, 4}))


def _steps(analysis: Analysis) -> Table:
    rows = []
    for trial in analysis.board.trials:
        for session, facts in enumerate(trial.steps, start=1):
            name = trial.case if len(trial.steps) == 1 else f"{trial.case}, run {session}"
            share = "?" if facts.data_share_frac is None else f"{facts.data_share_frac:.1%}"
            gate = "never" if facts.gate_passed_at is None else f"iter {facts.gate_passed_at}"
            interval = "?" if facts.log_interval is None else str(facts.log_interval)
            rows.append(
                (
                    name,
                    str(facts.rows),
                    interval,
                    f"{facts.step_mean_s:.4f}",
                    shown(facts.data_mean_s, 4),
                    shown(facts.data_max_s, 4),
                    share,
                    gate,
                )
            )
    columns = ("steps of", "rows", "every", "step s", "data s", "max", "data share", "gate passed")
    return Table("Step rows", columns, _cut(rows), frozenset({1, 2, 3, 4, 5, 6}))


def _stages(analysis: Analysis) -> Table:
    rows = []
    for trial in analysis.board.trials:
        for facts in trial.steps:
            if facts.stage_s or facts.sample_s:
                parts = [shown(facts.stage_s.get(f"time_{name}"), 4) for name in _STAGES]
                rows.append((trial.case, *parts, shown(facts.unattributed_s, 4), shown(facts.sample_s, 4)))
    columns = ("stages of", *_STAGES, "in none", "one sample")
    heading = "Stages of a step, means in s (timers without a sync: GPU time may land in a later one)"
    return Table(heading, columns, _cut(rows), frozenset(range(1, 7)))


def _iterations(analysis: Analysis) -> Table:
    rows = []
    for trial in analysis.board.trials:
        for stage, facts in trial.iterations.items():
            if facts.evaluation_share_frac is None:
                continue
            name = _label(trial) if stage.value == "unknown" else f"{_label(trial)} {stage.value}"
            rows.append(
                (
                    name,
                    str(facts.iterations),
                    str(facts.evaluations),
                    f"{facts.evaluation_share_frac:.0%}",
                    shown(facts.samples_per_s, 0),
                    shown(facts.train_samples_per_s, 0),
                )
            )
    columns = ("trainer's log of", "iterations", "evals", "eval share", "samples/s", "training only")
    heading = "Evaluation inside the training log (the share holds the warm-up too)"
    return Table(heading, columns, _cut(rows), frozenset({1, 2, 3, 4, 5}))


def _durations(analysis: Analysis) -> Table:
    rows = []
    for trial in analysis.board.trials:
        for log in trial.durations:
            gaps = [later - earlier for earlier, later in zip(log.steps, log.steps[1:], strict=False)]
            speeds = [
                gap / length
                for gap, length in zip(gaps, log.duration_s[1:], strict=False)
                if gap > 0 and length > 0
            ]
            usual = median(log.duration_s)
            late = sum(length - usual for length in log.duration_s if length > 2 * usual)
            rows.append(
                (
                    f"{trial.case} {log.mode}",
                    str(len(log.steps)),
                    f"{median(speeds):.1f}" if speeds else "?",
                    seconds(sum(log.duration_s)),
                    f"{late / sum(log.duration_s):.0%}" if sum(log.duration_s) else "?",
                )
            )
    columns = ("durations of", "rows", "median steps/s", "total", "in slow rows")
    heading = "Durations (a slow row, over twice the median, also holds an evaluation or a save)"
    return Table(heading, columns, _cut(rows), frozenset({1, 2, 3, 4}))


def _loops(analysis: Analysis) -> Table:
    rows = []
    for profile in sorted(analysis.board.profiles, key=lambda profile: profile.update_interval or 0):
        total = sum(profile.phase_s.values())
        update, env = (profile.phase_s.get(name) for name in ("update", "env.step"))
        rows.append(
            (
                label_of(profile, analysis.board.profiles),
                f"{profile.updates / profile.env_steps:.2f}",
                shown(profile.steps_per_s, 1),
                "?" if update is None or not total else f"{update / total:.0%}",
                "?" if env is None or not total else f"{env / total:.1%}",
            )
        )
    columns = ("off-policy loop", "updates/step", "steps/s", "update", "env.step")
    return Table(
        "Off-policy loops (shares of the timed phases)", columns, _cut(rows), frozenset({1, 2, 3, 4})
    )


def _failures(analysis: Analysis) -> Table:
    if not any(record.failures for record in analysis.failures):
        return Table("", ("",), ())
    rows = []
    for record in analysis.failures:
        kinds = ", ".join(f"{count}x {kind}" for kind, count in record.kinds) or "-"
        rate = f"{record.failures / record.attempts:.0%}"
        rows.append((record.setting, str(record.attempts), str(record.failures), rate, kinds))
    columns = ("setting", "attempts", "failed", "rate", "how")
    return Table("Failures per setting, over all cases", columns, _cut(rows), frozenset({1, 2, 3}))


def _reruns(analysis: Analysis) -> Table:
    rows = []
    for rerun in analysis.reruns:
        figures = ", ".join(f"{figure:.4g}" for figure in rerun.figures)
        spread = "?" if rerun.ratio is None else f"x{rerun.ratio:.2f}"
        rows.append(
            (rerun.configuration, rerun.metric, figures, spread, "yes" if rerun.reproducible else "NO")
        )
    columns = ("runs of one configuration", "of", "figures", "spread", "reproducible")
    return Table("Repeats", columns, _cut(rows), frozenset({3}))


def symptom_lines(analysis: Analysis) -> tuple[str, ...]:
    seen = [symptom for symptom in analysis.symptoms if symptom.cases]
    lines = [
        f"{symptom.seen} -> {symptom.meaning}; {symptom.action}: "
        f"{counted(len(symptom.cases), 'case')} ({listed(symptom.cases, 3)})"
        for symptom in seen
    ]
    untold = [
        f"{symptom.seen} ({symptom.not_told} of {len(analysis.cases)} cases)"
        for symptom in analysis.symptoms
        if symptom.not_told
    ]
    return (*lines, f"cannot be told: {'; '.join(untold)}") if lines and untold else tuple(lines)


def details(analysis: Analysis) -> list[Block]:
    """The checklist of every case; a case of which nothing is known is not listed."""
    blocks: list[Block] = []
    for case in analysis.cases:
        answers = checklist_of(case, analysis.cases)
        if not any(answer.from_data for answer in answers):
            continue
        rows = [("class", f"{case.case_class.value}: {case.judgement.why}")]
        if case.stage_note:
            rows.append(("but", case.stage_note))
        rows += [(answer.question, answer.answer) for answer in answers]
        blocks.append(Facts(tuple(rows), f"Checklist: {case.name}"))
    return blocks
