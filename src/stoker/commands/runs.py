"""`stoker runs`: the runs and comparisons recorded here, how large they are, and away with the old ones."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence

from stoker.errors import FolderError, UsageError
from stoker.launch.liveness import is_alive
from stoker.model.run import short_id
from stoker.report import ab_list as comparisons
from stoker.report import markdown, text
from stoker.report.figures import counted, duration, signal_name, size
from stoker.report.page import Block, NextCommand, Notes, Page, Table
from stoker.report.run_page import short_command
from stoker.store import folder
from stoker.trials.ab import sessions

KEEP_DEFAULT = 10
SCHEMA = "stoker.runs/1"


def declare(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--md", action="store_true", help="the list as Markdown")
    parser.add_argument(
        "--prune",
        nargs="?",
        type=_count,
        const=KEEP_DEFAULT,
        metavar="KEEP",
        help=f"remove all but the newest KEEP ended runs, and as many comparisons (default {KEEP_DEFAULT})",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs to keep")
    return int(text)


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("runs lists recorded runs, it takes no command", hint="stoker run -- …")
    if args.prune is not None:
        return _prune(args)
    listed, compared = folder.listed(), sessions.listed()
    if args.json:
        rows = {
            "runs": [_entry(item) for item in listed],
            "comparisons": [comparisons.entry(c) for c in compared],
        }
        print(json.dumps({"schema": SCHEMA, **rows}, indent=1))
        return 0
    if args.md:
        print(markdown.render(_page(listed, compared)), end="")
    else:
        text.show(_page(listed, compared), sys.stdout)
    return 0


def _prune(args: argparse.Namespace) -> int:
    done, compared = folder.prune(args.prune, _alive), sessions.prune(args.prune)
    stuck = [*_names(done.stuck), *_names(compared.stuck)]
    if args.json:
        content = {"schema": SCHEMA, **_pruned_names(done), "comparisons": _pruned_names(compared)}
        print(json.dumps(content, indent=1))
        return 2 if stuck else 0
    print(f"removed {_pruned_words(done, 'run')}")
    if compared.removed or compared.kept or compared.alive:
        print(f"removed {_pruned_words(compared, 'comparison')}")
    if stuck:
        raise FolderError("some could not be removed", seen=", ".join(stuck), hint="check who owns them")
    return 0


def _names(items: Sequence[folder.Kept]) -> list[str]:
    return [item.folder.name for item in items]


def _pruned_names(done: folder.Pruned[folder.Item]) -> dict[str, list[str]]:
    parts = {"removed": done.removed, "alive": done.alive, "could_not_be_removed": done.stuck}
    return {part: _names(items) for part, items in parts.items()}


def _pruned_words(done: folder.Pruned[folder.Item], noun: str) -> str:
    freed = size(sum(item.size_bytes for item in done.removed))
    alive = f"; {counted(len(done.alive), noun)} still going on, left alone" if done.alive else ""
    return f"{counted(len(done.removed), noun)} ({freed}), kept {done.kept}{alive}"


def _alive(item: folder.Listed) -> bool:
    return is_alive(item.folder, item.info)


def _entry(item: folder.Listed) -> dict[str, object]:
    info = item.info
    return {
        "id": item.folder.name,
        "folder": str(item.folder),
        "readable": info is not None,
        "alive": _alive(item),
        "size_bytes": item.size_bytes,
        "command": list(info.command) if info else None,
        "started_wall": info.started_wall if info else None,
        "exit_code": info.exit_code if info else None,
        "exit_signal": info.exit_signal if info else None,
        "ended": info.ended_s is not None if info else None,
    }


def _page(listed: list[folder.Listed], compared: list[sessions.Listed]) -> Page:
    if not listed and not compared:
        looked = Notes("", (f"looked in {folder.home()}",))
        return Page("no runs recorded", "", (looked, NextCommand("stoker run -- python train.py")))
    tables: list[Block] = [_runs(listed)] if listed else []
    title = counted(len(listed), "run")
    if compared:
        tables.append(comparisons.table(compared))
        title += f", {counted(len(compared), 'comparison')}"
    newest = short_id((listed or compared)[-1].folder.name)
    total = size(sum(item.size_bytes for item in listed) + sum(item.size_bytes for item in compared))
    return Page(
        title,
        f"{total} in {folder.home().name}",
        (*tables, NextCommand(f"stoker why {newest}", "or stoker runs --prune")),
    )


def _runs(listed: list[folder.Listed]) -> Table:
    rows = tuple(_row(item) for item in reversed(listed))
    return Table("", ("run", "started", "took", "exit", "size", "command"), rows, frozenset({2, 3, 4}))


def _row(item: folder.Listed) -> tuple[str, ...]:
    info, name = item.info, short_id(item.folder.name)
    if info is None:
        return (name, "", "", "?", size(item.size_bytes), f"(run.json unreadable) {item.folder.name}")
    started = time.strftime("%m-%d %H:%M", time.localtime(info.started_wall))
    return (name, started, _took(item), _exit(item), size(item.size_bytes), shlex.join(short_command(info)))


def _took(item: folder.Listed) -> str:
    info = item.info
    if info is not None and info.ended_s is not None:
        return duration(info.ended_s - info.started_s)
    return "alive" if _alive(item) else "no end"


def _exit(item: folder.Listed) -> str:
    info = item.info
    if info is None or (info.exit_code is None and info.exit_signal is None):
        return ""
    return str(info.exit_code) if info.exit_signal is None else signal_name(info.exit_signal)
