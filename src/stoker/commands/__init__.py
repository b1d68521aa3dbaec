"""The command line: one file per verb, listed here; the only place that prints, asks or exits.

A verb is a module with `declare(parser)` and `run(args) -> exit code`. It is imported only when it is
used, so that `stoker --help` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from stoker import __version__
from stoker.commands.stderr import tell_error
from stoker.errors import StokerError, UsageError

VERBS: dict[str, str] = {
    "run": "run a training under watch, then say where its time went",
    "why": "read a recorded run, or a comparison, again",
    "explain": "what a cause is, how it is seen, and how to fix it",
    "knobs": "what `stoker run --with` can change about a training",
    "classify": "judge the logs you already have",
    "ab": "is it faster? one thing changed, in turns, until it is known",
    "runs": "list recorded runs and comparisons, or prune them",
    "doctor": "what can be measured on this machine, what not, and why",
}


_WITH_COMMAND = {
    "stoker run": "stoker run -- python train.py …",
    "stoker ab": "stoker ab --b num_workers=8 -- python train.py …",
}


_TAKE_FLAGS = ("--a", "--b", "--with", "--seed-flag")
"""Their value may be a flag of the user's script, which argparse would take for one of ours."""


class _Parser(argparse.ArgumentParser):
    """argparse, with our errors in place of its own exit."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, hint=self._hint(message))

    def with_flags_as_values(self, arguments: Sequence[str]) -> list[str]:
        """`--b --lr=3` as `--b=--lr=3`, unless what follows is an option of our own."""
        joined: list[str] = []
        for word in arguments:
            is_theirs = word.startswith("--") and word.partition("=")[0] not in self._option_string_actions
            if is_theirs and joined and joined[-1] in _TAKE_FLAGS:
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    def _hint(self, message: str) -> str:
        if self.prog in _WITH_COMMAND and message.startswith("unrecognized arguments"):
            return f"the command stands after two dashes: {_WITH_COMMAND[self.prog]}"
        if message.startswith(tuple(f"argument {flag}: expected" for flag in _TAKE_FLAGS)):
            return "a flag of the script is written flag:--lr=3e-4"
        return f"{self.prog} --help"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    try:
        return _dispatch(arguments)
    except StokerError as error:
        tell_error(error)
        return error.exit_code
    except BrokenPipeError:  # `stoker why | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _print_anything() -> None:
    """A terminal that knows no bars gets question marks, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _dispatch(arguments: list[str]) -> int:
    if arguments and arguments[0] in ("--version", "-V"):
        print(f"stoker {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else 2
    verb, rest = arguments[0], arguments[1:]
    if verb not in VERBS:
        raise UsageError(
            f"there is no command called {verb!r}",
            seen=f"known: {', '.join(VERBS)}",
            hint=f"to run a training: stoker run -- {verb} …",
        )
    module = importlib.import_module(f"stoker.commands.{verb}")
    parser = _Parser(prog=f"stoker {verb}", description=VERBS[verb])
    module.declare(parser)
    own, command = _split_at_dashes(rest)
    args = parser.parse_args(parser.with_flags_as_values(own))
    args.command = command
    return int(module.run(args))


def _split_at_dashes(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """What follows the first `--` belongs to the user and is not looked at."""
    if "--" not in arguments:
        return arguments, None
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _overview() -> str:
    lines = ["usage: stoker COMMAND [options]", "", "Why is the GPU idle? Commands:"]
    lines += [f"  {verb:<10} {summary}" for verb, summary in VERBS.items()]
    lines += ["", "start with:  stoker run -- python train.py", "more:        stoker COMMAND --help"]
    return "\n".join(lines)
