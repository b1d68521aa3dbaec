"""`stoker why [RUN]`: the page of a recorded run, or of a comparison, again."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from stoker.commands.ab_output import show_comparison
from stoker.commands.options import class_limits, declare_class_limits
from stoker.commands.output import declare_formats, show, show_over_time
from stoker.diagnose.causes import CAUSES
from stoker.diagnose.chosen import Bounds, choose, parse_bounds
from stoker.diagnose.gate import Gate, parse_gate
from stoker.diagnose.over_time import over_time
from stoker.diagnose.summary import Summary, summarise
from stoker.diagnose.verdict import verdict
from stoker.errors import UsageError
from stoker.model.finding import Outcome, Severity
from stoker.store.folder import find
from stoker.store.reading import load, recorded_ticks
from stoker.trials.ab import sessions


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="?", help="a run's or a comparison's folder, its name or a part of it; default: latest"
    )
    parser.add_argument(
        "--gate",
        metavar="CONDITION",
        help='figures from where this is true: "iter >= 120 and data_time < 0.02 for 5"',
    )
    parser.add_argument(
        "--window", metavar="WINDOW", help="figures of 60s, of 60s..180s, or of ticks 500..2000"
    )
    parser.add_argument(
        "--over-time",
        action="store_true",
        help="how the speed and the budget changed in the course of the run",
    )
    declare_class_limits(parser)
    parser.add_argument(
        "--fail-on",
        type=_failing,
        metavar="SK…|note|warning|critical",
        help="exit code 1 where this cause, or one of at least this severity, is found",
    )
    declare_formats(parser)


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("why reads a recorded run, it takes no command", hint="stoker run -- …")
    compared = sessions.named(args.run)
    if compared is not None:
        _refuse_what_runs_have(args, compared.folder)
        show_comparison(args, sessions.as_ended(compared), compared.folder)
        return 0
    gate = parse_gate(args.gate) if args.gate is not None else None
    bounds = parse_bounds(args.window) if args.window is not None else None
    if args.over_time and (gate is not None or bounds is not None):
        raise UsageError("--over-time is of the whole training", hint="--gate and --window without it")
    limits = class_limits(args)
    summary = replace(summarise(load(sessions.find_trial(args.run) or find(args.run))), limits=limits)
    if gate is not None or bounds is not None:
        summary = _with_window(summary, gate, bounds)
    if args.over_time:
        show_over_time(summary, over_time(summary), args)
    else:
        show(summary, args)
    return int(args.fail_on is not None and _found(summary, args.fail_on))


def _refuse_what_runs_have(args: argparse.Namespace, folder: Path) -> None:
    asked = ("gate", "window", "over_time", "limit", "fail_on")
    given = [f"--{name.replace('_', '-')}" for name in asked if getattr(args, name)]
    if given:
        raise UsageError(
            f"{given[0]} is for a run, and this is a comparison",
            seen="its trials are runs, each in a folder below it",
            hint=f"stoker why {sessions.short_name(folder)}/pair1-B-1 {given[0]} …",
        )


def _failing(text: str) -> str:
    known = {cause.code for cause in CAUSES}
    if text.upper() not in known and text.lower() not in set(Severity):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no cause and no severity; known: {', '.join([*sorted(known), *Severity])}"
        )
    return text.upper() if text.upper() in known else text.lower()


def _found(summary: Summary, asked: str) -> bool:
    """Small causes of a healthy run do not fail it by their severity; asked for by name they do."""
    told = verdict(summary)
    if asked in {cause.code for cause in CAUSES}:
        return any(finding.code == asked for finding in told.findings)
    order = list(Severity)
    at_least = order[order.index(Severity(asked)) :]
    return told.outcome is not Outcome.HEALTHY and any(one.severity in at_least for one in told.findings)


def _with_window(summary: Summary, gate: Gate | None, bounds: Bounds | None) -> Summary:
    main = summary.main
    if main is None:
        raise UsageError(
            "there is no training in this run, so no window of it",
            hint="stoker why without --gate and --window shows what there is",
        )
    ticks = recorded_ticks(summary.run, main.record)
    return replace(summary, chosen=choose(main.record, main.window, ticks, gate, bounds))
