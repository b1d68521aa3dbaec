"""`stoker explain [CODE]`: the page of a cause from docs/causes; without a code the list of all."""

from __future__ import annotations

import argparse
from pathlib import Path

from stoker.diagnose.causes import CAUSES
from stoker.errors import StokerError, UsageError
from stoker.report.prose import prose

PACKAGE = Path(__file__).parents[1]
FOLDERS = (PACKAGE / "docs" / "causes", PACKAGE.parents[1] / "docs" / "causes")
"""In an installed stoker, and in a checkout."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("code", nargs="?", help="of a cause, as `stoker why` shows it: SK201")


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("explain takes the code of a cause, no command", hint="stoker explain SK201")
    if args.code is None:
        print(_list())
        return 0
    code = args.code.upper()
    if code not in {cause.code for cause in CAUSES}:
        raise UsageError(
            f"there is no cause called {args.code!r}",
            seen=f"known: {', '.join(cause.code for cause in CAUSES)}",
            hint="stoker explain lists them",
        )
    print(prose(_page(code)), end="")
    return 0


def _list() -> str:
    return "\n".join(f"{cause.code}  {cause.name}" for cause in CAUSES)


def _page(code: str) -> str:
    for folder in FOLDERS:
        path = folder / f"{code}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise StokerError(
        f"the page of {code} is not there",
        seen=f"looked in {', '.join(map(str, FOLDERS))}",
        hint="install stoker again",
    )
