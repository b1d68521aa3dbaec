"""Answers of `answers.py`, collected into one file for the record, and shown as a table.

    python benchmarks/ab/answered.py FOLDER --save FILE         # what FOLDER has, and FILE had before
    python benchmarks/ab/answered.py FILE                       # the table, as Markdown

Trials are kept with their rates, windows and counters; the curves of the loss are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from answers import QUESTIONS

from stoker.report.ab_json import render
from stoker.trials.ab.answer import answer
from stoker.trials.ab.measure import from_row
from stoker.trials.ab.plan import from_row as from_plan_row
from stoker.trials.ab.session import Ended
from stoker.trials.ab.student import two_sided_t

LEFT_OUT = ("metric", "notes", "folder", "remark", "too_short", "whole_s", "whole_from")

Answers = dict[str, dict[str, Any]]


def collected(folder: Path) -> Answers:
    found: Answers = {}
    for question in QUESTIONS:
        path = folder / question.name / "answer.json"
        if not path.exists():
            continue
        told = judged_again(json.loads(path.read_text()))
        trials = [{k: v for k, v in one.items() if k not in LEFT_OUT} for one in told["trials"]]
        kept = ("verdict", "sentence", "unit", "estimate", "pairs", "parity", "differs")
        found[question.name] = {
            "asks": question.asks,
            "a": question.a,
            "b": question.b,
            "command": f"python {question.command}",
            "window_s": told["plan"]["windows"]["min_s"],
            **{name: told[name] for name in kept},
            "trials": trials,
        }
    return found


def judged_again(told: dict[str, Any]) -> dict[str, Any]:
    """By today's rules, from the trials as they were."""
    plan, measures = from_plan_row(told["plan"]), tuple(map(from_row, told["trials"]))
    again: dict[str, Any] = json.loads(render(Ended(plan, measures, answer(plan, measures)), ""))
    return again


def table(answers: Answers) -> str:
    head = "| question | verdict | B / A (95 %) | GPU busy | real work | trains as well? |"
    rows = [head, "|---|---|---:|---:|---:|---|"]
    for name, one in answers.items():
        cells = [f"`{name}`: {one['asks']}", f"**{one['verdict']}**", _ratio(one["estimate"])]
        cells += [_change(one["trials"], key) for key in ("busy_pct", "real_work_pct")]
        rows.append(f"| {' | '.join([*cells, _trains(one['parity'])])} |")
    return "\n".join(rows)


def together(answers: Answers, names: list[str]) -> str:
    """Pairs of several comparisons as one sample: a fixed number of pairs, one look."""
    logs = [math.log(pair["ratio"]) for name in names if name in answers for pair in answers[name]["pairs"]]
    if len(logs) < 3:
        return "too few pairs"
    mean, half = fmean(logs), two_sided_t(0.05, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(mean + half)
    return f"{len(logs)} pairs together: {math.exp(mean):.3f} ({low:.3f} to {high:.3f})"


def _ratio(estimate: dict[str, float] | None) -> str:
    return f"{estimate['ratio']:.3g} ({estimate['low']:.3g} to {estimate['high']:.3g})" if estimate else "?"


def _change(trials: list[dict[str, Any]], key: str) -> str:
    a, b = ([t[key] for t in trials if t["arm"] == arm and t[key] is not None] for arm in "AB")
    return f"{median(a):.1f} → {median(b):.1f} %" if a and b else "?"


def _trains(parity: dict[str, Any] | None) -> str:
    if parity is None:
        return "the same training"
    if parity["worse_by"] is None:
        return parity["state"]
    a, b = fmean(parity["a"]), fmean(parity["b"])
    text = f"{parity['state']}: {parity['metric']} {a:.4g}, {b:.4g} at {parity['at']:,.0f} {parity['by']}"
    return f"{text}; {parity['in_time']}" if parity["in_time"] else text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--about", default="", help="date, card, versions, command")
    args = parser.parse_args()
    if args.source.is_dir():
        answers, about = collected(args.source), args.about
    else:
        whole = json.loads(args.source.read_text())
        answers, about = whole["answers"], whole["about"]
    if args.save:
        if args.save.exists():
            earlier = json.loads(args.save.read_text())
            answers, about = (
                {**earlier["answers"], **answers},
                "; ".join(filter(None, [earlier["about"], about])),
            )
        args.save.write_text(json.dumps({"about": about, "answers": answers}, indent=1) + "\n")
    print(table(answers))
    knobs = {knob: f"_{knob}" for knob in ("bf16", "compile", "fused")}
    for words, of in {"update interval": "offpolicy_interval_", **knobs}.items():
        print(f"\n{words}: {together(answers, [name for name in answers if of in name])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
