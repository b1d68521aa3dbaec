"""The cases of all halves, what is right for each, and in which order they are run.

A case is a script and what to expect of it; a task is one run of it, at a dose, sick or mended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import eighth_table
import eleventh_table
import fifteenth_table
import fifth_table
import fourteenth_table
import fourth_table
import ninth_table
import second_table
import seventh_table
import sixteenth_table
import sixth_table
import tenth_table
import third_table
import thirteenth_table
import twelfth_table
from index import ALL, EVERYWHERE, ON_CPU, ON_GPU

HERE = Path(__file__).resolve().parent
FIRST_HALF, SECOND_HALF = "first", "second"
LATER = {
    "third": third_table,
    "fourth": fourth_table,
    "fifth": fifth_table,
    "sixth": sixth_table,
    "seventh": seventh_table,
    "eighth": eighth_table,
    "ninth": ninth_table,
    "tenth": tenth_table,
    "eleventh": eleventh_table,
    "twelfth": twelfth_table,
    "thirteenth": thirteenth_table,
    "fourteenth": fourteenth_table,
    "fifteenth": fifteenth_table,
    "sixteenth": sixteenth_table,
}
"""Sets of their own; the word stayed. Each is a folder of its name."""
PAIR_DOSE = 2
_PLANTED = re.compile(r"#\s*planted\b[ :]*(.*)$")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    half: str
    script: Path
    words: tuple[str, ...]
    expected: str
    """As in `second_table`."""
    devices: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return not self.expected

    @property
    def pair(self) -> bool:
        return "+" in self.expected


@dataclass(frozen=True, slots=True)
class Task:
    case: Case
    dose: int
    fixed: bool
    seconds: float

    @property
    def key(self) -> tuple[str, str, int, bool]:
        return (self.case.half, self.case.name, self.dose, self.fixed)

    def command(self, device: str) -> list[str]:
        words = [*self.case.words, "--dose", str(self.dose), "--seconds", f"{self.seconds:g}"]
        return [str(self.case.script), *words, "--device", device, *(["--fixed"] if self.fixed else [])]


def first_half() -> list[Case]:
    script = HERE / "scripts.py"
    return [
        Case(name, FIRST_HALF, script, (name,), expected, devices)
        for name, (_, expected, devices) in ALL.items()
    ]


def second_half() -> list[Case]:
    return _stand_alone(
        SECOND_HALF, second_table.EXPECTED, second_table.ON_GPU_ONLY, second_table.ON_CPU_ONLY
    )


def later_halves() -> list[Case]:
    return [
        case
        for half, table in LATER.items()
        for case in _stand_alone(half, table.EXPECTED, table.ON_GPU_ONLY, frozenset())
    ]


def _stand_alone(half: str, table: dict[str, str], gpu: frozenset[str], cpu: frozenset[str]) -> list[Case]:
    """A folder of the half's name holds a file for each case."""

    def devices(name: str) -> tuple[str, ...]:
        return ON_GPU if name in gpu else ON_CPU if name in cpu else EVERYWHERE

    return [
        Case(name, half, HERE / half / f"{name}.py", (), expected, devices(name))
        for name, expected in table.items()
    ]


def all_cases() -> list[Case]:
    return [*first_half(), *second_half(), *later_halves()]


def plan(cases: Sequence[Case], doses: Sequence[int], seconds: float, fixes: bool, turn: int) -> list[Task]:
    """What says most comes first: controls, the middle dose of every fault, pairs; then what the fixes win,
    then the other doses, beginning with another case at each `turn`."""
    sick = [case for case in cases if not case.healthy and not case.pair]
    middle = sorted(doses, key=lambda dose: (abs(dose - 2), dose))[0] if doses else 2
    tasks = [Task(case, 0, False, seconds) for case in cases if case.healthy]
    tasks += [Task(case, middle, False, seconds) for case in sick]
    tasks += [Task(case, PAIR_DOSE, False, seconds) for case in cases if case.pair]
    if fixes and middle:
        tasks += [Task(case, middle, True, max(3.0, seconds / 2)) for case in sick]
    rest = [Task(case, dose, False, seconds) for dose in doses if dose != middle for case in sick]
    start = turn * len(sick) // 2 % len(rest) if rest else 0
    return [*tasks, *rest[start:], *rest[:start]]


def alternatives(expected: str) -> list[frozenset[str]]:
    """`A|B+C`: one of the first, and C."""
    return [frozenset(part.split("|")) for part in expected.split("+")] if expected else []


def planted_lines(case: Case) -> frozenset[tuple[str, int]]:
    """File and number of the lines marked as planted: in its own file, or in this folder for its name."""
    own = case.half != FIRST_HALF
    files = [case.script] if own else sorted(HERE.glob("*.py"))
    found = set()
    for path in files:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            match = _PLANTED.search(line)
            if match and (own or not match[1] or case.name in match[1].split()):
                found.add((path.name, number))
    return frozenset(found)
