"""Planted faults, and whether Stoker names them; and what it promised, against what was won.

    OMP_NUM_THREADS=1 python benchmarks/pathologies/run.py [--device cuda] [--only hot_line …] [--out FILE]

Each run is a script under `stoker run`; the verdict is that of `stoker why --json`. Right is: the expected
code first (top-1), or among the first two (top-2). A false alarm is any cause named on a healthy control or
at dose 0. Of a pair of faults both should be among the first two. The fix of each fault is run too: the gain,
by the script's own clock, stands beside the ceiling. With `--out` the file is written after every run, and
`--resume` goes on where it ended.

On a GPU trainings have the card one after another, and the next ones start meanwhile (`gate.py`).
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "accuracy")]

from cases import HALVES, Case, Task, all_cases, alternatives, plan, planted_lines  # noqa: E402
from recording import hidden_texts, keep  # noqa: E402
from scoring import lines, right, scored, told  # noqa: E402
from watched import ROOT, hear_interrupts, machine, watched  # noqa: E402

GATE = HERE / "gate.py"
SCHEMA = "stoker.benchmark.pathologies/2"
STUCK_S = 180.0
"""More than a start, waiting for others that hang, and its training may take."""


def main() -> int:
    args = _arguments()
    hear_interrupts()
    lab = Lab(args)
    with ThreadPoolExecutor(args.ahead) as pool:
        list(pool.map(lab.run, lab.tasks))
    report = lab.report()
    print("\n".join(lines(report)))
    if report["left_out"]:
        print(f"\nleft out for lack of time, --resume does them: {', '.join(report['left_out'])}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--half", choices=HALVES, help="only this one")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[case.name for case in all_cases()])
    parser.add_argument("--doses", nargs="+", type=int, choices=range(4))
    parser.add_argument("--seconds", type=float, help="of training in a run")
    parser.add_argument("--no-fixes", action="store_true")
    parser.add_argument("--no-gpm", action="store_true", help="as on a card without counters for real work")
    parser.add_argument("--ahead", type=int, help="runs started at once; on a GPU they take turns on it")
    parser.add_argument("--turn", type=int, default=0, help="which doses beside the middle one come first")
    parser.add_argument("--budget", type=_seconds, help="begin nothing that would end later: 540s")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true", help="what is in --out is not done again")
    parser.add_argument("--keep-recordings", type=Path, metavar="DIR", help="small ones of runs told right")
    args = parser.parse_args()
    on_gpu = args.device == "cuda"
    args.seconds = args.seconds or (6.0 + 2.0 * args.no_gpm if on_gpu else 5.0)
    args.ahead = args.ahead or (3 if on_gpu else 1)
    args.doses = args.doses if args.doses is not None else ([1, 2, 3] if on_gpu else [0, 1, 2, 3])
    return args


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))


class Lab:
    """Tasks, the runs they became, and the time there is."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.facts = {**machine(), "device": args.device, "gpm": not args.no_gpm}
        self.began_s = time.monotonic()
        self.lock = threading.Lock()
        self.runs: list[dict[str, Any]] = _earlier(args)
        self.left_out: list[str] = []
        self.ended_s: list[float] = []
        done = {(run["half"], run["name"], run["dose"], run["fixed"]) for run in self.runs}
        wanted = plan(_chosen(args), args.doses, args.seconds, not args.no_fixes, args.turn)
        self.tasks = [task for task in wanted if task.key not in done]
        self.card = str(Path(tempfile.gettempdir(), f"lab-card-{os.getpid()}"))

    def run(self, task: Task) -> None:
        if not self._fits(task):
            self.left_out.append(f"{task.case.name} {'fixed' if task.fixed else f'dose {task.dose}'}")
            return
        run = one_run(task, self.args, self.card)
        with self.lock:
            self.ended_s.append(time.monotonic())
            self.runs.append(run)
            print(told(run), flush=True)
            if self.args.out:
                self.args.out.write_text(json.dumps(self.report(), indent=1) + "\n")

    def report(self) -> dict[str, Any]:
        head = {"schema": SCHEMA, **self.facts, "took_s": round(time.monotonic() - self.began_s)}
        return {**head, **scored(self.runs), "left_out": self.left_out, "runs": self.runs}

    def _fits(self, task: Task) -> bool:
        """Those started before it have the card first."""
        if self.args.budget is None:
            return True
        starting_s = 15.0
        if len(self.ended_s) > self.args.ahead:
            slot_s = (self.ended_s[-1] - self.ended_s[0]) / (len(self.ended_s) - 1)
        else:
            slot_s = task.seconds + 5.0
        need_s = max(starting_s + task.seconds + 5.0, self.args.ahead * slot_s + 3.0)
        return bool(time.monotonic() - self.began_s + need_s <= self.args.budget)


def _chosen(args: argparse.Namespace) -> list[Case]:
    return [
        case
        for case in all_cases()
        if args.device in case.devices
        and args.half in (None, case.half)
        and (args.only is None or case.name in args.only)
    ]


def _earlier(args: argparse.Namespace) -> list[dict[str, Any]]:
    if not (args.resume and args.out and args.out.exists()):
        return []
    runs: list[dict[str, Any]] = json.loads(args.out.read_text())["runs"]
    return [run for run in runs if not run.get("failed")]


