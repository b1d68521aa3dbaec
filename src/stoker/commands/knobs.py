"""`stoker knobs`: what can be changed about a training without touching it, and how to write it."""

from __future__ import annotations

import argparse
import json
import sys

from stoker.errors import UsageError
from stoker.report import markdown, text
from stoker.report.page import Facts, NextCommand, Page, Sentence
from stoker.trials.knobs import RUNTIME, Channel, Knob
from stoker.trials.knobs.parse import FORMS

SCHEMA = "stoker.knobs/1"


def declare(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON on stdout")
    form.add_argument("--md", action="store_true", help="as Markdown on stdout")


def run(args: argparse.Namespace) -> int:
    if args.command is not None:
        raise UsageError("knobs lists, it runs no command", hint="stoker run --with bf16 -- python train.py")
    if args.json:
        print(json.dumps({"schema": SCHEMA, "knobs": [_data(knob) for knob in RUNTIME]}, indent=1))
    elif args.md:
        print(markdown.render(build_page()), end="")
    else:
        text.show(build_page(), sys.stdout)
    return 0


def build_page() -> Page:
    rows = tuple((knob.name, f"{knob.kind}: {knob.about} ({_values(knob)})") for knob in RUNTIME)
    own = tuple((one.value, form) for one, form in FORMS.items() if one is not Channel.RUNTIME)
    return Page(
        title="stoker: what `--with` can change",
        status=f"{len(RUNTIME)} knobs",
        blocks=(
            Sentence(
                "exact: same samples, same arithmetic. numeric: other rounding. dynamics: another training."
            ),
            Facts(rows, "Without any change to the script"),
            Facts(own, "Settings of the script itself, and how to write them"),
            NextCommand("stoker run --with num_workers=4 -- python train.py"),
        ),
    )


def _values(knob: Knob) -> str:
    return ", ".join(knob.words) or "a number"


def _data(knob: Knob) -> dict[str, object]:
    return {
        "name": knob.name,
        "kind": knob.kind.value,
        "type": knob.type.value,
        "values": list(knob.words),
        "scope": knob.scope.value,
        "shown_by": knob.shown_by,
        "about": knob.about,
    }
