"""How often the right cause came first: pure figures from a list of runs, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from cases import alternatives

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
    """Each half apart, and in it each kind of counters; the gains of all."""
    groups = sorted({group(run) for run in runs})
    halves = {name: _half([run for run in runs if group(run) == name]) for name in groups}
    return {"halves": halves, "gains": gains(runs)}


def group(run: Row) -> str:
    """`first`; on a GPU `first with GPM`, `first with GPM and deep window` or `first without GPM`."""
    deep = " and deep window" if run.get("deep_too") else ""
    gpm = run.get("gpm")
    return f"{run['half']}{'' if gpm is None else f' with GPM{deep}' if gpm else ' without GPM'}"


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
        "pairs_said": [[run["name"], run["expected"], run["codes"][:2] or [run["outcome"]]] for run in pairs],
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
        sick = next((run for run in runs if not run["fixed"] and _same(run, fixed)), None)
        if sick is None or sick.get("failed"):
            continue
        wanted = frozenset().union(*alternatives(sick["expected"]))
        pairs = zip(sick["codes"], sick["ceilings"], strict=True)
        ceiling = next((most for code, most in pairs if code in wanted), None)
        before, after = _pace(sick), _pace(fixed)
        gain = {"name": fixed["name"], "ceiling": ceiling, "measured": after / before if before else None}
        kind = {name: fixed[name] for name in ("gpm", "deep_too") if fixed.get(name) is not None}
        found.append({**gain, **kind})
    return found


def _same(one: Row, other: Row) -> bool:
    return all(one.get(name) == other.get(name) for name in ("half", "name", "dose", "gpm", "deep_too"))


def _pace(run: Row) -> float:
    """Samples a second where the script counts them: a larger batch is not more ticks."""
    return float(run.get("units_per_s") or run["ticks_per_s"])


def state(run: Row) -> str:
    return "fixed" if run["fixed"] else f"dose {run['dose']}"


def told(run: Row) -> str:
    said = run["codes"][:3] or [run["outcome"]]
    mark = "" if right(run) and not run.get("failed") else "   <- WRONG"
    then = run.get("said_then", said)[:3]
    changed = "" if then == said else f"   (then {' '.join(then)})"
    kind = {None: "", True: "GPM", False: "no GPM"}[run.get("gpm")] + ("+deep" if run.get("deep_too") else "")
    return (
        f"{run['name']:22} {state(run):7} {kind:9}{run['expected'] or 'healthy':11} {' '.join(said):22}"
        f"{100 * (run.get('injected_frac') or 0):5.0f} %  {run['line'] or ''}{mark}{changed}"
    )


def lines(report: Row) -> Iterator[str]:
    for half, score in report["halves"].items():
        yield from _half_lines(half, score)
    if report["gains"]:
        yield "\nfault                   ceiling  won by the fix"
    for gain in report["gains"]:
        ceiling, won = (f"{gain[key]:.2f}" if gain[key] else "-" for key in ("ceiling", "measured"))
        kind = {None: "", True: "  with GPM", False: "  without GPM"}[gain.get("gpm")]
        kind += " and deep window" if gain.get("deep_too") else ""
        yield f"{gain['name']:22} {ceiling:>8}  {won:>14}{kind}"


def _half_lines(half: str, score: Row) -> Iterator[str]:
    name, _, kind = half.partition(" ")
    yield f"\n{name} half{f', {kind}' if kind else ''}: {score['runs']} runs\nexpected     first said"
    for code, counts in score["confusion"].items():
        yield f"{code:12} {', '.join(f'{said} × {count}' for said, count in counts.items())}"
    for name, expected, first in score["pairs_said"]:
        yield f"{expected:12} {' '.join(first)}   ({name})"
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
