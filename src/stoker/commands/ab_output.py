"""A comparison on stdout, at its end or read again, in the format that was asked for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stoker.commands.output import show_page
from stoker.report import ab_json, ab_page
from stoker.store.folder import COMPARISONS, home
from stoker.trials.ab.session import Ended
from stoker.trials.ab.sessions import short_name


def show_comparison(args: argparse.Namespace, ended: Ended, folder: Path) -> None:
    if args.json:
        sys.stdout.write(ab_json.render(ended, str(folder.resolve())) + "\n")
    else:
        show_page(ab_page.build(ended, _near(folder)), args, sys.stdout)
    sys.stdout.flush()


def _near(folder: Path) -> Path:
    """As it can be typed here: by its short name where `stoker why` finds that."""
    if folder.resolve().parent == (home() / COMPARISONS).resolve():
        return Path(short_name(folder))
    cwd = Path.cwd()
    return folder.relative_to(cwd) if folder.is_relative_to(cwd) else folder
