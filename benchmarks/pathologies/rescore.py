"""What today's rules say of recordings that were kept (`run.py --keep-recordings`): no card is needed.

A recording with the counters of two watchers gives three rows. The right answer is that of today's table; the
script's own account, and the line numbers of what it planted, are those of the day of the recording.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attempt import Mode, kinds
from beside import told_by_gpm
from cases import Case, all_cases
from recording import unpacked
from verdicts import Row, failed, planned, said

from stoker.diagnose.summary import summarise
from stoker.report import run_json
from stoker.store.reading import load


def rescored(place: Path, root: Path) -> Iterator[Row]:
    """Of every recording below `place`; `root` is where the repository lies."""
    known = {(case.half, case.name): case for case in all_cases()}
    for path in sorted(place.rglob("*.tar.xz")):
        with tempfile.TemporaryDirectory() as name:
            yield from _rows(path, Path(name), known, root)


def _rows(path: Path, folder: Path, known: dict[tuple[str, str], Case], root: Path) -> Iterator[Row]:
    told, run, gpm = unpacked(path, folder)
    case = known.get((told["half"], told["name"])) or _forgotten(told)
    base = planned(case, told["dose"], told.get("fixed", False)) | {"ticks_per_s": 0.0}
    base |= {**told.get("account", {}), "recording": path.name}
    if gpm is None:
        kind = told.get("gpm") if told["device"] == "cuda" else None
        yield {**base, "gpm": kind, **_now(run, case, base["expected"], root, told), **_then(told)}
        return
    then = told["with_gpm"], told.get("with_gpm_and_deep"), told  # the second is not in older ones
    runs = (*told_by_gpm(run, gpm, folder), run)
    for kind, seen, before in zip(kinds(Mode.BOTH, told["device"]), runs, then, strict=True):
        now = _now(seen, case, base["expected"], root, told)
        yield {**base, **kind, **now, **(_then(before) if before else {})}


def _forgotten(told: dict[str, Any]) -> Case:
    """Of a script that is no longer in the lab."""
    return Case(told["name"], told["half"], Path(), (), told["expected"], ())


def _now(run: Path, case: Case, expected: str, root: Path, told: dict[str, Any]) -> Row:
    if told.get("failed"):  # it did not end as it should: no rule is to blame
        return failed(told["failed"])
    return said(json.loads(run_json.render(summarise(load(run)))), case, expected, root)


def _then(told: dict[str, Any]) -> Row:
    return {"said_then": told["codes"] or [told["outcome"]]}
