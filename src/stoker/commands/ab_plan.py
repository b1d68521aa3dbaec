"""From the words of `stoker ab` to a plan: what A is, what B is, and what must be checked between them."""

from __future__ import annotations

import argparse
import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stoker.commands.options import named_steps
from stoker.errors import UsageError
from stoker.launch.command import locate
from stoker.trials.ab import seeds
from stoker.trials.ab.metric import checked_pattern
from stoker.trials.ab.parity import SEEDS
from stoker.trials.ab.plan import AS_IT_IS, CONFIRMING, SCREENING, ArmPlan, Plan, Windows, windows_of
from stoker.trials.knobs import Channel, Kind, Setting, parse_settings, prepare
from stoker.trials.knobs.parse import split_settings

_CONFIG = "{config}"
_EXAMPLE = "stoker ab --b num_workers=8 -- python train.py"


def planned(args: argparse.Namespace) -> Plan:
    if not args.command:
        raise UsageError("there is no command to compare", hint=_EXAMPLE)
    if args.metric:
        checked_pattern(args.metric)
    a, b = _commands(args)
    first = _arm(",".join(args.a), a, args.a_config)
    second = _arm(",".join(args.b), b, args.b_config)
    if (first.command, first.settings) == (second.command, second.settings) and not args.yes:
        raise UsageError(
            "A and B are the same",
            seen=f"{first.label} in both" if args.b else "no --b, --b-command or --b-config",
            hint=f"{_EXAMPLE}; with --yes two equal arms are compared, to see the noise",
        )  # fmt: skip
    _check_placeholders(first, second)
    kind = _kind(first, second)
    taking, reason = _seeds(kind, first, second, args.seed_flag)
    return Plan(
        a=first,
        b=second,
        cwd=os.getcwd(),
        windows=_windows(args),
        pairs=args.pairs,
        order_seed=args.random_order,
        kind=kind,
        seeds=taking,
        no_seeds=reason,
        seed_flag=args.seed_flag,
        metric=args.metric,
        higher_is_better=args.higher_is_better,
        total=args.total,
        named=tuple(named_steps(args, a)),
        preflight=_preflight(args.preflight),
        share=args.share,
        guard=args.guard,
    )


def _windows(args: argparse.Namespace) -> Windows:
    if args.window_s is not None:
        return windows_of(args.window_s)
    return SCREENING if args.quick else CONFIRMING


def _commands(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """B's is A's, unless another is given."""
    if not args.b_command:
        return list(args.command), list(args.command)
    return list(args.command), list(_words("--b-command", args.b_command))


def _preflight(given: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    found = tuple(_words("--preflight", text) for text in given)
    for words in found:
        locate(words[0], os.environ)
    return found


def _words(option: str, text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{option} cannot be read: {error}", seen=text) from error
    if not words:
        raise UsageError(f"{option} is empty", hint=f"{option} 'python check.py'")
    return tuple(words)


def _arm(settings: str, command: Sequence[str], config: str) -> ArmPlan:
    words = _with_config(command, config)
    parsed = parse_settings(settings, words)
    if "seed" in _placeholders(parsed):
        raise UsageError("{seed} is filled in by the comparison itself", seen=settings, hint="leave it out")
    _try_out(parsed, words)
    label = ", ".join(part for part in (*split_settings(settings), config and f"config {config}") if part)
    return ArmPlan(label or AS_IT_IS, tuple(words), settings, config)


def _try_out(settings: Sequence[Setting], words: Sequence[str]) -> None:
    """A typo in a key, a file or the command is told now, and not after a minute of the other arm."""
    with tempfile.TemporaryDirectory() as scratch:
        prepared = prepare(settings, words, os.environ, Path(scratch))
    locate(prepared.command[0], prepared.env)


def _with_config(command: Sequence[str], config: str) -> list[str]:
    there = any(_CONFIG in word for word in command)
    if not config:
        if there:
            raise UsageError("the command has a {config}", hint="--a-config FILE --b-config FILE")
        return list(command)
    if not there:
        raise UsageError(
            f"the command does not say where {config} goes",
            seen=shlex.join(command),
            hint="put {config} there: -- python train.py --config {config}",
        )
    if not Path(config).is_file():
        raise UsageError(f"there is no file {config}", hint="check the path")
    return [word.replace(_CONFIG, config) for word in command]


def _check_placeholders(a: ArmPlan, b: ArmPlan) -> None:
    """One that only the other arm fills would reach the script as it stands."""
    _check_one("A", a, b)
    _check_one("B", b, a)


def _check_one(name: str, arm: ArmPlan, other: ArmPlan) -> None:
    own, others = (_placeholders(parse_settings(one.settings, one.command)) for one in (arm, other))
    for mark in sorted(others - own):
        if any(f"{{{mark}}}" in word for word in arm.command):
            raise UsageError(
                f"{name}'s command still holds {{{mark}}}",
                seen=shlex.join(arm.command),
                hint=f"--{name.lower()} {mark}=…",
            )


def _placeholders(settings: Sequence[Setting]) -> set[str]:
    return {setting.name for setting in settings if setting.knob.channel is Channel.PLACEHOLDER}


def _kind(a: ArmPlan, b: ArmPlan) -> str:
    if a.command != b.command:
        return "unknown"  # what two commands or files differ in is not known: it must be looked at
    first, second = (parse_settings(arm.settings, arm.command) for arm in (a, b))
    kinds = {setting.knob.kind for setting in set(first) ^ set(second)}
    return next((kind.value for kind in (Kind.DYNAMICS, Kind.NUMERIC) if kind in kinds), Kind.EXACT.value)


def _seeds(kind: str, a: ArmPlan, b: ArmPlan, flag: str) -> tuple[tuple[int, ...], str]:
    """Three for both arms, where the loss must be compared and the commands take one."""
    marked = any(seeds.MARK in word for arm in (a, b) for word in arm.command)
    if kind == "exact" and not marked:
        return (), ""
    if not all(seeds.takes_seed(arm.command, flag) for arm in (a, b)):
        return (), seeds.NO_PLACE
    first = seeds.given_seed(a.command, flag)
    return tuple(range(first, first + SEEDS)), ""
