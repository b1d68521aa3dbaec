"""`stoker run -- COMMAND`: the command itself, unchanged, and then one page about it on stderr."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from stoker.commands.attach import attach
from stoker.commands.options import as_typed, declare_training, named_steps, seconds
from stoker.commands.output import declare_formats, show_after
from stoker.diagnose.failure import combine
from stoker.errors import StokerError, UsageError
from stoker.launch import failure, injection
from stoker.launch.beginning import begun, ended
from stoker.launch.child import Child
from stoker.launch.signals import die_of_interrupt
from stoker.launch.watched import start_watched
from stoker.model.run import Run, RunInfo
from stoker.outside.capabilities import gpu_capabilities, has_gpm
from stoker.report import live
from stoker.report.figures import size
from stoker.store import folder as folders
from stoker.store.reading import load
from stoker.trials.knobs import Setting, parse_settings, prepare, unprepared


def declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = "stoker run [options] -- COMMAND …   or   stoker run --pid N"
    parser.add_argument("--for", dest="limit_s", type=seconds, metavar="90s", help="end it after this time")
    parser.add_argument(
        "--grace", type=seconds, default=10.0, metavar="10s", help="between INT, TERM and KILL"
    )
    declare_training(parser)
    parser.add_argument(
        "--with",
        dest="settings",
        action="append",
        default=[],
        metavar="num_workers=8,bf16",
        help="turn these knobs; stoker knobs lists them",
    )
    parser.add_argument(
        "--deep",
        action=argparse.BooleanOptionalAction,
        help="trace the GPU for a second, or never (default: after a minute; sooner where it has no GPM)",
    )
    parser.add_argument("--live", action="store_true", help="keep one status line on the terminal")
    parser.add_argument("--quiet", action="store_true", help="record, show no page")
    parser.add_argument("--pid", type=int, help="watch a job that already runs, from outside")
    declare_formats(parser)


def run(args: argparse.Namespace) -> int:
    if args.pid is not None:
        if args.deep:
            raise UsageError(
                "--deep needs the inside of a training, which --pid does not see",
                hint="stoker run --deep -- python train.py",
            )
        if args.settings:
            raise UsageError(
                "--with changes a training at its start, --pid finds it running",
                hint="stoker run --with num_workers=8 -- python train.py",
            )
        return attach(args)
    if not args.command:
        raise UsageError("there is no command to run", hint="stoker run -- python train.py")
    settings = parse_settings(",".join(args.settings), args.command)
    return _watched(args, list(args.command), settings)


def _watched(args: argparse.Namespace, command: list[str], settings: tuple[Setting, ...]) -> int:
    folder = folders.create(command)
    try:
        command, base = _set(settings, command, folder)
        texts = tuple(setting.text for setting in settings)
        info = begun(folder, command, total=args.total)
        info = replace(info, settings=texts, named=tuple(as_typed(args)))
        folders.write_info(folder, info)
        names, deep = named_steps(args, command), _deep(args.deep)
        env = injection.environment(base, folder, info.id, names, deep)
        watched = start_watched(command, env, folder, info.id)
    except StokerError:
        shutil.rmtree(folder, ignore_errors=True)  # nothing ran: there is nothing to keep
        raise
    child = watched.child
    exit = child.wait(limit_s=args.limit_s, grace_s=args.grace, on_beat=_beat(args, folder, child))
    verdict, problems = watched.finish(exit)
    if args.live and sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
    show_after(lambda: _recorded(folder, ended(info, exit, problems), verdict), args)
    if exit.signal == signal.SIGINT:
        die_of_interrupt()
    return exit.shell_code


def _set(settings: tuple[Setting, ...], command: list[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    if not settings:
        return command, unprepared(os.environ)
    prepared = prepare(settings, command, os.environ, folder)
    return list(prepared.command), prepared.env


def _deep(wanted: bool | None) -> str | None:
    """Whether a GPU can count its real work is known only out here; if it can, there is less to tell, and it
    comes later."""
    if wanted is not None:
        return "asked" if wanted else None
    gpm = has_gpm(gpu_capabilities())
    return None if gpm is None else "late" if gpm else "auto"


def _beat(args: argparse.Namespace, folder: Path, child: Child) -> Callable[[], None] | None:
    if not args.live or not sys.stderr.isatty():
        return None

    def beat() -> None:
        line = live.status(folder, time.monotonic() - child.started_s, args.limit_s)
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[2K{line[: columns - 1]}")
        sys.stderr.flush()

    return beat


def _crowded() -> list[str]:
    total = folders.crowded_bytes()
    return [f"recorded runs take {size(total)} here; stoker runs --prune makes room"] if total else []


def _recorded(folder: Path, info: RunInfo, verdict: failure.Failure) -> Run:
    """The run as it was, its end written down; the page is shown even where that could not be done."""
    loaded = load(folder)
    info = replace(info, failure=combine(verdict, loaded.processes), notes=(*info.notes, *_crowded()))
    try:
        folders.write_info(folder, info)
    except StokerError as error:
        info = replace(info, notes=(*info.notes, f"the end of the run is not recorded: {error.message}"))
    return replace(loaded, info=info)
