"""What the pages say about options, phases and fields is complete and names nothing that is not there."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from pathlib import Path

import pytest

from stoker.commands import VERBS, ab, run, runs, why
from stoker.inside import wire
from stoker.model.record import PHASES
from stoker.model.run import RunFailure, RunInfo
from stoker.store.folder import SCHEMA

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def first_cells(text: str) -> set[str]:
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in rows for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "classify"])
def test_every_verb_has_a_page(verb: str) -> None:
    assert page(verb).startswith(f"# `stoker {verb}`\n")


@pytest.mark.parametrize(("name", "module"), [("run", run), ("why", why), ("runs", runs), ("ab", ab)])
def test_every_option_is_on_its_page(name: str, module: object) -> None:
    parser = argparse.ArgumentParser()
    module.declare(parser)  # type: ignore[attr-defined]
    options = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    mentioned = set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", page(name)))
    assert options - {"--help"} <= mentioned | ({"--md"} if name == "runs" else set())
    if name == "run":
        assert mentioned - options <= {"--steps"}


def test_every_phase_is_explained() -> None:
    table = page("run").split("**Phases**")[1].split("**Lines**")[0]
    assert first_cells(table) == set(PHASES)


def test_every_field_of_run_json_is_explained() -> None:
    text = page("run-folder")
    assert f"`{SCHEMA}`" in text
    table = text.split("## `run.json`")[1].split("`failure` puts")[0]
    assert first_cells(table) == {field.name for field in fields(RunInfo)}
    for field in fields(RunFailure):
        assert f"`{field.name}`" in text


def test_every_kind_of_row_is_explained() -> None:
    text = page("run-folder")
    table = text.split("## `inside/<pid>-<n>.jsonl`")[1].split("## Ticks")[0]
    kinds = {
        getattr(wire, name)
        for name in (
            "HEADER", "SECOND", "MARK", "END", "OPTIMIZER", "LOADER", "WORKER", "SEQUENCE", "PLACE", "LINES",
            "SYNCS", "RANGES", "HOOK", "FAILURE", "RANK", "LOST", "COUNTS", "DEVICE",
            "DEEP_WINDOW", "LEAD", "KNOBS",
        )
    }  # fmt: skip
    assert first_cells(table) >= kinds
    assert f"`{wire.SCHEMA}`" in text
    assert f"`{wire.WORKER_SCHEMA}`" in text
    assert f"{wire.SLOW_ROWS_MAX:,}" in text
    assert f"{wire.PROCESSES_MAX} processes" in text
    assert f"{wire.SHARED_BYTES_MAX // 1_000_000} MB" in text
    assert f"{wire.DEEP_EVENTS_MAX:,}" in text
    for column in wire.DEEP_COLUMNS:
        assert f"`{column}`" in text
