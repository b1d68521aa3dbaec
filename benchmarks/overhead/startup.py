"""What starting costs: `import stoker`, `stoker --help`, and our `sitecustomize` in other people's processes.

    python benchmarks/overhead/startup.py [--repeats 100] [--torch-repeats 30] [--out FILE]

Each figure is a difference of two commands, run in turns (which of the two goes first changes each time), as
wall time from start to end: the median of the differences of the pairs, its quartiles, and the 95 % interval
of that median. Caches are warm: one round of each goes before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "src" / "stoker" / "inside" / "site"


@dataclass(frozen=True, slots=True)
class Pair:
    """A command and the one it is compared with."""

    name: str
    words: Sequence[str]
    base: Sequence[str]
    watched: bool = False
    """The first runs with our sitecustomize, the second without."""
    limit_ms: float | None = None
    uses_torch: bool = False


PAIRS = (
    Pair("import stoker", ("-c", "import stoker"), ("-c", "pass"), limit_ms=30.0),
    Pair("stoker --help", ("-m", "stoker", "--help"), ("-c", "pass"), limit_ms=150.0),
    Pair("sitecustomize, no torch", ("-c", "pass"), ("-c", "pass"), watched=True),
    Pair("sitecustomize, torch imported", ("-c", "import torch"), ("-c", "import torch"), True, None, True),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--torch-repeats", type=int, default=30, help="these take seconds each")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    report = {"schema": "stoker.benchmark.startup/1", **machine(), "results": []}
    results = [measure(pair, args.torch_repeats if pair.uses_torch else args.repeats) for pair in PAIRS]
    report["results"] = results
    for result in results:
        low, high = result["median_interval_ms"]
        limit = f"  (limit {result['limit_ms']:g} ms)" if result["limit_ms"] else ""
        print(
            f"{result['name']:30} +{result['median_ms']:7.2f} ms  [{low:.2f}, {high:.2f}]  over "
            f"{result['base_median_ms']:.1f} ms{limit}"
        )
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(result["over_limit"] for result in results) else 0


def measure(pair: Pair, repeats: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        plain = environment(None, Path(folder))
        other = environment(SITE, Path(folder)) if pair.watched else plain
        run(pair.words, other), run(pair.base, plain)
        first, second = [], []
        for turn in range(repeats):
            if turn % 2:
                first.append(run(pair.words, other))
                second.append(run(pair.base, plain))
            else:
                second.append(run(pair.base, plain))
                first.append(run(pair.words, other))
    return summary(pair, first, second)


def environment(site: Path | None, folder: Path) -> dict[str, str]:
    """As `stoker run` makes it; without it the path is of the same length, only that ours is not on it."""
    path = [str(site)] if site else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT / "src")]), "OMP_NUM_THREADS": "1"}
    return {**env, "STOKER_FOLDER": str(folder)} if site else env


def run(words: Sequence[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], env=env, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - start)


def summary(pair: Pair, first: list[float], second: list[float]) -> dict[str, object]:
    differences = sorted(a - b for a, b in zip(first, second, strict=True))
    low, middle, high = statistics.quantiles(differences, n=4)
    return {
        "name": pair.name,
        "command": ["python", *pair.words],
        "base": ["python", *pair.base],
        "repeats": len(differences),
        "limit_ms": pair.limit_ms,
        "median_ms": round(middle, 3),
        "quartiles_ms": [round(low, 3), round(high, 3)],
        "median_interval_ms": median_interval(differences),
        "base_median_ms": round(statistics.median(second), 3),
        "over_limit": pair.limit_ms is not None and middle > pair.limit_ms,
        "raw_ms": [round(value, 3) for value in first],
        "base_raw_ms": [round(value, 3) for value in second],
    }


def median_interval(ordered: list[float]) -> list[float]:
    """95 %, from the ranks: whatever the distribution."""
    half = 0.98 * len(ordered) ** 0.5
    low, high = int(len(ordered) / 2 - half), int(len(ordered) / 2 + half)
    return [round(ordered[max(0, low)], 3), round(ordered[min(len(ordered) - 1, high)], 3)]


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", "benchmarks/overhead/startup.py", *sys.argv[1:]]),
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_1m_at_start": os.getloadavg()[0],
    }


if __name__ == "__main__":
    sys.exit(main())
