"""The window the user asked for, beside the steady one."""

from __future__ import annotations

from stoker.diagnose.chosen import Chosen, Quoted
from stoker.report.figures import duration, milliseconds, percent, rate
from stoker.report.page import Block, Facts

PHASES_SHOWN = 4
SMALL_PCT = 1.0


def chosen_block(chosen: Chosen | None) -> list[Block]:
    if chosen is None:
        return []
    rows = [("your window", _asked(chosen))]
    if chosen.quoted is not None:
        rows += _figures(chosen.quoted)
        rows += [("", _held(chosen.quoted))] if chosen.gate else []
    if chosen.reason:
        rows.append(("", chosen.reason))
    return [Facts(tuple(rows))]


def _asked(chosen: Chosen) -> str:
    parts = [f"gate {chosen.gate}" if chosen.gate else "", f"window {chosen.window}" if chosen.window else ""]
    text = ", ".join(part for part in parts if part)
    if chosen.quoted is None:
        return text
    one = chosen.quoted
    ticks = f"ticks {one.first_tick:,} to {one.last_tick:,}"
    return f"{text}: {ticks}, from {duration(one.from_s)} to {duration(one.to_s)}"


def _figures(one: Quoted) -> list[tuple[str, str]]:
    speeds = [f"{rate(one.ticks_per_s)} ticks/s"]
    if one.samples_per_s:
        speeds.append(f"{rate(one.samples_per_s)} samples/s")
    if one.env_steps_per_s:
        speeds.append(f"{rate(one.env_steps_per_s)} env steps/s")
    return [
        ("speed there", " · ".join(speeds)),
        (
            "tick there",
            f"mean {milliseconds(one.mean_ms)} · median {milliseconds(one.median_ms)} · "
            f"95th percentile {milliseconds(one.p95_ms)} · CV {percent(one.cv_frac)}",
        ),
        ("phases there", _phases(one.phase_pct)),
    ]


def _phases(phase_pct: dict[str, float]) -> str:
    if not phase_pct:
        return "not told apart in any of these ticks"
    top = sorted(phase_pct.items(), key=lambda item: -item[1])[:PHASES_SHOWN]
    return " · ".join(f"{name} {pct:.0f} %" for name, pct in top if pct >= SMALL_PCT)


def _held(one: Quoted) -> str:
    if one.held_frac is None:
        return "of none of these ticks it can be told whether the gate's condition holds"
    text = f"the gate's condition holds on {percent(one.held_frac)} of "
    if one.told_ticks == one.ticks:
        return f"{text}these ticks"
    return f"{text}the {one.told_ticks:,} of these ticks of which that can be told"