def one_run(task: Task, args: argparse.Namespace, card: str) -> dict[str, Any]:
    settings = {"LAB_CARD": card} if args.ahead > 1 else {}
    settings |= {"STOKER_NO_GPM": "1", "LAB_DEEP_AFTER_S": "3"} if args.no_gpm else {}
    case, healthy = task.case, task.case.healthy
    planted = not (healthy or task.fixed or not task.dose)
    row: dict[str, Any] = {"name": case.name, "half": case.half, "dose": task.dose, "fixed": task.fixed}
    row |= {"control": healthy, "expected": case.expected if planted else "", "planted": None, "line": None}
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name, "stdout")
        settings["STOKER_HOME"] = str(folder / "home")
        command = [str(GATE), *task.command(args.device)]
        try:
            with out.open("wb") as stdout:
                why = watched(
                    command, folder, [], env=settings, stdout=stdout, timeout_s=STUCK_S + task.seconds
                )
            row |= {**_truth(out.read_text("utf-8")), **_said(why, case, row["expected"])}
        except Exception as error:  # one script that fails must not end the lab
            nothing = {"outcome": "failed", "codes": [], "ceilings": [], "ticks_per_s": 0.0}
            return {**row, **nothing, "failed": repr(error)[:300]}
        if args.keep_recordings and not task.fixed:
            row["recording_bytes"] = _recorded(folder, row, args)
    return row


def _truth(printed: str) -> dict[str, Any]:
    """The last line that is the script's own account."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{") and "ticks_per_s" in line:
            account: dict[str, Any] = json.loads(line)
            return account
    raise LookupError("the script printed no account of itself")


def _said(why: dict[str, Any], case: Case, expected: str) -> dict[str, Any]:
    verdict, trainers = why["verdict"], why["trainers"]
    worth = verdict["findings"] if verdict["outcome"] in ("causes", "not fixable in code") else []
    trainer, host = trainers[0] if trainers else {"phase_pct": {}}, why["host"] or {}
    named = next(
        (one for one in worth if any(one["code"] in codes for codes in alternatives(expected))), None
    )
    return {
        "outcome": verdict["outcome"],
        "text": verdict["text"],
        "codes": [one["code"] for one in worth],
        "ceilings": [one["ceiling"] for one in worth],
        "line": _line(worth[0]) if worth else None,
        "planted": _planted(case, named) if named else None,
        "phase_pct": {phase: round(pct, 1) for phase, pct in trainer["phase_pct"].items() if pct >= 1},
        "gpu": _gpu(trainer.get("gpu")),
        "allowed_cpu_pct": host.get("allowed_cpu_pct"),
        "load_1m": os.getloadavg()[0],
    }


def _gpu(gpu: dict[str, Any] | None) -> dict[str, Any] | None:
    """All that the rules were told of it, to see afterwards why they said what they said."""
    return None if gpu is None else {name: value for name, value in gpu.items() if name != "deep"}


def _line(finding: dict[str, Any]) -> str | None:
    leaf = (finding["place"] or {}).get("leaf")
    return f"{Path(leaf[0]).name}:{leaf[1]} {leaf[2]}" if leaf else None


def _planted(case: Case, finding: dict[str, Any]) -> str | None:
    """`line`, `function` or `elsewhere`; None where this cause names no line."""
    place, lines_of = finding["place"], planted_lines(case)
    if not place or not place["leaf"] or not lines_of:
        return None
    spots = [spot for spot in (place["leaf"], place["user"]) if spot]
    if any((Path(spot[0]).name, spot[1]) in lines_of for spot in spots):
        return "line"
    return "function" if _same_function(spots, lines_of, case) else "elsewhere"


def _same_function(spots: Iterable[Any], wanted: Iterable[tuple[str, int]], case: Case) -> bool:
    for path in {spot[0] for spot in spots if Path(spot[0]).parent == case.script.parent}:
        tree = ast.parse(Path(path).read_text("utf-8"))
        for node in (one for one in ast.walk(tree) if isinstance(one, (ast.FunctionDef, ast.Lambda))):
            first, last = node.lineno, node.end_lineno or node.lineno
            marked = any(name == Path(path).name and first <= line <= last for name, line in wanted)
            if marked and any(spot[0] == path and first <= spot[1] <= last for spot in spots):
                return True
    return False


def _recorded(folder: Path, row: dict[str, Any], args: argparse.Namespace) -> int | None:
    """Of a run that was told right; others lie beside, for whoever mends the rule."""
    fine = right(row) and (row["expected"] or row["outcome"] == "healthy")
    place = args.keep_recordings if fine else args.keep_recordings / "wrong"
    run = next(Path(folder, "home", "runs").glob("*-*"))
    gpm = "" if args.device == "cpu" else "-no-gpm" if args.no_gpm else "-gpm"
    told_of = {name: row[name] for name in ("name", "half", "dose", "expected", "codes", "outcome")}
    told_of |= {"device": args.device, "gpm": not args.no_gpm, "date": time.strftime("%Y-%m-%d")}
    hidden = hidden_texts(ROOT, folder, socket.gethostname())
    return keep(run, told_of, hidden, place / f"{row['name']}-{args.device}{gpm}-{row['dose']}.tar.xz")


if __name__ == "__main__":
    sys.exit(main())
