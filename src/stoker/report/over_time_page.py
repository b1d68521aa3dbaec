"""`stoker why --over-time`: the sentence, and a row for each stretch of the train stage."""

from __future__ import annotations

import shlex

from stoker.diagnose.labels import moment
from stoker.diagnose.over_time import OverTime, Period
from stoker.diagnose.summary import Summary
from stoker.model.finding import Outcome
from stoker.model.record import PHASES
from stoker.model.run import short_id
from stoker.report.figures import rate
from stoker.report.page import Block, NextCommand, Notes, Page, Sentence, Table
from stoker.report.run_page import short_command, status

PHASES_SHOWN = 4


def build(summary: Summary, told: OverTime) -> Page:
    info = summary.run.info
    blocks: list[Block] = [Sentence(told.sentence)]
    if told.periods:
        blocks.append(_table(summary, told))
        blocks.append(Notes("To be taken with care", tuple(_notes(summary, told))))
    blocks.append(NextCommand(f"stoker why {short_id(info.id)}", "the steady part, with its causes"))
    return Page(f"stoker · {shlex.join(short_command(info))}", status(summary), tuple(blocks))


def _table(summary: Summary, told: OverTime) -> Table:
    phases = _phases(told)
    with_gpu = any(period.gpu_busy_pct is not None for period in told.periods)
    unit = f"{summary.main.tick_kind.many if summary.main is not None else 'ticks'}/s"
    columns = ("from", unit, *phases, *(("GPU busy",) if with_gpu else ()), "why")
    rows = tuple(_row(period, phases, with_gpu) for period in told.periods)
    end = moment(told.periods[-1].to_s)
    heading = f"The train stage in {len(rows)} stretches ({told.cut_at}); it ended after {end}"
    return Table(heading, columns, rows, frozenset(range(1, len(columns) - 1)))


def _phases(told: OverTime) -> list[str]:
    """Those that move most, then those that take most."""

    def weight(name: str) -> tuple[float, float]:
        shares = [period.phase_pct[name] for period in told.periods]
        return max(shares) - min(shares) if max(shares) - min(shares) >= 1 else 0.0, max(shares)

    taken = sorted(PHASES, key=weight, reverse=True)[:PHASES_SHOWN]
    return [name for name in PHASES if name in taken and max(p.phase_pct[name] for p in told.periods) >= 0.5]


def _row(period: Period, phases: list[str], with_gpu: bool) -> tuple[str, ...]:
    speed = period.throughput.ticks_per_s
    busy = (_share(period.gpu_busy_pct),) if with_gpu else ()
    return (
        moment(period.from_s),
        rate(speed) if speed else "-",
        *(_share(period.phase_pct[name]) for name in phases),
        *busy,
        _why(period),
    )


def _share(pct: float | None) -> str:
    return "?" if pct is None else f"{pct:.0f} %"


def _why(period: Period) -> str:
    if period.cause is not None:
        return f"{period.cause} {period.cause_name}"
    return "cannot tell" if period.outcome is Outcome.CANNOT_TELL else str(period.outcome)


def _notes(summary: Summary, told: OverTime) -> list[str]:
    found = ["times are since the train stage began; evaluations lie between the figures, not in them"]
    main = summary.main
    if main is not None and (main.loaders or main.lines):
        found.append(
            "phases, speed and counters are each stretch's own; source lines and the loader's figures, on "
            "which some causes rest, are of the whole run"
        )
    if told.course is not None and told.course.from_s >= 1:
        found.append(f"the first {moment(told.course.from_s)} are warm-up: changes there are not told")
    return found
