"""The course of a run as plain data, for JSON."""

from __future__ import annotations

from dataclasses import asdict

from stoker.diagnose.over_time import OverTime
from stoker.diagnose.turns import Turn
from stoker.model.record import PHASES, Sums
from stoker.model.run import RunInfo


def over_time_data(told: OverTime, info: RunInfo) -> dict[str, object]:
    wall = info.started_wall + told.started_s - info.started_s
    return {
        "sentence": told.sentence,
        "began_wall": wall if told.periods else None,
        "cut_at": told.cut_at or None,
        "stretches": [{**asdict(one), "outcome": str(one.outcome)} for one in told.periods],
        "changes": [_turn(turn) for turn in told.course.turns] if told.course else [],
        "speed_spread_frac": told.course.speed_spread_frac if told.course else None,
    }


def _turn(turn: Turn) -> dict[str, object]:
    return {
        "at_s": turn.at_s,
        "until_s": turn.until_s,
        "gradual": turn.gradual,
        "phase": turn.phase,
        "before": _side(turn.before),
        "after": _side(turn.after),
    }


def _side(content: Sums) -> dict[str, object]:
    return {
        "seconds": content.t_s,
        "ticks_per_s": content.ticks / content.t_s,
        "phase_pct": {name: 100 * content.phase(name) / content.t_s for name in PHASES},
    }
