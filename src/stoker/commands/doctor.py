"""`stoker doctor`: what can be measured on this machine, what not, and why."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from stoker import __version__
from stoker.outside.capabilities import PROCESS_TREE, Capability, all_capabilities
from stoker.report import markdown, text
from stoker.report.page import Facts, NextCommand, Notes, Page, Sentence

SCHEMA = "stoker.doctor/1"


def declare(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON on stdout")
    form.add_argument("--md", action="store_true", help="as Markdown on stdout")


def run(args: argparse.Namespace) -> int:
    found = all_capabilities()
    if args.json:
        document = {"schema": SCHEMA, "version": __version__, "capabilities": [asdict(one) for one in found]}
        print(json.dumps(document, indent=2))
    elif args.md:
        print(markdown.render(build_page(found)), end="")
    else:
        text.show(build_page(found), sys.stdout)
    return 0


def build_page(found: list[Capability]) -> Page:
    there = tuple((one.name, one.detail) for one in found if one.available)
    lacking = tuple(f"{one.name}: {one.reason}" for one in found if not one.available)
    return Page(
        title=f"stoker {__version__}: what can be measured here",
        status=f"{len(there)} of {len(found)}",
        blocks=(
            Sentence(_sentence(found)),
            Facts(there),
            Notes("Not measured here", lacking),
            NextCommand("stoker run -- python train.py"),
        ),
    )


def _sentence(found: list[Capability]) -> str:
    available = {one.name for one in found if one.available}
    if PROCESS_TREE not in available:
        return "Only what a training tells from inside can be seen: /proc is not readable here."
    if not any(name.startswith("GPU ") for name in available):
        return "The host can be watched. No GPU is seen: the device is the CPU."
    if any("GPM" in name for name in available):
        return "Host and GPU can be watched, with the GPU's own counters of real work."
    return "Host and GPU can be watched; this GPU tells when it is busy, not how much work it does."
