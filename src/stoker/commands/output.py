"""The formats every reading verb offers."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

from stoker.diagnose.summary import Summary
from stoker.report import markdown, run_json, run_page, text


def declare_formats(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--json", action="store_true", help="everything that was measured, for programs")
    group.add_argument("--md", action="store_true", help="the page as Markdown")


def show(summary: Summary, args: argparse.Namespace, stream: TextIO | None = None) -> None:
    out = stream or sys.stdout
    if args.json:
        out.write(run_json.render(summary) + "\n")
    elif args.md:
        out.write(markdown.render(run_page.build(summary)))
    else:
        text.show(run_page.build(summary), out)
