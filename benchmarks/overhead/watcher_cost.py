"""What the host watcher costs: CPU seconds it uses per second, beside trees of several sizes.

    python benchmarks/overhead/watcher_cost.py [--seconds 60] [--out benchmarks/results/watcher_cost.json]

The tree has the given number of processes, each with a few threads and waking a hundred times a second. CPU
time is the scheduler's own sum for the watcher (/proc/<pid>/schedstat, nanoseconds), from its second row on:
starting the interpreter is given apart.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stoker.launch import procfs, tree
from stoker.launch.tree import RUN_MARKER
from stoker.launch.watcher import start_watcher

WORKER = """
import threading, time
def tick():
    while True: time.sleep(0.01)
for _ in range(3): threading.Thread(target=tick, daemon=True).start()
tick()
"""
PARENT = """
import subprocess, sys, time
kids = [subprocess.Popen([sys.executable, "-c", sys.argv[2]]) for _ in range(int(sys.argv[1]) - 1)]
time.sleep(100000)
"""


def cpu_s(pid: int) -> float:
    """Of its only thread, exact; `stat` counts in ticks of 10 ms."""
    return int((procfs.read_text(f"/proc/{pid}/schedstat") or "0").split()[0]) / 1e9


def rows(folder: Path) -> list[bytes]:
    path = folder / "outside" / "host.jsonl"
    return path.read_bytes().splitlines() if path.exists() else []


def measure(processes: int, seconds: float) -> dict[str, object]:
    run_id = f"watcher-cost-{os.getpid()}-{processes}"
    env = {**os.environ, RUN_MARKER: run_id}
    command = [sys.executable, "-c", PARENT, str(processes), WORKER]
    job = subprocess.Popen(command, env=env, start_new_session=True)
    root = procfs.identify(job.pid)
    assert root is not None
    while len(tree.members(run_id, root)) < processes:
        time.sleep(0.1)
    time.sleep(2.0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return {"processes": processes, **_watch(Path(folder), run_id, root, seconds)}
    finally:
        tree.end(lambda: tree.members(run_id, root), steps=[signal.SIGKILL])
        job.wait()


def _watch(folder: Path, run_id: str, root: procfs.Identity, seconds: float) -> dict[str, object]:
    watcher = start_watcher(folder, run_id, root)
    while len(rows(folder)) < 3:
        time.sleep(0.05)
    start_cpu_s, start = cpu_s(watcher.pid), time.monotonic()
    first_rows = len(rows(folder))
    time.sleep(seconds)
    used_s, elapsed_s = cpu_s(watcher.pid) - start_cpu_s, time.monotonic() - start
    written = rows(folder)
    rss_bytes = stat.rss_bytes if (stat := procfs.read_stat(watcher.pid)) else None
    watcher.stop()
    return {
        "elapsed_s": round(elapsed_s, 2),
        "rows": len(written) - first_rows,
        "start_cpu_s": round(start_cpu_s, 4),
        "cpu_s": round(used_s, 4),
        "share_of_a_core_pct": round(100 * used_s / elapsed_s, 3),
        "bytes_per_row": round(sum(map(len, written)) / len(written)),
        "rss_bytes": rss_bytes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 20, 100])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    document = {
        "schema": "stoker.benchmark.watcher-cost/1",
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "processes_on_machine": len(procfs.list_pids() or ()),
        "interval_s": 1.0,
        "results": [measure(processes, args.seconds) for processes in args.processes],
    }
    text = json.dumps(document, indent=2) + "\n"
    if args.out:
        args.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
