"""A script run under `stoker run`, and what `stoker why --json` then says."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, Protocol

from card import measured_code

ROOT = Path(__file__).resolve().parents[2]
STOKER = [sys.executable, "-m", "stoker"]


class Stopped(Protocol):
    def stop(self) -> bool: ...


def watched(
    command: list[str],
    folder: Path,
    options: list[str],
    env: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
    timeout_s: float | None = None,
) -> dict[str, Any]:
    """Run it in `folder` and read it again. What takes longer than `timeout_s` is ended, tree and all."""
    recorded(command, folder, options, env, stdout, timeout_s)
    return asked(folder, env)


def recorded(
    command: list[str],
    folder: Path,
    options: list[str],
    env: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
    timeout_s: float | None = None,
    beside: Callable[[subprocess.Popen[bytes]], Stopped | None] | None = None,
) -> None:
    """`beside` is started with it and stopped after it."""
    hear_interrupts()
    limit = ["--for", f"{timeout_s:g}s"] if timeout_s else []
    run = [*STOKER, "run", "--quiet", *limit, *options, "--", sys.executable, *command]
    stderr = subprocess.DEVNULL if options else None  # ended by `--for` it tells of its KeyboardInterrupt
    said = stdout or subprocess.DEVNULL
    with subprocess.Popen(run, cwd=folder, env=_environment(env), stdout=said, stderr=stderr) as process:
        other = None
        try:
            other = beside(process) if beside else None
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            if other is not None:
                other.stop()
    if code and not options:
        raise subprocess.CalledProcessError(code, run)


def asked(folder: Path, env: Mapping[str, str] | None = None, run: Path | None = None) -> dict[str, Any]:
    """What `stoker why --json` says of `run`, or of the latest one there."""
    words = [*STOKER, "why", "--json", *([str(run)] if run else [])]
    why = subprocess.run(words, cwd=folder, env=_environment(env), stdout=subprocess.PIPE, check=True)
    content: dict[str, Any] = json.loads(why.stdout)
    return content


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **(env or {})}


def hear_interrupts() -> None:
    """Started in the background by a shell, it would not, nor its children: `--for` needs it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def machine() -> dict[str, object]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    packages = ("torch", "numpy", "gymnasium", "stable-baselines3")
    script = Path(sys.argv[0]).resolve().relative_to(ROOT)
    words = [Path(word).name if word.startswith("/") else word for word in sys.argv[1:]]
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", str(script), *words]),
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
        "code": measured_code(),
        "load_1m_at_start": os.getloadavg()[0],
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
