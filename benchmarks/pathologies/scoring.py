"""How often the right cause came first: pure figures from a list of runs, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from cases import HALVES, alternatives

Row = dict[str, Any]


def right(run: Row) -> bool:
    """A mended fault may have another, smaller one below it: it is only shown."""
    if run["fixed"]:
        return True
    wanted = alternatives(run["expected"])
    if not wanted:
        return not run["codes"] and not run.get("failed")
    return bool(run["codes"]) and any(run["codes"][0] in one for one in wanted)


def scored(runs: Sequence[Row]) -> Row:
    """The halves apart; the gains of all."""
    halves = {half: _half([run for run in runs if run["half"] == half]) for half in HALVES}
    return {"halves": {half: score for half, score in halves.items() if score["runs"]}, "gains": gains(runs)}


def _half(runs: Sequence[Row]) -> Row:
    sick = [run for run in runs if not run["fixed"] and run["expected"]]
    faults = [run for run in sick if "+" not in run["expected"]]
    pairs = [run for run in sick if "+" in run["expected"]]
    healthy = [run for run in runs if not run["fixed"] and not run["expected"]]
    controls = [run for run in healthy if run["control"]]
    dose0 = [run for run in healthy if not run["control"]]
    placed = [run for run in faults if run["planted"] is not None]
    return {
        "runs": len(runs),
        "faults": len(faults),
        "top1": sum(map(right, faults)),
        "top2": sum(_among(run, 2) > 0 for run in faults),
        "pairs": len(pairs),
        "pairs_causes": sum(len(alternatives(run["expected"])) for run in pairs),
        "pairs_top2": sum(_among(run, 2) for run in pairs),
        "controls": len(controls),
        "controls_false_alarms": [run["name"] for run in controls if run["codes"]],
        "controls_not_healthy": [run["name"] for run in controls if run["outcome"] != "healthy"],
        "dose0": len(dose0),
        "dose0_false_alarms": [run["name"] for run in dose0 if run["codes"]],
        "lines": len(placed),
        "lines_named": sum(run["planted"] == "line" for run in placed),
        "lines_function": sum(run["planted"] == "function" for run in placed),
        "failed": [f"{run['name']} {state(run)}" for run in runs if run.get("failed")],
        "confusion": _confusion(faults),
    }


def _among(run: Row, first: int) -> int:
    """How many of the planted causes are among the first ones named."""
    return sum(bool(one & set(run["codes"][:first])) for one in alternatives(run["expected"]))


def _confusion(faults: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Expected, and what came first."""
    rows: dict[str, Counter[str]] = {}
    for run in faults:
        rows.setdefault(run["expected"], Counter())[(run["codes"] or [run["outcome"]])[0]] += 1
    return {code: dict(counts) for code, counts in sorted(rows.items())}


def gains(runs: Sequence[Row]) -> list[Row]:
    found = []
    for fixed in (run for run in runs if run["fixed"] and not run.get("failed")):
        key = (fixed["half"], fixed["name"], fixed["dose"])
        sick = next((r for r in runs if not r["fixed"] and (r["half"], r["name"], r["dose"]) == key), None)
        if sick is None or sick.get("failed"):
            continue
        wanted = frozenset().union(*alternatives(sick["expected"]))
        pairs = zip(sick["codes"], sick["ceilings"], strict=True)
        ceiling = next((most for code, most in pairs if code in wanted), None)
        before, after = _pace(sick), _pace(fixed)
        found.append(
            {"name": fixed["name"], "ceiling": ceiling, "measured": after / before if before else None}
        )
    return found


def _pace(run: Row) -> float:
    """Samples a second where the script counts them: a larger batch is not more ticks."""
    return float(run.get("units_per_s") or run["ticks_per_s"])


def state(run: Row) -> str:
    return "fixed" if run["fixed"] else f"dose {run['dose']}"


def told(run: Row) -> str:
    said = run["codes"][:3] or [run["outcome"]]
    mark = "" if right(run) and not run.get("failed") else "   <- WRONG"
    return (
        f"{run['name']:22} {state(run):7} {run['expected'] or 'healthy':11} {' '.join(said):22}"
        f"{100 * (run.get('injected_frac') or 0):5.0f} %  {run['line'] or ''}{mark}"
    )


def lines(report: Row) -> Iterator[str]:
    for half, score in report["halves"].items():
        yield from _half_lines(half, score)
    if report["gains"]:
        yield "\nfault                   ceiling  won by the fix"
    for gain in report["gains"]:
        ceiling, won = (f"{gain[key]:.2f}" if gain[key] else "-" for key in ("ceiling", "measured"))
        yield f"{gain['name']:22} {ceiling:>8}  {won:>14}"


def _half_lines(half: str, score: Row) -> Iterator[str]:
    yield f"\n{half} half: {score['runs']} runs\nexpected     first said"
    for code, counts in score["confusion"].items():
        yield f"{code:12} {', '.join(f'{said} × {count}' for said, count in counts.items())}"
    yield (
        f"top-1 {_of(score, 'top1', 'faults')}, top-2 {_of(score, 'top2', 'faults')}; "
        f"pairs, among the first two {_of(score, 'pairs_top2', 'pairs_causes')}"
    )
    yield (
        f"false alarms: {len(score['controls_false_alarms'])}/{score['controls']} controls "
        f"{_named(score['controls_false_alarms'])}, {len(score['dose0_false_alarms'])}/{score['dose0']} at "
        f"dose 0 {_named(score['dose0_false_alarms'])}; controls not called healthy: "
        f"{_named(score['controls_not_healthy']) or 'none'}"
    )
    yield (
        f"planted line: named {_of(score, 'lines_named', 'lines')}, "
        f"its function {score['lines_function']} more"
    )
    if score["failed"]:
        yield f"failed: {', '.join(score['failed'])}"


def _named(names: Sequence[str]) -> str:
    return f"({', '.join(names)})" if names else ""


def _of(score: Row, part: str, whole: str) -> str:
    share = f" = {100 * score[part] / score[whole]:.0f} %" if score[whole] else ""
    return f"{score[part]}/{score[whole]}{share}"
