"""A script run under `stoker run`, and what `stoker why --json` then says."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def watched(command: list[str], folder: Path, options: list[str]) -> dict[str, Any]:
    """Run it in `folder` and read it again."""
    if (
        signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    ):  # started in the background by a shell: `--for` needs it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    stoker = [sys.executable, "-m", "stoker"]
    run = [*stoker, "run", "--quiet", *options, "--", sys.executable, *command]
    stderr = subprocess.DEVNULL if options else None  # ended by `--for` it tells of its KeyboardInterrupt
    subprocess.run(run, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=stderr, check=not options)
    why = subprocess.run([*stoker, "why", "--json"], cwd=folder, env=env, stdout=subprocess.PIPE, check=True)
    content: dict[str, Any] = json.loads(why.stdout)
    return content


def machine() -> dict[str, object]:
    from importlib.metadata import version

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    packages = ("torch", "numpy", "gymnasium", "stable-baselines3")
    script = Path(sys.argv[0]).resolve().relative_to(ROOT)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", str(script), *sys.argv[1:]]),
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "load_1m_at_start": os.getloadavg()[0],
    }
