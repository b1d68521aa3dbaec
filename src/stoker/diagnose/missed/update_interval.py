"""`update every N` that does N updates every N steps: the same work, in lumps."""

from __future__ import annotations

import re
from statistics import mean

from stoker.diagnose.board import Board, Observation
from stoker.model.evidence import LoopProfile

_SAME_WORK = 0.05
_INTERVAL = re.compile(r"(?:^| )update_interval=\S+")


def look(board: Board) -> list[Observation]:
    groups: dict[str, list[LoopProfile]] = {}
    for profile in board.profiles:
        if profile.update_interval:
            groups.setdefault(_INTERVAL.sub("", profile.configuration), []).append(profile)
    return [found for group in groups.values() if (found := _observation(group))]


def _observation(group: list[LoopProfile]) -> Observation | None:
    intervals = sorted({profile.update_interval for profile in group if profile.update_interval})
    rates = [profile.updates / profile.env_steps for profile in group]
    if len(intervals) < 2 or max(rates) - min(rates) > _SAME_WORK * max(rates):
        return None
    shown = "/".join(str(interval) for interval in intervals)
    return Observation(
        "update-interval",
        tuple(f"update_interval={interval}" for interval in intervals),
        f"update_interval {shown}: {mean(rates):.2f} updates per env step at each{_speeds(group, intervals)}",
        "the setting changes when the work is done, not how much; it is no way to more throughput",
    )


def _speeds(group: list[LoopProfile], intervals: list[int]) -> str:
    means = []
    for interval in intervals:
        speeds = [
            profile.steps_per_s
            for profile in group
            if profile.update_interval == interval and profile.steps_per_s
        ]
        if not speeds:
            return ""
        means.append(f"{mean(speeds):.1f}")
    return f", {'/'.join(means)} env steps/s"
