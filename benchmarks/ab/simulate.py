"""How often `stoker ab` is right, on sessions whose true ratio is known.

    python benchmarks/ab/simulate.py [--sessions 4000] [--out FILE]
    python benchmarks/ab/simulate.py --calibrate          # the p of the last look, for 3 to 16 pairs

A session is up to 8 pairs of runs in the order AB, BA, AB, …; each run has a speed of its own (SD between
processes), a mean over steps that resemble their neighbours (AR(1), drawn from the exact variance of such a
mean), and a drift over the session. The looks are those of `stoker.trials.ab.statistics`; beside them the
constant p < 0.016 that the shape of this tool was first drawn with.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from stoker import __version__
from stoker.trials.ab.statistics import (
    FIRST_LOOK,
    LEAST_P,
    P_GROWTH,
    PAIRS_MAX,
    SAME_FRAC,
    Estimate,
    Outcome,
    Rule,
    estimate,
    look,
)
from stoker.trials.ab.student import two_sided_p, two_sided_t

RULE = Rule()
EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10, -0.03)
OLD_P = 0.016
Look = Callable[[Sequence[float]], Outcome | None]


@dataclass(frozen=True)
class Noise:
    """Of one run, in shares of its speed. Reference: SD 1.2 % between processes, steps of CV 5 % with a
    correlation of 0.8, 300 of them (the figures the design of this test goes back to)."""

    between: float = 0.012
    step_cv: float = 0.05
    correlation: float = 0.8
    steps: int = 300
    drift: float = 0.0
    """Over the session, in a straight line."""
    walk: float = 0.0
    """SD of a random step between one run and the next."""
    stray: float = 0.0
    """The share of runs that are slower by 5 %."""

    @property
    def run_sd(self) -> float:
        rho, n = self.correlation, self.steps
        spread = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (n * (1 - rho) ** 2)
        return math.hypot(self.between, self.step_cv * math.sqrt(spread / n))


NOISES = {
    "reference, no drift": Noise(),
    "reference, drift 1 %": Noise(drift=0.01),
    "reference, drift 3 %": Noise(drift=0.03),
    "reference, drift 5 %": Noise(drift=0.05),
    "reference, drift -5 %": Noise(drift=-0.05),
    "reference, random walk 0.5 % a run": Noise(walk=0.005),
    "reference, 5 % of the runs 5 % slower": Noise(stray=0.05),
    "2,000 steps a run (45 s of 20 ms)": Noise(steps=2000),
    "a quiet machine: SD 0.3 %, 2,000 steps of CV 2 %": Noise(0.003, 0.02, 0.5, 2000),
    "a loud machine: SD 3 %": Noise(0.03),
}


def session(noise: Noise, effect: float, pairs: int, rng: random.Random) -> list[float]:
    """Log ratios of the pairs."""
    place, found = 0.0, []
    for pair in range(pairs):
        speeds = []
        for turn in range(2):
            place += rng.gauss(0, noise.walk)
            drifted = noise.drift * (2 * pair + turn) / (2 * pairs - 1)
            strayed = math.log(0.95) if rng.random() < noise.stray else 0.0
            speeds.append(place + drifted + strayed + rng.gauss(0, noise.run_sd))
        first, second = speeds
        found.append((second - first if pair % 2 == 0 else first - second) + math.log1p(effect))
    return found


def constant_p(log_ratios: Sequence[float]) -> Outcome | None:
    """p < 0.016 at each look, and SAME where the 90 % interval lies within 2 % of one."""
    count = len(log_ratios)
    mean, error = fmean(log_ratios), stdev(log_ratios) / math.sqrt(count)
    band = two_sided_t(0.10, count - 1) * error
    if mean - band > math.log(1 - SAME_FRAC) and mean + band < math.log(1 + SAME_FRAC):
        return Outcome.SAME
    if two_sided_p(mean / error, count - 1) < OLD_P:
        return Outcome.WIN if mean > 0 else Outcome.LOSS
    return Outcome.AMBIGUOUS if count >= RULE.pairs else None


RULES: dict[str, Look] = {"growing p": lambda ratios: look(ratios, RULE), "p < 0.016": constant_p}


def ended(log_ratios: list[float], rule: Look) -> tuple[Outcome, int]:
    for count in range(FIRST_LOOK, len(log_ratios) + 1):
        if (found := rule(log_ratios[:count])) is not None:
            return found, count
    raise AssertionError("the last look always answers")


def score(noise: Noise, effect: float, sessions: int, seed: int) -> dict[str, object]:
    rng = random.Random(seed)
    drawn = [session(noise, effect, RULE.pairs, rng) for _ in range(sessions)]
    row: dict[str, object] = {"effect": effect}
    for name, rule in RULES.items():
        ends = [ended(ratios, rule) for ratios in drawn]
        counted = Counter(outcome for outcome, _ in ends)
        row[name] = {
            **{outcome.value: counted[outcome] / sessions for outcome in list(Outcome)[:4]},
            "pairs": fmean(pairs for _, pairs in ends),
        }
        if name == "growing p":
            row["interval_holds_the_truth"] = fmean(
                _holds(estimate(ratios[:pairs], RULE), effect)
                for ratios, (_, pairs) in zip(drawn, ends, strict=True)
            )
    return row


def _holds(found: Estimate | None, effect: float) -> bool:
    return found is not None and found.low <= 1 + effect <= found.high


def calibrate(sessions: int) -> None:
    """With noise alone, and nothing that ends early: the p of the last look that makes 5 % over all."""
    rng = random.Random(5)
    noise = Noise()
    rows = []
    for _ in range(sessions):
        ratios = session(noise, 0.0, PAIRS_MAX, rng)
        rows.append([_p(ratios[:count]) for count in range(FIRST_LOOK, PAIRS_MAX + 1)])
    for pairs in range(FIRST_LOOK, PAIRS_MAX + 1):
        least = sorted(
            min(
                0.0 if p < LEAST_P else p / (count / pairs) ** P_GROWTH
                for count, p in enumerate(row, FIRST_LOOK)
                if count <= pairs
            )
            for row in rows
        )
        print(f"{pairs:>2} pairs: p of the last look {least[int(0.05 * sessions)]:.4f}")


def _p(ratios: list[float]) -> float:
    return two_sided_p(fmean(ratios) / stdev(ratios) * math.sqrt(len(ratios)), len(ratios) - 1)


def verdicts(results: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """The promises, each with the worst figure there is."""

    def share(noise: str, effect: float, rule: str, *outcomes: str) -> float:
        row = next(row for row in results[noise] if row["effect"] == effect)
        return sum(row[rule][outcome] for outcome in outcomes)  # type: ignore[index]

    reference = [name for name in results if name.startswith("reference, ") and "slower" not in name]
    summary: dict[str, object] = {}
    for rule in RULES:
        wrong = max(share(name, 0.0, rule, "WIN", "LOSS") for name in results)
        power = min(share(name, 0.03, rule, "WIN") for name in reference if "walk" not in name)
        same = max(share(name, 0.03, rule, "SAME") for name in results)
        summary[rule] = {
            "false_alarms_worst": wrong,
            "power_at_3_percent_reference_worst": power,
            "same_though_3_percent_worst": same,
            "same_where_equal_reference": share("reference, no drift", 0.0, rule, "SAME"),
            "same_though_2_percent_reference": share("reference, no drift", 0.02, rule, "SAME"),
        }
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sessions", type=int, default=4000)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.calibrate:
        calibrate(args.sessions)
        return 0
    began = time.perf_counter()
    results: dict[str, list[dict[str, object]]] = {}
    for number, (name, noise) in enumerate(NOISES.items()):
        print(f"{name} (a run: SD {100 * noise.run_sd:.2f} %)")
        results[name] = []
        for place, effect in enumerate(EFFECTS):
            row = score(noise, effect, args.sessions, 1000 * number + place)
            results[name].append(row)
            print(f"  true {100 * effect:+5.1f} %  {line(row)}", flush=True)
    promised = verdicts(results)
    print(json.dumps(promised, indent=1))
    if args.out:
        about = {
            "what": "benchmarks/ab/simulate.py",
            "stoker": __version__,
            "python": platform.python_version(),
            "sessions": args.sessions,
            "seconds": round(time.perf_counter() - began),
        }
        content = {"about": about, "promises": promised, "results": results}
        args.out.write_text(json.dumps(content, indent=1) + "\n")
    return 0


def line(row: dict[str, object]) -> str:
    parts = []
    for name in RULES:
        found = row[name]
        assert isinstance(found, dict)
        shares = "  ".join(
            f"{word} {100 * found[word]:5.1f}" for word in ("WIN", "LOSS", "SAME", "AMBIGUOUS")
        )
        parts.append(f"{name}: {shares}  {found['pairs']:.1f} pairs")
    return " | ".join(parts) + f" | interval holds {100 * float(str(row['interval_holds_the_truth'])):.1f}"


if __name__ == "__main__":
    sys.exit(main())
