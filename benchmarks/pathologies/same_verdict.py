"""Is a training told the same without GPM as with it? Counted in the labs that asked for both answers.

    python benchmarks/pathologies/same_verdict.py [--window] [FILE …]

Without files: all labs in benchmarks/results/h200_*. Each training of `run.py --both` has two rows: with GPM
and no deep window, and without GPM and with one; since 2026-11-19 a third, with GPM and the window, which
`--window` takes in place of the first. They agree where the first code is the same or, where there
is none, the outcome. Trainings that were mended are left out: nothing is expected of them. Nothing is
measured here, and the verdicts are those of the rules of each day.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scoring import Row, right

RESULTS = Path(__file__).resolve().parents[1] / "results"


@dataclass(frozen=True, slots=True)
class Both:
    """One training, told twice."""

    file: str
    gpm: Row
    nvml: Row

    @property
    def same(self) -> bool:
        return first(self.gpm) == first(self.nvml)

    @property
    def right_side(self) -> str:
        return _SIDES[right(self.gpm), right(self.nvml)]


_SIDES = {
    (True, True): "both right",
    (True, False): "right with GPM",
    (False, True): "right without",
    (False, False): "both wrong",
}


def first(row: Row) -> str:
    return str(row["codes"][0] if row["codes"] else row["outcome"])


def told_twice(path: Path, window: bool) -> Iterator[Both]:
    """A card that was never asked without GPM, or with it, gives none."""
    rows: dict[tuple[object, ...], dict[bool, Row]] = {}
    for row in json.loads(path.read_text("utf-8"))["runs"]:
        of_both = row.get("gpm") is False or (row.get("gpm") and bool(row.get("deep_too")) is window)
        if of_both and not row["fixed"]:
            key = (row["half"], row["name"], row["dose"])
            rows.setdefault(key, {})[row["gpm"]] = row
    for pair in rows.values():
        if len(pair) == 2:
            yield Both(path.relative_to(path.parents[1]).as_posix(), pair[True], pair[False])


def counted(name: str, found: Sequence[Both]) -> str:
    sides = [one.right_side for one in found if not one.same]
    told = "".join(f"{sides.count(side):>16}" for side in _SIDES.values())
    return f"{name:52}{len(found):5}{sum(one.same for one in found):7}{told}"


def line(one: Both) -> str:
    row, wanted = one.gpm, one.gpm["expected"] or "nothing"
    name = f"{row['half']} {row['name']} dose {row['dose']}"
    return f"  {name:44} {wanted:14} {first(one.gpm)} / {first(one.nvml)}: {one.right_side}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--window", action="store_true", help="the deep window with GPM, too")
    args = parser.parse_args()
    files = [path.resolve() for path in args.files] or sorted(RESULTS.glob("h200_*/lab*.json"))
    every = [one for path in files for one in told_twice(path, args.window)]
    print(f"{'':52}{'runs':>5}{'same':>7}" + "".join(f"{side:>16}" for side in _SIDES.values()))
    for file, half in sorted({(one.file, one.gpm["half"]) for one in every}):
        print(counted(f"{file} {half}", [o for o in every if (o.file, o.gpm["half"]) == (file, half)]))
    print(counted("all", every))
    for title, planted in (("of planted faults", True), ("of healthy ones", False)):
        print(counted(title, [one for one in every if bool(one.gpm["expected"]) is planted]))
    print("\nNot the same (what was planted; with GPM / without):")
    for one in every:
        if not one.same:
            print(line(one))


if __name__ == "__main__":
    main()
