"""`stoker ab`: the same training with one thing changed, in turns, until it is known which is faster."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

from stoker.commands.ab_output import show_comparison
from stoker.commands.ab_plan import planned
from stoker.commands.guard_consent import agreed_guard
from stoker.commands.options import declare_training, seconds
from stoker.commands.output import declare_formats, show_page
from stoker.commands.stderr import tell, tell_error
from stoker.errors import StokerError, UsageError
from stoker.outside.gpu.nvml import find_gpus
from stoker.report import ab_page
from stoker.report.ab_progress import status_line
from stoker.report.escape import shorten_middle
from stoker.report.figures import counted
from stoker.trials.ab import sessions
from stoker.trials.ab.arms import ArmRunner, devices_of
from stoker.trials.ab.measure import ArmMeasure
from stoker.trials.ab.plan import Plan
from stoker.trials.ab.session import Ended, Progress, Session
from stoker.trials.ab.statistics import FIRST_LOOK, PAIRS, PAIRS_MAX, Outcome
from stoker.trials.device_lock import all_locked
from stoker.trials.guard.mode import GuardMode


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "stoker ab [--a KNOBS] --b KNOBS [options] -- COMMAND …   or   stoker ab --resume [ID]"
    _declare_arms(parser)
    parser.add_argument("--quick", action="store_true", help="screening windows of 20 s in place of 45 s")
    parser.add_argument(
        "--window", type=seconds, dest="window_s", metavar="5s", help="steady training a trial must show"
    )
    parser.add_argument("--pairs", type=_pairs, default=PAIRS, help=f"at most, {FIRST_LOOK} to {PAIRS_MAX}")
    parser.add_argument("--time", type=seconds, dest="limit_s", metavar="20m", help="begin no trial after it")
    parser.add_argument("--random-order", type=int, metavar="SEED", help="draw who is first in each pair")
    declare_training(parser)
    parser.add_argument("--seed-flag", default="", metavar="--seed", help="the command's flag for its seed")
    parser.add_argument(
        "--metric", default="", metavar="REGEX", help="the loss in the log: 'loss: ([0-9.]+)'"
    )
    parser.add_argument(
        "--higher-is-better",
        action=argparse.BooleanOptionalAction,
        help="of the metric (default: by its name)",
    )
    parser.add_argument(
        "--preflight", action="append", default=[], metavar="'CMD'", help="must succeed before each trial"
    )
    parser.add_argument("--share", action="store_true", help="though somebody else uses the GPU")
    modes = [mode.value for mode in GuardMode]
    parser.add_argument(
        "--guard", choices=modes, default=GuardMode.AUTO.value, help="against writes of trials"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and its worst-case time")
    parser.add_argument("--resume", nargs="?", const="", metavar="ID", help="go on with an unfinished one")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    declare_formats(parser)


def _declare_arms(parser: argparse.ArgumentParser) -> None:
    for arm, text in (("--a", "of A; none: the command as it is"), ("--b", "of B: num_workers=8,bf16")):
        parser.add_argument(arm, action="append", default=[], metavar="KNOBS", help=f"settings {text}")
    parser.add_argument("--b-command", default="", metavar="'CMD'", help="another command for B")
    parser.add_argument("--a-config", default="", metavar="FILE", help="stands for {config} in A's command")
    parser.add_argument("--b-config", default="", metavar="FILE", help="stands for {config} in B's command")


def _pairs(text: str) -> int:
    if not text.isdecimal() or not FIRST_LOOK <= int(text) <= PAIRS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: {FIRST_LOOK} to {PAIRS_MAX} pairs")
    return int(text)


def run(args: argparse.Namespace) -> int:
    if args.resume is not None:
        if args.command or args.b or args.a:
            raise UsageError(
                "--resume takes the plan that was made", seen="a command or settings beside it",
                hint="stoker ab --resume",
            )  # fmt: skip
        found = sessions.find(args.resume)
        return _sitting(args, found.plan, found.folder, found.measures)
    plan = planned(args)
    if args.dry_run:
        if args.json:
            raise UsageError("a plan has no JSON form", hint="stoker ab --dry-run without --json")
        show_page(ab_page.plan_page(plan, args.limit_s), args, sys.stdout)
        return 0
    earlier = sessions.unfinished_of(plan)
    if earlier is not None and _wants(earlier.folder, len(earlier.measures), args):
        return _sitting(args, plan, earlier.folder, earlier.measures)
    return _sitting(args, plan)


def _wants(folder: Path, trials: int, args: argparse.Namespace) -> bool:
    """The same question was asked before and not answered."""
    name = sessions.short_name(folder)
    said = f"stoker: this comparison was begun before ({counted(trials, 'trial')})"
    if args.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        tell(f"{said}; this is a new one. To go on with it: stoker ab --resume {name}")
        return False
    sys.stderr.write(f"{said}. Go on with it? [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _sitting(
    args: argparse.Namespace, plan: Plan, folder: Path | None = None, measures: tuple[ArmMeasure, ...] = ()
) -> int:
    os.chdir(plan.cwd)
    guard = agreed_guard(GuardMode(plan.guard), Path(plan.cwd), yes=args.yes)
    gpus = find_gpus()
    try:
        with all_locked(devices_of(plan, gpus), _who(plan)) as locks:
            folder = folder or sessions.create(plan.a.command)
            session = Session(plan, folder.resolve(), measures, args.limit_s, _status)
            until_s = None if args.limit_s is None else time.monotonic() + args.limit_s
            ended = _ran(session, ArmRunner(plan, folder.resolve(), gpus, guard, locks, until_s))
    finally:
        gpus.close()
    show_comparison(args, ended, folder)
    return _code(ended)


def _who(plan: Plan) -> str:
    """For another Stoker that wants the same device meanwhile."""
    command = shorten_middle(shlex.join(plan.a.command), 60)
    return f"stoker ab of {command} since {time.strftime('%H:%M')} in {plan.cwd}"


def _ran(session: Session, runner: ArmRunner) -> Ended:
    """What was measured before an error is shown all the same."""
    try:
        return session.run(runner)
    except StokerError as error:
        _end_status()
        if not session.measures:
            sessions.remove_empty(session.folder)
            raise
        tell_error(error)
        return session.stopped(error.message)
    finally:
        _end_status()


def _status(progress: Progress) -> None:
    """One line that is written over on a terminal; a line per trial elsewhere."""
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[2K{status_line(progress, columns - 1)}")
    else:
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} stoker ab: {status_line(progress)}\n")
    sys.stderr.flush()


def _end_status() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()


def _code(ended: Ended) -> int:
    """0: an answer. 1: none, by the training's own fault. 130: the user ended it."""
    if ended.interrupted:
        return 130
    if ended.stopped:
        return 0 if ended.answer.pairs else 1
    return 1 if ended.answer.outcome in (Outcome.INVALID, Outcome.UNSTEADY) else 0
