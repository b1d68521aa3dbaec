"""How long `stoker why` takes to read a long run, and one with very many ticks.

    python benchmarks/steady/cost.py [--out FILE]

Writes two run folders: 24 hours at 500 ticks/s (tails of 15 minutes, as they would be) and 14 minutes at
250 ticks/s, whose ticks are all read. Prints the CPU seconds of reading and of judging.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import tempfile
import time
from pathlib import Path

from stoker import __version__
from stoker.diagnose.summary import summarise
from stoker.inside import wire
from stoker.store.reading import load


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = {"24 h, 500 ticks/s": cost(86_400, 500), "14 min, 250 ticks/s": cost(840, 250)}
    print(json.dumps(found, indent=1))
    if args.out:
        head = {"date": time.strftime("%Y-%m-%d"), "command": "python benchmarks/steady/cost.py"}
        versions = {"stoker": __version__, "python": platform.python_version()}
        args.out.write_text(json.dumps({**head, "versions": versions, "runs": found}, indent=1) + "\n")
    return 0


def cost(seconds: int, ticks_per_s: int) -> dict:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        (folder / "inside").mkdir(parents=True)
        write(folder, seconds, ticks_per_s)
        began = time.process_time()
        run = load(folder)
        read_s = time.process_time() - began
        summary = summarise(run)
        total_s = time.process_time() - began
        assert summary.main is not None
        steadiness = summary.main.window.steadiness
        return {
            "read_cpu_s": round(read_s, 2),
            "judge_cpu_s": round(total_s - read_s, 2),
            "verdict": steadiness.phrase if steadiness else None,
            "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        }


def write(folder: Path, seconds: int, ticks_per_s: int) -> None:
    chance = random.Random(1)
    header = {"k": "header", "schema": wire.SCHEMA, "pid": 7, "ppid": 1, "python": "3.12", "torch": "2.11",
              "t": 10.0, "process_start": 9.0, "argv": ["train.py"]}  # fmt: skip
    with (folder / "inside" / "7-0.jsonl").open("w") as out:
        out.write(json.dumps(header) + "\n")
        out.write(json.dumps({"k": "mark", "stage": "train", **sums(11.0, 1)}) + "\n")
        done = 1.0
        for second in range(1, seconds + 1):
            done += ticks_per_s * chance.gauss(1, 0.02)
            row = {**sums(11.0 + second, int(done)), "stage": "train", "acting_s": 0.0, "tick_max_s": 0.1,
                   "env_calls": 0, "pulse_s": 0.1, "steps": [int(done)], "batch_rows": 8}  # fmt: skip
            out.write(json.dumps({"k": "second", **row}) + "\n")
    began_s = 11.0 + max(0, seconds - 900)
    for turn, name in enumerate(wire.TAILS):
        length_s = min(300.0, seconds - 300.0 * turn)
        if length_s > 0:
            write_ticks(
                folder / "inside" / f"7-0.{name}.tsv", began_s + 300 * turn, length_s, ticks_per_s, chance
            )
    write_ticks(folder / "inside" / "7-0.first.tsv", 11.0, 60.0, ticks_per_s, chance)
    (folder / "run.json").write_text(json.dumps(RUN))


RUN = {
    "schema": "stoker.run/1",
    "id": "run",
    "command": ["python", "train.py"],
    "cwd": "/",
    "started_wall": 0.0,
    "started_s": 9.0,
    "ended_s": None,
    "exit_code": None,
    "stoker": __version__,
    "host": "here",
}


def sums(t: float, ticks: int) -> dict:
    phases = [0.0] * len(wire.PHASES)
    phases[wire.FORWARD] = t - 10.0
    return {"t": t, "s": phases, "ticks": ticks, "samples": 8 * ticks, "env_steps": 0, "backwards": ticks}


def write_ticks(path: Path, began_s: float, length_s: float, ticks_per_s: int, chance: random.Random) -> None:
    with path.open("w") as out:
        out.write("\t".join(wire.TICK_COLUMNS) + "\n")
        now, zeros = began_s, "\t0" * (len(wire.TICK_COLUMNS) - 4)
        while now < began_s + length_s:
            took = chance.gauss(1, 0.03) / ticks_per_s
            now += took
            out.write(f"{now * 1e6:.0f}\t{took * 1e6:.0f}\t0{zeros}\t{took * 1e6:.0f}\n")


if __name__ == "__main__":
    sys.exit(main())
