"""How much of a training's time is `other`, and how much of that three source lines tell.

    python benchmarks/accuracy/other.py [--seconds 24] [--out FILE]

The claim: `other` is under 10 % of the training thread's time, or its top three lines tell 80 % of it. A line
may be one that calls others (`inclusive`). Where no three lines tell enough, small ones are counted to the
lines that call them, so the second half of the claim is only worth what the lines shown are worth: they are
written down. `plain` is the same figure for the innermost lines, before any folding.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from watched import ROOT, machine, watched

SMALL_PCT = 10.0
TOLD_PCT = 80.0
SCRIPTS = {
    "vision": ("examples/vision.py", "--epochs", "100000"),
    "offpolicy sac": ("examples/offpolicy.py", "--algo", "sac", "--steps", "10000000"),
    "offpolicy ddpg": ("examples/offpolicy.py", "--algo", "ddpg", "--steps", "10000000"),
    "sb3 dqn": ("tests/scripts/sb3_dqn.py", "--steps", "10000000"),
    "sb3 ppo": ("tests/scripts/sb3_ppo.py", "--steps", "10000000"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=24.0, help="of each run, with its start")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    facts = machine()
    print(f"{'script':16}{'window':>8}{'other':>9}{'told by 3':>11}{'plain':>8}{'looks':>7}  holds")
    results = [told(measure(name, words, args.seconds)) for name, words in SCRIPTS.items()]
    if args.out:
        report = {"schema": "stoker.benchmark.other/1", **facts, "scripts": results}
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(result["holds"] for result in results) else 1


def told(result: dict[str, Any]) -> dict[str, Any]:
    print(
        f"{result['script']:16}{result['window_s']:6.1f} s{result['other_pct']:7.1f} %"
        f"{result['told_by_three_pct']:9.0f} %{result['plain_told_by_three_pct']:6.0f} %"
        f"{result['looks_in_other']:7}  {'yes' if result['holds'] else 'NO'}"
    )
    for line in result["lines"][:3]:
        mark = " and what it calls" if line["inclusive"] else ""
        print(f"    {line['pct']:5.1f} %  {line['line']}{mark}", flush=True)
    return result


def measure(name: str, words: tuple[str, ...], seconds: float) -> dict[str, Any]:
    script, *flags = words
    with tempfile.TemporaryDirectory() as folder:
        why = watched([str(ROOT / script), *flags], Path(folder), ["--for", f"{seconds:g}s"])
        innermost = looks_by_line(Path(why["folder"]))
    trainer = why["trainers"][0]
    lines = [line for line in trainer["lines"] if line["phase"] == "other"]
    other_pct = trainer["phase_pct"]["other"]
    told_pct = 100 * sum(line["pct"] for line in lines[:3]) / other_pct
    return {
        "script": name,
        "command": ["python", *words],
        "window_s": trainer["window"]["seconds"],
        "ticks": trainer["window"]["ticks"],
        "phase_pct": trainer["phase_pct"],
        "other_pct": other_pct,
        "told_by_three_pct": told_pct,
        "plain_told_by_three_pct": 100 * sum(innermost[:3]) / max(1, sum(innermost)),
        "looks_in_other": sum(innermost),
        "holds": other_pct < SMALL_PCT or told_pct >= TOLD_PCT,
        "lines": [
            {
                "pct": line["pct"],
                "looks": line["samples"],
                "inclusive": line["inclusive"],
                "line": shown(line),
            }
            for line in lines[:10]
        ],
        "remark": trainer["window"]["remark"],
        "load_1m": os.getloadavg()[0],
    }


def looks_by_line(folder: Path) -> list[int]:
    """Looks into `other` during training for each innermost line, most first; from the run's own files."""
    places: dict[int, str] = {}
    lines: list[list[Any]] = []
    for path in folder.glob("inside/[0-9]*.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            if row["k"] == "place":
                places[row["id"]] = json.dumps((row["leaf"] or [])[:2])
            elif row["k"] == "lines" and row["lines"]:
                lines = row["lines"]
    counts: dict[str, int] = {}
    for phase, stage, place, looks in lines:
        if (phase, stage) == ("other", "train"):
            counts[places[place]] = counts.get(places[place], 0) + looks
    return sorted(counts.values(), reverse=True)


def shown(line: dict[str, Any]) -> str:
    """Without the machine's folders."""
    leaf, user = line["place"]["leaf"], line["place"]["user"]
    names = [place for place in (leaf, user if user != leaf else None) if place]
    return " < ".join(f"{short(path)}:{number} {function}" for path, number, function in names)


def short(path: str) -> str:
    return path.rsplit("site-packages/", 1)[1] if "site-packages/" in path else Path(path).name


if __name__ == "__main__":
    sys.exit(main())
