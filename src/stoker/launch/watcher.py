"""Start the host watcher beside a run, and stop it.

It has a session of its own (Ctrl-C does not reach it), no marker, none of our descriptors and a Python path
that holds Stoker alone, so that nothing meant for the training gets into it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stoker.launch import reaper
from stoker.launch.procfs import Identity
from stoker.launch.tree import RUN_MARKER

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Watcher:
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def failure(self) -> str:
        """Why there are no more rows though the run goes on; empty while all is well."""
        code = self.process.poll()
        if not code:
            return ""
        if code == 2:
            return "the host watcher could not write to the run's folder"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the host watcher {how}"

    def stop(self, *, timeout_s: float = 3.0) -> bool:
        """Ask for its last row and wait for it; False where it had to be killed."""
        if self.alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        finally:
            reaper.OWN.pop(self.pid, None)


def start_watcher(
    folder: Path,
    run_id: str,
    root: Identity,
    *,
    interval_s: float = 1.0,
    gpu_interval_s: float | None = None,
    attached: bool = False,
) -> Watcher:
    """`attached` watches a process that was there before: no marker, and its past is not counted."""
    argv = [sys.executable, "-P", "-m", "stoker.outside.watch", "--folder", str(folder.resolve())]
    argv += ["--run-id", run_id, "--pid", str(root.pid), "--interval", str(interval_s)]
    if gpu_interval_s is not None:
        argv += ["--gpu-interval", str(gpu_interval_s)]
    if root.create_time is not None:
        argv += ["--create-time", repr(root.create_time)]
    if attached:
        argv.append("--attached")
    # It inherits the block: told to end while it still starts, it will write its rows first.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        process = _start(argv)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    reaper.OWN[process.pid] = process
    return Watcher(process)


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=helper_environment(),
        start_new_session=True,
        close_fds=True,
    )


def helper_environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != RUN_MARKER}
    env["PYTHONPATH"] = str(_PACKAGE_PARENT)
    return env
