"""`stoker why [RUN]`: the page of a recorded run, again."""

from __future__ import annotations

import argparse
from dataclasses import replace

from stoker.commands.output import declare_formats, show
from stoker.diagnose.chosen import Bounds, choose, parse_bounds
from stoker.diagnose.gate import Gate, parse_gate
from stoker.diagnose.summary import Summary, summarise
from stoker.errors import UsageError
from stoker.store.folder import find
from stoker.store.reading import load, recorded_ticks


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", help="a run's folder, its name or a part of it; default: latest")
    parser.add_argument(
        "--gate",
        metavar="CONDITION",
        help='figures from where this is true: "iter >= 120 and data_time < 0.02 for 5"',
    )
    parser.add_argument(
        "--window", metavar="WINDOW", help="figures of 60s, of 60s..180s, or of ticks 500..2000"
    )
    declare_formats(parser)


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("why reads a recorded run, it takes no command", hint="stoker run -- …")
    gate = parse_gate(args.gate) if args.gate is not None else None
    bounds = parse_bounds(args.window) if args.window is not None else None
    summary = summarise(load(find(args.run)))
    if gate is not None or bounds is not None:
        summary = _with_window(summary, gate, bounds)
    show(summary, args)
    return 0


def _with_window(summary: Summary, gate: Gate | None, bounds: Bounds | None) -> Summary:
    main = summary.main
    if main is None:
        raise UsageError(
            "there is no training in this run, so no window of it",
            hint="stoker why without --gate and --window shows what there is",
        )
    ticks = recorded_ticks(summary.run, main.record)
    return replace(summary, chosen=choose(main.record, main.window, ticks, gate, bounds))
