"""Options that several verbs share: lengths of time, the length of a training, names of steps to look at,
limits between classes."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from stoker.diagnose.classes import LIMIT_NAMES, LIMITS, Limits
from stoker.diagnose.summary import parse_total
from stoker.errors import UsageError

_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_MODULE_FLAG = re.compile(r"-[A-Za-z]*?m([A-Za-z_][\w.]*)?|--module", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|min|h)?", re.ASCII)
_UNITS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def declare_training(parser: argparse.ArgumentParser) -> None:
    """What only the user knows of a training."""
    _declare_named(parser, "--env", "module:Class.method", "a step of an environment that is not Gymnasium's")
    _declare_named(parser, "--eval", "module:function", "this function is the evaluation")
    _declare_named(parser, "--step", "module:function", "a call is a training step without a torch optimizer")
    parser.add_argument("--total", type=_total, metavar="'100000 ticks'", help="length of the whole training")


def _declare_named(parser: argparse.ArgumentParser, flag: str, form: str, text: str) -> None:
    parser.add_argument(flag, action="append", default=[], type=_named, metavar=form, help=text)


def seconds(text: str) -> float:
    match = _DURATION.fullmatch(text)
    found_s = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if found_s <= 0 or not math.isfinite(found_s):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 10m or 2h")
    return found_s


def _named(text: str) -> str:
    if not _NAMED.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:Class.method")
    return text


def _total(text: str) -> str:
    if parse_total(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write e.g. '100000 ticks', '5e6 env_steps', '90 epochs'")
    return text


def named_steps(args: argparse.Namespace, command: Sequence[str]) -> list[str]:
    """A name in the script itself may be given by the script's own name, or by its module's."""
    scripts = _scripts(command)

    def resolved(entry: str) -> str:
        module, _, path = entry.partition(":")
        return f"__main__:{path}" if module in scripts else entry

    return [f"{kind}={resolved(entry)}" for kind, entry in _named_entries(args)]


def as_typed(args: argparse.Namespace) -> list[str]:
    """The same options once more, for another command."""
    return [f"--{kind}={entry}" for kind, entry in _named_entries(args)]


def _named_entries(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [(kind, entry) for kind in ("env", "eval", "step") for entry in getattr(args, kind)]


def _scripts(command: Sequence[str]) -> set[str]:
    """What the command runs as `__main__`: `train` of `python train.py`, `pkg.train` of
    `python -m pkg.train`. A `-m` after a script is the script's own flag."""
    names = set()
    for word, following in pairwise([*command, ""]):
        if word.endswith(".py"):
            names.add(Path(word).stem)
            break
        if match := _MODULE_FLAG.fullmatch(word):
            module = match[1] or following
            names |= {module, f"{module}.__main__"}  # a package runs its __main__.py
    return names | {Path(word).stem for word in command if word.endswith(".py")}


def declare_class_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"another limit between classes: {', '.join(LIMIT_NAMES)}",
    )


def class_limits(args: argparse.Namespace) -> Limits:
    limits = LIMITS.with_overrides(figures_by_name("--limit", args.limit, LIMIT_NAMES))
    if limits.util_low_pct > limits.util_high_pct:
        raise UsageError("util_low_pct lies above util_high_pct", hint="--limit util_low_pct=45")
    return limits


def figures_by_name(flag: str, words: Sequence[str], known: Sequence[str]) -> dict[str, float]:
    """`NAME=VALUE`, once or several times."""
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            figure = float(value)
        except ValueError:
            figure = -1.0
        if name not in known or not 0 <= figure < float("inf"):
            raise UsageError(
                f"{flag} {word} is not understood",
                seen=f"known names: {', '.join(known)}",
                hint=f"{flag} {known[0]}=80",
            )
        found[name] = figure
    return found
