"""`stoker classify PATHS…`: judge the logs people already have. Writes to standard output only."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from stoker.commands.options import class_limits, declare_class_limits, figures_by_name
from stoker.diagnose.analysis import Analysis, Question, analyse
from stoker.diagnose.compare import changes
from stoker.diagnose.targets import Target, TargetName
from stoker.errors import UsageError
from stoker.ingest.folder import collect, require_something
from stoker.report import classify as classify_page
from stoker.report import classify_data, compare_page, markdown, text
from stoker.report.page import Page

_GIVEN = ("workers", "batch", "log_interval", "update_interval", "gpus")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="files and folders; known by content"
    )
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="two roots, side by side"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what you want: util=80 (%%), memory=90 (%% of the card), samples_per_s=5000; may be repeated",
    )
    parser.add_argument(
        "--given",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"what you know and the files do not say: {', '.join(_GIVEN)}",
    )
    declare_class_limits(parser)
    parser.add_argument("--details", action="store_true", help="the root-cause checklist of every case")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything, for programs")
    form.add_argument("--tsv", action="store_true", help="one row per case")
    form.add_argument("--md", action="store_true", help="a report to commit")


def run(args: argparse.Namespace) -> int:
    question = _question(args)
    if args.compare:
        if args.paths:
            raise UsageError(
                "--compare takes its two roots and no further paths", hint="stoker classify --compare A B"
            )
        return _compare(args, question)
    if not args.paths:
        raise UsageError("no path was given", hint="stoker classify output/train")
    analysis = _analyse(args.paths, question)
    if args.json:
        print(json.dumps(classify_data.as_data(analysis), indent=1, allow_nan=False))
    elif args.tsv:
        print(classify_data.as_tsv(analysis), end="")
    else:
        title = "stoker classify " + " ".join(str(path) for path in args.paths)
        _show(classify_page.page(analysis, title, every_detail=args.details or args.md), args.md)
    return 0


def _analyse(paths: list[Path], question: Question) -> Analysis:
    collection = collect(paths)
    require_something(collection)
    return analyse(collection.files, question)


def _compare(args: argparse.Namespace, question: Question) -> int:
    before, after = (_analyse([path], question) for path in args.compare)
    found = changes(before.cases, after.cases)
    if args.json:
        print(json.dumps(compare_page.as_data(found), indent=1, allow_nan=False))
    elif args.tsv:
        print(compare_page.as_tsv(found), end="")
    else:
        _show(compare_page.page(found, *(str(path) for path in args.compare)), args.md)
    return 0


def _show(page: Page, as_markdown: bool) -> None:
    if as_markdown:
        print(markdown.render(page), end="")
    else:
        text.show(page, sys.stdout)


def _question(args: argparse.Namespace) -> Question:
    targets = figures_by_name("--target", args.target, tuple(TargetName))
    return Question(
        limits=class_limits(args),
        given=figures_by_name("--given", args.given, _GIVEN),
        targets=tuple(Target(TargetName(name), value) for name, value in targets.items()),
    )
