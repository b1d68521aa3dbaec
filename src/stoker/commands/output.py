"""The formats every reading verb offers, and the page at the end of a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TextIO

from stoker.diagnose.over_time import OverTime
from stoker.diagnose.summary import Summary, summarise
from stoker.errors import StokerError
from stoker.model.run import Run
from stoker.report import markdown, over_time_page, run_json, run_page, text
from stoker.report.escape import printable
from stoker.report.page import Page


def declare_formats(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="everything that was measured, for programs")
    group.add_argument("--md", action="store_true", help="the page as Markdown")


def show(summary: Summary, args: argparse.Namespace, stream: TextIO | None = None) -> None:
    out = stream or sys.stdout
    if args.json:
        out.write(run_json.render(summary) + "\n")
    else:
        show_page(run_page.build(summary), args, out)


def show_over_time(summary: Summary, told: OverTime, args: argparse.Namespace) -> None:
    if args.json:
        sys.stdout.write(run_json.render(summary, told) + "\n")
    else:
        show_page(over_time_page.build(summary, told), args, sys.stdout)


def show_page(page: Page, args: argparse.Namespace, out: TextIO) -> None:
    if args.md:
        out.write(markdown.render(page))
    else:
        text.show(page, out)


def show_after(finished: Callable[[], Run], args: argparse.Namespace) -> None:
    """The page on stderr. Whatever goes wrong here, the command has run and its exit code is returned."""
    try:
        run = finished()
        if not args.quiet:
            if not args.json:
                sys.stderr.write("\n")
            show(summarise(run), args, sys.stderr)
            sys.stderr.flush()
    except BrokenPipeError:
        _say_nothing_more()
    except Exception as error:
        reason = f"{error.message} ({error.seen})" if isinstance(error, StokerError) else repr(error)
        try:
            sys.stderr.write(printable(f"stoker: the page of this run cannot be shown: {reason}") + "\n")
            sys.stderr.flush()
        except (OSError, AttributeError):  # its disk is full, or there is no stderr
            _say_nothing_more()


def _say_nothing_more() -> None:
    """Nobody reads it. What is still waiting to be written would fail at the interpreter's end, and change
    the exit code."""
    if sys.stderr is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
