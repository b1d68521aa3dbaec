"""What deep windows of kept recordings took, and what they and the counters told of FP32.

    python benchmarks/pathologies/deep_windows.py DIR... --out FILE

`DIR`: of `run.py --device cuda --both --keep-recordings DIR`. A line of the result is one training: the
stage's length, the parts in which the training stood still, and the signals that SK405 goes by.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "accuracy"))

from beside import deep_stage, with_gpm
from recording import unpacked

from stoker.diagnose.causes.taken import signals
from stoker.diagnose.summary import summarise
from stoker.inside import wire
from stoker.store.reading import load

SHOWN = ("busy_pct", "real_work_pct", "tensor_pct", "fp32_pct", "plain_fp32_frac")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    paths = sorted(path for folder in args.folders for path in folder.rglob("*.tar.xz"))
    rows = [row for path in paths for row in told(path)]
    report = {"schema": "stoker.benchmark.deep_windows/1", "windows": rows}
    args.out.write_text(json.dumps(report, indent=1) + "\n")
    for name in ("stage_s", "still_s"):
        seconds = [row[name] for row in rows]
        print(f"{name}: {len(seconds)}, median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")


def told(path: Path) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        planted, run, gpm = unpacked(path, Path(folder))
        row, stage = deep_row(run), deep_stage(run)
        if row is None or stage is None or stage[1] == float("inf"):
            return
        seen = with_gpm(run, gpm, Path(folder, "with_gpm"), deep=True) if gpm else run
        found = signals(summarise(load(seen)))
        gpu = found.gpu if found else None
        yield {
            "name": planted["name"],
            "half": planted["half"],
            "expected": planted["expected"],
            "stage_s": round(stage[1] - stage[0], 3),
            "still_s": round(sum(seconds or 0.0 for seconds in row["stall_s"].values()), 3),
            "stall_s": row["stall_s"],
            **{name: rounded(getattr(gpu, name, None)) for name in SHOWN},
        }


def deep_row(run: Path) -> dict[str, Any] | None:
    for path in (run / "inside").glob("*.jsonl"):
        for line in path.read_text("utf-8", errors="replace").splitlines():
            if f'"{wire.DEEP_WINDOW}"' in line and (row := json.loads(line)).get("k") == wire.DEEP_WINDOW:
                return row if row["state"] == "taken" else None
    return None


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


if __name__ == "__main__":
    main()
