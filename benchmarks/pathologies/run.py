"""Planted faults, and whether Stoker names them; and what it promised, against what was won.

    OMP_NUM_THREADS=1 python benchmarks/pathologies/run.py [--device cuda] [--only hot_line …] [--out FILE]
    python benchmarks/pathologies/run.py --rescore DIR

Each run is a script under `stoker run`; the verdict is that of `stoker why --json`. Right is: the expected
code first (top-1), or among the first two (top-2). A false alarm is any cause named on a healthy control or
at dose 0. Of a pair of faults both should be among the first two. The fix of each fault is run too: the gain,
by the script's own clock, stands beside the ceiling. With `--out` the file is written after every run, and
`--resume` goes on where it ended.

On a GPU trainings have the card one after another, and the next ones start meanwhile (`gate.py`). `--both`
asks of each three times: with GPM, with GPM and the deep window that a training of a minute has, and without
GPM (`../accuracy/beside.py`). `--rescore` asks today's rules of the recordings that
`--keep-recordings` kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "accuracy"), str(HERE.parents[1] / "src")]

from attempt import Attempt, Mode, kinds  # noqa: E402
from beside import allow_gpm  # noqa: E402
from cases import Case, Task, all_cases, plan  # noqa: E402
from rescore import rescored  # noqa: E402
from scoring import lines, scored, told  # noqa: E402
from verdicts import Row  # noqa: E402
from watched import ROOT, hear_interrupts, machine  # noqa: E402

SCHEMA = "stoker.benchmark.pathologies/3"
STARTING_S, ENDING_S = 15.0, 8.0
"""Before a training has the card, and after its time is over, with what is asked and kept then."""


def main() -> int:
    args = _arguments()
    if args.rescore:
        return _rescore(args)
    hear_interrupts()
    allow_gpm()
    lab = Lab(args)
    with ThreadPoolExecutor(args.ahead) as pool:
        list(pool.map(lab.run, lab.tasks))
    report = lab.report()
    print("\n".join(lines(report)))
    if report["left_out"]:
        print(f"\nleft out for lack of time, --resume does them: {', '.join(report['left_out'])}")
    return 0


def _rescore(args: argparse.Namespace) -> int:
    runs = []
    for run in rescored(args.rescore, ROOT):
        if run["half"] in (args.half or [run["half"]]) and run["name"] in (args.only or [run["name"]]):
            runs.append(run)
            print(told(run), flush=True)
    if not runs:
        print(f"there is no recording of the lab below {args.rescore}", file=sys.stderr)
        return 2
    report = {"schema": SCHEMA, "rescored": time.strftime("%Y-%m-%d"), **scored(runs), "runs": runs}
    print("\n".join(lines(report)))
    _write(args.out, report)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    halves = list(dict.fromkeys(case.half for case in all_cases()))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--half", nargs="+", choices=halves, help="only these, in this order")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[case.name for case in all_cases()])
    parser.add_argument("--doses", nargs="+", type=int, choices=range(4))
    parser.add_argument("--seconds", type=float, help="of training in a run")
    parser.add_argument("--no-fixes", action="store_true")
    counters = parser.add_mutually_exclusive_group()
    counters.add_argument("--no-gpm", action="store_true", help="as on a card without counters for real work")
    counters.add_argument("--both", action="store_true", help="all answers, from one training each")
    parser.add_argument("--ahead", type=int, help="runs started at once; on a GPU they take turns on it")
    parser.add_argument("--turn", type=int, default=0, help="which doses beside the middle one come first")
    parser.add_argument("--budget", type=_seconds, help="begin nothing that would end later: 540s")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true", help="what is in --out is not done again")
    parser.add_argument("--keep-recordings", type=Path, metavar="DIR", help="a small one of every run")
    parser.add_argument("--rescore", type=Path, metavar="DIR", help="run nothing, ask again of these")
    args = parser.parse_args()
    on_gpu = args.device == "cuda"
    args.mode = Mode.BOTH if args.both else Mode.NO_GPM if args.no_gpm else Mode.GPM
    args.seconds = args.seconds or (6.0 + 4.0 * (args.mode is not Mode.GPM) if on_gpu else 5.0)
    args.ahead = args.ahead or (4 if on_gpu else 1)
    args.doses = args.doses if args.doses is not None else ([1, 2, 3] if on_gpu else [0, 1, 2, 3])
    return args


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))


class Lab:
    """Tasks, the runs they became, and the time there is."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.facts = {**machine(), "device": args.device, "counters": args.mode}
        self.began_s = time.monotonic()
        self.lock = threading.Lock()
        self.runs: list[Row] = _earlier(args)
        self.left_out: list[str] = []
        self.ended_s: list[float] = []
        wanted = plan(_chosen(args), args.doses, args.seconds, not args.no_fixes, args.turn)
        self.tasks = [task for task in wanted if not self._done(task)]
        card = str(Path(tempfile.gettempdir(), f"lab-card-{os.getpid()}"))
        self.card = card if args.ahead > 1 else None

    def run(self, task: Task) -> None:
        if not self._fits(task):
            self.left_out.append(f"{task.case.name} {'fixed' if task.fixed else f'dose {task.dose}'}")
            return
        rows = self._attempted(task)
        with self.lock:
            self.ended_s.append(time.monotonic())
            self.runs += rows
            print("\n".join(map(told, rows)), flush=True)
            _write(self.args.out, self.report())

    def _attempted(self, task: Task) -> list[Row]:
        place = self.args.keep_recordings
        with tempfile.TemporaryDirectory() as name:
            attempt = Attempt(task, self.args.device, self.args.mode, Path(name), self.card)
            rows = attempt.rows()
            kept = _kept(attempt, rows, place) if place else {}
        return [{**row, **kept} for row in rows]

    def report(self) -> dict[str, Any]:
        head = {"schema": SCHEMA, **self.facts, "took_s": round(time.monotonic() - self.began_s)}
        return {**head, **scored(self.runs), "left_out": self.left_out, "runs": self.runs}

    def _done(self, task: Task) -> bool:
        same = (run for run in self.runs if (run["half"], run["name"], run["dose"], run["fixed"]) == task.key)
        found = {_kind(run) for run in same}
        return found >= {_kind(row) for row in kinds(self.args.mode, self.args.device)}

    def _fits(self, task: Task) -> bool:
        """Those started before it have the card first."""
        if self.args.budget is None:
            return True
        if len(self.ended_s) > self.args.ahead:
            slot_s = (self.ended_s[-1] - self.ended_s[0]) / (len(self.ended_s) - 1)
        else:
            slot_s = task.seconds + 3.0
        need_s = max(STARTING_S + task.seconds, self.args.ahead * slot_s) + ENDING_S
        return bool(time.monotonic() - self.began_s + need_s <= self.args.budget)


def _kind(row: Row) -> tuple[object, bool]:
    return row.get("gpm"), bool(row.get("deep_too"))


def _kept(attempt: Attempt, rows: list[Row], place: Path) -> Row:
    try:
        return {"recording_bytes": attempt.keep(rows, place)}
    except Exception as error:  # a recording less must not end the lab
        return {"recording_bytes": None, "not_recorded": repr(error)[:300]}


def _chosen(args: argparse.Namespace) -> list[Case]:
    found = [
        case
        for case in all_cases()
        if args.device in case.devices
        and (args.half is None or case.half in args.half)
        and (args.only is None or case.name in args.only)
    ]
    return sorted(found, key=lambda case: args.half.index(case.half)) if args.half else found


def _earlier(args: argparse.Namespace) -> list[Row]:
    if not (args.resume and args.out and args.out.exists()):
        return []
    runs: list[Row] = json.loads(args.out.read_text())["runs"]
    return [run for run in runs if not run.get("failed")]


def _write(path: Path | None, report: dict[str, Any]) -> None:
    if path:
        path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
