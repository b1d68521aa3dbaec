"""Time and memory of `stoker classify` on large logs.

    python benchmarks/ingest/measure.py [--folder DIR] [--repeats 5] [--out FILE]

Each log is written once (into DIR, a temporary folder by default), then classified by a fresh process several
times; wall time is around the whole process, memory is its largest resident set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from logs import LOGS, write


def run_once(path: Path) -> dict[str, float]:
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "stoker", "classify", str(path)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"stoker classify {path} ended with {child.returncode}")
    return {
        "wall_s": round(wall_s, 3),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "peak_rss_mb": round(usage.ru_maxrss / 1024, 1),
    }


def measure(folder: Path, repeats: int) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for name, lines in LOGS.items():
        path = folder / name
        if not path.exists():
            write(path, lines())
        runs = [run_once(path) for _ in range(repeats)]
        size_mb = round(path.stat().st_size / 1e6, 1)
        print(name, f"{size_mb} MB", *(f"{run['wall_s']:.2f} s/{run['peak_rss_mb']:.0f} MB" for run in runs))
        results.append({"log": name, "size_mb": size_mb, "runs": runs})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        results = measure(args.folder or Path(temporary), args.repeats)
    record = {
        "command": "PYTHONPATH=src python benchmarks/ingest/measure.py --out FILE",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "results": results,
    }
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
