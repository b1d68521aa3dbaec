"""Console of an on-policy trainer: a table per iteration, and the words with which it ended."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field

from stoker.ingest.failure_words import Failure, failure_in, is_nearer_the_root
from stoker.ingest.source import Ledger, Reading, Source, number
from stoker.model.evidence import EvaluationText, Evidence, FailureText, IterationLog, Stage

_CELL = re.compile(r"^\|\s*(\w+)\s*\|\s*(\S+)\s*\|\s*$")
_PARAMETERS = re.compile(r"^Total parameter count: (\d{1,15})\s*$")
_ENVS = re.compile(r"Building (?:\d+)/(\d{1,7}) envs")
_RESULT = re.compile(r"^(Mean Return|Episodes): (\S+)\s*$")
_TRAINER = re.compile(
    r"^(?:Building \w+ (?:agent|env)|Total parameter count: \d|Mean Return: |Using master port)", re.M
)
_ITERATION = re.compile(r"^\|\s*Iteration\s*\|\s*\d+\s*\|", re.M)
_SHORT = 400
# Without a table or the trainer's greeting, only a line that reports an error makes this a console: prose
# about running out of memory does not.
_SAYS_ERROR = re.compile(r"^(?:\[?\w+\]?:? ?)?(?:[\w.]+(?:Error|Exception)\b|.*Cuda failure)")
_SECONDS_PER_HOUR = 3600.0


@dataclass
class _Console:
    tables: list[dict[str, float]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    parameters: int | None = None
    envs: int | None = None
    failure: tuple[Failure, int, str] | None = None
    results: dict[str, float] = field(default_factory=dict)


def recognise(source: Source) -> bool:
    if _ITERATION.search(source.head) or _TRAINER.search(source.head):
        return True
    lines = source.head.split("\n")
    return len(lines) < _SHORT and any(_SAYS_ERROR.search(line) and failure_in(line) for line in lines)


def read(source: Source) -> Reading:
    ledger, console = Ledger(), _Console()
    for line, text in source.lines():
        if text.startswith("|"):
            _cell(console, line, text, ledger)
        else:
            _words(console, line, text)
    return Reading(tuple(_evidence(console, stage_of(source))), ledger)


def stage_of(source: Source) -> Stage:
    """The long cycle names its logs by stage; elsewhere the stage is not in the file."""
    names = (source.path.stem, source.path.parent.name)
    for word in (Stage.PROBE, Stage.LONG, Stage.TEST, Stage.VIZ):
        if any(name.startswith(word.value) for name in names):
            return word
    return Stage.UNKNOWN


def _cell(console: _Console, line: int, text: str, ledger: Ledger) -> None:
    cell = _CELL.match(text)
    if cell is None:
        ledger.add(line, "a table row that is not `| key | value |`", text)
        return
    key, value = cell[1], number(cell[2])
    if key == "Iteration":
        console.tables.append({})
    console.keys.add(key)
    if value is None:
        ledger.add(line, f"{key} is not a number", text)
    elif console.tables:
        console.tables[-1][key] = value


def _words(console: _Console, line: int, text: str) -> None:
    if found := _PARAMETERS.match(text):
        console.parameters = int(found[1])
    elif found := _RESULT.match(text):
        if (value := number(found[2])) is not None:
            console.results[found[1]] = value
    elif "Building" in text and (found := _ENVS.search(text)):
        console.envs = int(found[1])
    elif (kind := failure_in(text)) and is_nearer_the_root(kind, console.failure and console.failure[0]):
        console.failure = (kind, line, text.strip()[:120])


def _evidence(console: _Console, stage: Stage) -> list[Evidence]:
    items: list[Evidence] = []
    rows = [table for table in console.tables if is_iteration(table)]
    if rows:
        items.append(iteration_log(rows, frozenset(console.keys), stage, console, complete=True))
    if console.failure:
        kind, line, text = console.failure
        items.append(FailureText(kind.value, line, text, stage))
    if "Mean Return" in console.results:
        episodes = console.results.get("Episodes")
        items.append(
            EvaluationText(None if episodes is None else int(episodes), console.results["Mean Return"])
        )
    return items


def is_iteration(row: dict[str, float]) -> bool:
    return {"Iteration", "Wall_Time"} <= row.keys() and 0 <= row["Iteration"] < 1e15


def iteration_log(
    rows: list[dict[str, float]],
    keys: frozenset[str],
    stage: Stage,
    console: _Console | None = None,
    *,
    complete: bool,
) -> IterationLog:
    return IterationLog(
        iterations=array("q", (int(row["Iteration"]) for row in rows)),
        wall_s=array("d", (row["Wall_Time"] * _SECONDS_PER_HOUR for row in rows)),
        samples=array("d", (row.get("Samples", float("nan")) for row in rows)),
        evaluated=_evaluated(rows),
        keys=keys,
        complete=complete,
        parameters=console.parameters if console else None,
        envs_built=console.envs if console else None,
        stage=stage,
    )


def _evaluated(rows: list[dict[str, float]]) -> tuple[bool, ...]:
    """This trainer evaluates at its first iteration, and whenever the printed return of the test changes."""
    marks, previous = [], None
    for row in rows:
        current = row.get("Test_Return")
        marks.append(current is not None and current != previous)
        previous = current
    return tuple(marks)
