"""How long `stoker why` and `stoker why --over-time` take to read a run of 24 hours.

    python benchmarks/long_run/measure.py [--hours 24] [--gpu]

Writes a folder as a run of that length leaves it (a row a second inside, a row a second of the host, one of a
GPU every 0.8 s), in which waiting for data rises from 3 % to 28 % after two fifths, and reads it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stoker.inside.wire import PHASES

USUAL = {"other": 0.07, "data": 0.03, "forward": 0.35, "loss": 0.02, "backward": 0.43, "optim": 0.10}
SLOWED = {"other": 0.05, "data": 0.28, "forward": 0.26, "loss": 0.015, "backward": 0.32, "optim": 0.075}
TICKS_PER_S = 20
UUID = "GPU-00000000-0000-0000-0000-000000000001"
START_S = 1000.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--gpu", action="store_true", help="with the readings of a GPU")
    parser.add_argument("--keep", type=Path, help="write the folder there and leave it")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.keep or Path(scratch)) / "runs" / "20260101-000000-train-0a1b2c"
        write(folder, int(3600 * args.hours), args.gpu)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        result = {"hours": args.hours, "gpu": args.gpu, "bytes": size}
        for name, flags in (("why_s", []), ("over_time_s", ["--over-time"])):
            result[name] = round(timed(folder, flags), 2)
        print(json.dumps(result))


def timed(folder: Path, flags: list[str]) -> float:
    command = [sys.executable, "-m", "stoker", "why", str(folder), "--json", *flags]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
    return time.perf_counter() - begin


def write(folder: Path, seconds: int, gpu: bool) -> None:
    for name in ("inside", "outside"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(run_info(folder.name, seconds)))
    with (folder / "inside" / "4312-0.jsonl").open("w") as out:
        for row in inside_rows(seconds, gpu):
            out.write(json.dumps(row) + "\n")
    with (folder / "outside" / "host.jsonl").open("w") as out:
        for row in host_rows(seconds):
            out.write(json.dumps(row) + "\n")
    if gpu:
        with (folder / "outside" / "gpu.jsonl").open("w") as out:
            for row in gpu_rows(seconds):
                out.write(json.dumps(row) + "\n")


def run_info(name: str, seconds: int) -> dict[str, object]:
    return {
        "schema": "stoker.run/1",
        "id": name,
        "command": ["python", "train.py"],
        "cwd": "/home/me/project",
        "started_wall": 1767225600.0,
        "started_s": START_S - 10,
        "ended_s": START_S + seconds,
        "exit_code": 0,
        "ended_by": "itself",
        "stoker": "0.1.0",
        "host": "box",
        "notes": [],
    }


def inside_rows(seconds: int, gpu: bool):
    spent, ticks = dict.fromkeys(PHASES, 0.0), 0.0
    yield {
        "k": "header",
        "schema": "stoker.inside/1",
        "pid": 4312,
        "ppid": 4311,
        "python": "3.12.3",
        "torch": "2.11.0+cu128" if gpu else "2.11.0+cpu",
        "argv": ["train.py"],
        "phases": PHASES,
        "t": START_S - 5,
        "wall": 1767225605.0,
        "process_start": START_S - 6,
        "agent_start": START_S - 5,
        "switch_interval_s": 0.005,
    }
    yield {"k": "optimizer", "id": 0, "name": "AdamW"}
    if gpu:
        yield {
            "k": "device",
            "t": START_S,
            "index": 0,
            "uuid": UUID,
            "name": "a GPU",
            "total_bytes": 80 << 30,
        }
    yield {"k": "mark", "stage": "train", **sums(0, spent, 0)}
    slow_from = seconds * 2 // 5
    for second in range(1, seconds + 1):
        shares, rate = (USUAL, TICKS_PER_S) if second <= slow_from else (SLOWED, TICKS_PER_S * 0.74)
        wave = 1 + 0.02 * ((second * 7919) % 13 - 6) / 6
        ticks += rate * wave
        for name, share in shares.items():
            spent[name] += share
        yield {
            "k": "second",
            **sums(second, spent, int(ticks)),
            "stage": "train",
            "acting_s": 0.0,
            "tick_max_s": 0.07,
            "env_calls": 0,
            "steps": [int(ticks)],
            "batch_rows": 64,
            "pulse_s": round(0.0005 * second, 6),
            "closely_frac": 1.0,
        }
        if gpu and second % max(10, second // 50) == 0:
            yield lead(second, spent)
    yield {"k": "end", "t": START_S + seconds}


def sums(second: int, spent: dict[str, float], ticks: int) -> dict[str, object]:
    return {
        "t": START_S + second,
        "s": [round(spent[name], 6) for name in PHASES],
        "ticks": ticks,
        "samples": 64 * ticks,
        "env_steps": 0,
        "backwards": ticks,
    }


def lead(second: int, spent: dict[str, float]) -> dict[str, object]:
    """As if a hundredth of the time had been looked at: waits leave the GPU idle, the rest keeps it busy."""
    phases = {
        name: [round(value / 100, 6), round(value / 100, 6) if name == "data" else 0.0, 0.0, 0.0]
        for name, value in spent.items()
        if value
    }
    return {
        "k": "lead",
        "by": "events",
        "device": 0,
        "stream": 0,
        "streams": 1,
        "iterations": second // 5,
        "ticks": second // 5,
        "wall_s": second / 100,
        "cost_s": second / 1e5,
        "doubt_s": 2e-5,
        "phases": phases,
    }


def host_rows(seconds: int):
    yield {
        "kind": "header",
        "schema": "stoker.host/1",
        "run_id": "id",
        "root_pid": 4312,
        "interval_s": 1.0,
        "monotonic_s": START_S,
        "wall_s": 1767225600.0,
        "cores_allowed": 16.0,
    }
    for second in range(seconds):
        yield {
            "kind": "reading",
            "t": START_S + second,
            "processes": 9,
            "cpu_s_total": 3.5 * second,
            "rss_bytes": 6_000_000_000,
            "hottest_core_pct": 97.0,
            "allowed_cpu_pct": 25.0,
            "iowait_pct": 1.0,
            "running": 4,
            "read_bytes_total": 10_000_000 * second,
        }


def gpu_rows(seconds: int):
    yield {
        "kind": "header",
        "schema": "stoker.gpu/1",
        "run_id": "id",
        "interval_s": 0.2,
        "monotonic_s": START_S,
        "wall_s": 1767225600.0,
        "source": "nvml",
        "driver": "580.00",
        "pids_comparable": True,
    }
    yield {
        "kind": "device",
        "gpu": 0,
        "uuid": UUID,
        "name": "a GPU",
        "memory_total_bytes": 80 << 30,
        "gpm": True,
    }
    slow_from = seconds * 2 / 5
    for look in range(int(seconds / 0.8)):
        t = 0.8 * look
        yield {
            "kind": "reading",
            "t": round(START_S + t, 3),
            "gpu": 0,
            "busy_pct": 96.0 if t < slow_from else 71.0,
            "busy_s": 0.8,
            "busy_source": "gpm",
            "sm_active_pct": 80.0 if t < slow_from else 59.0,
            "memory_used_bytes": 30 << 30,
            "sm_clock_mhz": 1755,
        }


if __name__ == "__main__":
    main()
