"""How near to a threshold was each right answer? Recordings are judged again with their figures shaken.

    python benchmarks/pathologies/shaken.py [--draws 100] [--place tests/recordings/lab] [--out FILE]

Each figure a rule sees is moved at random, by about as much as a second run of the same training would move
it: shares of phases by a twentieth, a line by what its number of looks allows, counters by a point or so. An
answer that changes often hangs by a thread, and the same fault in another training may be on the other side.
Recordings are not a sample of trainings, and most of those kept were told right: this is no score.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "accuracy"))

from beside import told_by_gpm
from card import measured_code
from recording import unpacked
from scoring import right
from verdicts import Row

from stoker.diagnose.causes.gpu_signals import GpuSignals
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.taken import signals
from stoker.diagnose.summary import summarise
from stoker.diagnose.verdict import verdict_on
from stoker.model.finding import Outcome, Verdict
from stoker.store.reading import load

RECORDINGS = Path(__file__).resolve().parents[2] / "tests" / "recordings" / "lab"
SHOWN_BELOW = 0.97


@dataclass(frozen=True, slots=True)
class Shaken:
    name: str
    expected: str
    right_frac: float
    otherwise: tuple[tuple[str, int], ...]


class Hand:
    """What shakes."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def by(self, value: float, frac: float) -> float:
        return value * math.exp(self._random.gauss(0, frac))

    def maybe(self, value: float | None, frac: float) -> float | None:
        return None if value is None else self.by(value, frac)

    def points(self, value: float | None, points: float, most: float = 100.0) -> float | None:
        return None if value is None else min(most, max(0.0, value + self._random.gauss(0, points)))

    def all_by(self, values: Mapping[str, float], frac: float) -> dict[str, float]:
        return {name: self.by(value, frac) for name, value in values.items()}


def shake(found: Signals, hand: Hand) -> Signals:
    host = hand.all_by(found.host_pct, 0.05)
    whole = sum(host.values())
    host = {name: 100 * value / whole for name, value in host.items()} if whole else host
    gpu = shaken_gpu(found.gpu, hand) if found.gpu else None
    lost = {name: hand.maybe(value, 0.08) if gpu else host[name] for name, value in found.lost_pct.items()}
    return replace(
        found,
        gpu=gpu,
        host_pct=host,
        lost_pct=lost,
        lines=tuple(
            replace(line, pct=hand.by(line.pct, min(0.5, max(1, line.samples) ** -0.5)))
            for line in found.lines
        ),
        blocking=tuple(
            replace(line, pct=hand.by(line.pct, 0.08), idle_pct=hand.by(line.idle_pct, 0.08))
            for line in found.blocking
        ),
        demand_per_s=hand.maybe(found.demand_per_s, 0.05),
        off_core_frac=hand.points(found.off_core_frac, 0.015, 1.0),
        others_cores=hand.maybe(found.others_cores, 0.05),
        core_wait_frac=hand.points(found.core_wait_frac, 0.005, 1.0),
        one_row_frac=hand.points(found.one_row_frac, 0.03, 1.0),
        compile_late_pct=hand.maybe(found.compile_late_pct, 0.1),
    )


def shaken_gpu(gpu: GpuSignals, hand: Hand) -> GpuSignals:
    busy = hand.points(gpu.busy_pct, 1.0)
    real = hand.points(gpu.real_work_pct, 1.5)
    chains = gpu.chains
    return replace(
        gpu,
        busy_pct=busy,
        idle_pct=hand.points(gpu.idle_pct, 1.0),
        real_work_pct=real if real is None or busy is None else min(real, busy),
        launching_pct=hand.all_by(gpu.launching_pct, 0.1),
        host_alone_pct=hand.all_by(gpu.host_alone_pct, 0.1),
        unexplained_pct=hand.by(gpu.unexplained_pct, 0.2),
        tensor_pct=hand.maybe(gpu.tensor_pct, 0.05),
        dram_pct=hand.maybe(gpu.dram_pct, 0.05),
        fp32_pct=hand.maybe(gpu.fp32_pct, 0.05),
        memory_frac=hand.points(gpu.memory_frac, 0.02, 1.0),
        plain_fp32_frac=hand.points(gpu.plain_fp32_frac, 0.02, 1.0),
        weights_frac=hand.points(gpu.weights_frac, 0.02, 1.0),
        median_kernel_us=hand.maybe(gpu.median_kernel_us, 0.1),
        chains=replace(
            chains,
            frac=hand.points(chains.frac, 0.02, 1.0) or 0.0,
            saved_frac=hand.points(chains.saved_frac, 0.02, 1.0) or 0.0,
        )
        if chains
        else None,
    )


def told_shaken(path: Path, draws: int) -> Iterator[Shaken]:
    """Once for each answer the recording has."""
    with tempfile.TemporaryDirectory() as folder:
        planted, run, gpm = unpacked(path, Path(folder))
        runs = {"": run}
        if gpm is not None:
            by_counters, by_both = told_by_gpm(run, gpm, Path(folder))
            runs |= {" with GPM": by_counters, " with GPM and deep window": by_both}
        for kind, one in runs.items():
            found = signals(summarise(load(one)))
            if found is not None:
                name = path.name.removesuffix(".tar.xz") + kind
                yield shaken(name, planted["expected"], found, draws)


def shaken(name: str, expected: str, found: Signals, draws: int) -> Shaken:
    hand = Hand(name)
    rows = [row(expected, verdict_on(shake(found, hand))) for _ in range(draws)]
    wrong = Counter("+".join(one["codes"][:2]) or one["outcome"] for one in rows if not told_right(one))
    return Shaken(name, expected, 1 - sum(wrong.values()) / draws, tuple(wrong.most_common(2)))


def row(expected: str, told: Verdict) -> Row:
    named = told.outcome in (Outcome.CAUSES, Outcome.NOT_FIXABLE)
    codes = [finding.code for finding in told.findings] if named else []
    return {"expected": expected, "codes": codes, "outcome": str(told.outcome), "fixed": False}


def told_right(one: Row) -> bool:
    """A pair has both among the first two; what is healthy is called so."""
    if not one["expected"]:
        return bool(one["outcome"] == "healthy")
    wanted = [set(part.split("|")) for part in one["expected"].split("+")]
    return right(one) if len(wanted) == 1 else all(part & set(one["codes"][: len(wanted)]) for part in wanted)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--place", type=Path, default=RECORDINGS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    told = [one for path in sorted(args.place.rglob("*.tar.xz")) for one in told_shaken(path, args.draws)]
    for one in sorted(told, key=lambda one: one.right_frac):
        if one.right_frac < SHOWN_BELOW:
            print(
                f"{100 * one.right_frac:4.0f} %  {one.name:62} {one.expected or 'healthy':12} {_wrong(one)}"
            )
    mean = sum(one.right_frac for one in told) / len(told)
    print(f"{len(told)} answers, {args.draws} draws each: right in {100 * mean:.1f} %")
    if args.out:
        facts: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "code": measured_code()}
        facts |= {"draws": args.draws, "right_frac": mean}
        facts["answers"] = [[one.name, one.expected, one.right_frac, one.otherwise] for one in told]
        args.out.write_text(json.dumps(facts, indent=1) + "\n")


def _wrong(one: Shaken) -> str:
    return ", ".join(f"{said} ({times})" for said, times in one.otherwise)


if __name__ == "__main__":
    main()
