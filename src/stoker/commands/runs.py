"""`stoker runs`: what has been recorded here, how large it is, and away with the old ones."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time

from stoker.report import text
from stoker.report.figures import duration, size
from stoker.report.page import NextCommand, Notes, Page, Table
from stoker.store import folder

KEEP_DEFAULT = 10


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--prune",
        nargs="?",
        type=_count,
        const=KEEP_DEFAULT,
        metavar="KEEP",
        help=f"remove all but the newest KEEP finished runs (default {KEEP_DEFAULT})",
    )


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("KEEP must not be negative")
    return value


def run(args: argparse.Namespace) -> int:
    if args.prune is not None:
        removed = folder.prune(args.prune)
        print(f"removed {len(removed)} run{'s' if len(removed) != 1 else ''}, kept the newest {args.prune}")
        return 0
    listed = folder.listed()
    if args.json:
        print(json.dumps({"schema": "stoker.runs/1", "runs": [_entry(item) for item in listed]}, indent=1))
        return 0
    text.show(_page(listed), sys.stdout)
    return 0


def _entry(item: folder.Listed) -> dict[str, object]:
    info = item.info
    return {
        "folder": str(item.folder),
        "size_bytes": item.size_bytes,
        "command": list(info.command) if info else None,
        "exit_code": info.exit_code if info else None,
        "ended": info.ended_s is not None if info else None,
    }


def _page(listed: list[folder.Listed]) -> Page:
    rows = tuple(_row(item) for item in reversed(listed))
    total = size(sum(item.size_bytes for item in listed))
    if not rows:
        where = folder.home()
        return Page(
            "no runs recorded", "", (Notes("", (f"looked in {where}",)), NextCommand("stoker run -- …"))
        )
    table = Table("", ("run", "started", "took", "exit", "size", "command"), rows, frozenset({2, 3, 4}))
    return Page(
        f"{len(rows)} runs", total, (table, NextCommand("stoker why latest", "or stoker runs --prune"))
    )


def _row(item: folder.Listed) -> tuple[str, ...]:
    info = item.info
    if info is None:
        return (item.folder.name, "", "", "?", size(item.size_bytes), "run.json cannot be read")
    took = duration(info.ended_s - info.started_s) if info.ended_s is not None else "no end"
    code = "" if info.exit_code is None else str(info.exit_code)
    started = time.strftime("%m-%d %H:%M", time.localtime(info.started_wall))
    return (info.id, started, took, code, size(item.size_bytes), shlex.join(info.command))
