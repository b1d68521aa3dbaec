"""Planted faults, and whether Stoker names them; and what it promised, against what was won.

    OMP_NUM_THREADS=1 python benchmarks/pathologies/run.py [--only hot_line …] [--doses 0 1 2 3] [--out FILE]

Each run is a script of `scripts.py` under `stoker run`. Right is: the expected code first (top-1), or among
the first two (top-2). A false alarm is any verdict of causes on a healthy control or at dose 0. The fix of
each fault is run too at the highest dose: the gain in ticks per second, by the script's own clock, stands
beside the ceiling.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "accuracy")]

from watched import machine, watched  # noqa: E402

from scripts import CONTROLS, FAULTS  # noqa: E402

SCRIPT = HERE / "scripts.py"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[*FAULTS, *CONTROLS])
    parser.add_argument("--doses", nargs="+", type=int, default=[0, 1, 2, 3], choices=range(4))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--no-fixes", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    facts = machine()
    names = args.only or [*FAULTS, *CONTROLS]
    runs = []
    for name in names:
        doses = args.doses if name in FAULTS else [0]
        runs += [told(one_run(name, dose, False, args.seconds)) for dose in doses]
        if name in FAULTS and not args.no_fixes and max(doses):
            runs.append(told(one_run(name, max(doses), True, args.seconds)))
    report = {"schema": "stoker.benchmark.pathologies/1", **facts, **scored(runs), "runs": runs}
    show(report)
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def one_run(name: str, dose: int, fixed: bool, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "truth.json")
        words = [name, "--dose", str(dose), "--seconds", str(seconds), "--out", str(out)]
        why = watched([str(SCRIPT), *words, *(["--fixed"] if fixed else [])], Path(folder), [])
        truth = json.loads(out.read_text())
    verdict, trainer = why["verdict"], why["trainers"][0]
    worth = verdict["findings"] if verdict["outcome"] in ("causes", "not fixable in code") else []
    host = why["host"] or {}
    return {
        "name": name,
        "dose": dose,
        "fixed": fixed,
        "expected": FAULTS[name][1] if name in FAULTS and dose and not fixed else None,
        "outcome": verdict["outcome"],
        "text": verdict["text"],
        "codes": [one["code"] for one in worth],
        "ceilings": [one["ceiling"] for one in worth],
        "line": _line(worth[0]) if worth else None,
        **truth,
        "phase_pct": {phase: round(pct, 1) for phase, pct in trainer["phase_pct"].items() if pct >= 1},
        "allowed_cpu_pct": host.get("allowed_cpu_pct"),
        "load_1m": os.getloadavg()[0],
    }


def _line(finding: dict[str, Any]) -> str | None:
    leaf = (finding["place"] or {}).get("leaf")
    return f"{Path(leaf[0]).name}:{leaf[1]} {leaf[2]}" if leaf else None


def told(run: dict[str, Any]) -> dict[str, Any]:
    state = "fixed" if run["fixed"] else f"dose {run['dose']}"
    said = run["codes"][:3] or [run["outcome"]]
    mark = "" if right(run) else "   <- WRONG"
    print(
        f"{run['name']:14} {state:7} {run['expected'] or 'healthy':8} {' '.join(said):22}"
        f"{100 * run['injected_frac']:5.0f} %  {run['line'] or ''}{mark}",
        flush=True,
    )
    return run


def right(run: dict[str, Any]) -> bool:
    """A mended fault may have another, smaller one below it: it is only shown."""
    if run["fixed"]:
        return True
    return (run["codes"] or [None])[0] == run["expected"]


def scored(runs: list[dict[str, Any]]) -> dict[str, Any]:
    faults = [run for run in runs if run["expected"]]
    healthy = [run for run in runs if not run["expected"] and not run["fixed"]]
    controls = [run for run in healthy if run["name"] in CONTROLS]
    return {
        "faults": len(faults),
        "top1": sum(map(right, faults)),
        "top2": sum(run["expected"] in run["codes"][:2] for run in faults),
        "controls": len(controls),
        "controls_false_alarms": sum(bool(run["codes"]) for run in controls),
        "dose0": len(healthy) - len(controls),
        "dose0_false_alarms": sum(bool(run["codes"]) for run in healthy if run["name"] in FAULTS),
        "controls_not_healthy": [run["name"] for run in controls if run["outcome"] != "healthy"],
        "confusion": _confusion(faults),
        "gains": _gains(runs),
    }


def _confusion(faults: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Expected, and what came first."""
    rows: dict[str, Counter[str]] = {}
    for run in faults:
        rows.setdefault(run["expected"], Counter())[(run["codes"] or [run["outcome"]])[0]] += 1
    return {code: dict(counts) for code, counts in sorted(rows.items())}


def _gains(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for fixed in (run for run in runs if run["fixed"]):
        sick = next(
            r for r in runs if (r["name"], r["dose"], r["fixed"]) == (fixed["name"], fixed["dose"], False)
        )
        ceilings = dict(zip(sick["codes"], sick["ceilings"], strict=True))
        gain = fixed["ticks_per_s"] / sick["ticks_per_s"] if sick["ticks_per_s"] else None
        found.append({"name": fixed["name"], "ceiling": ceilings.get(sick["expected"]), "measured": gain})
    return found


def show(report: dict[str, Any]) -> None:
    print("\nexpected  first said")
    for code, counts in report["confusion"].items():
        print(f"{code:9} {', '.join(f'{said} × {count}' for said, count in counts.items())}")
    print("\nfault          at most  won by the fix")
    for gain in report["gains"]:
        ceiling, won = (f"{gain[key]:.2f}" if gain[key] else "-" for key in ("ceiling", "measured"))
        print(f"{gain['name']:14} {ceiling:>7}  {won:>7}")
    print(
        f"\ntop-1 {report['top1']}/{report['faults']}, top-2 {report['top2']}/{report['faults']}; "
        "false alarms: "
        f"{report['controls_false_alarms']}/{report['controls']} controls, "
        f"{report['dose0_false_alarms']}/{report['dose0']} at dose 0"
    )


if __name__ == "__main__":
    sys.exit(main())
