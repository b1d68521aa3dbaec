"""`stoker why [RUN]`: the page of a recorded run, again."""

from __future__ import annotations

import argparse

from stoker.commands.output import declare_formats, show
from stoker.diagnose.summary import summarise
from stoker.errors import UsageError
from stoker.store.folder import find
from stoker.store.reading import load


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", help="a run's folder, its name or a part of it; default: latest")
    declare_formats(parser)


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("why reads a recorded run, it takes no command", hint="stoker run -- …")
    show(summarise(load(find(args.run))), args)
    return 0
