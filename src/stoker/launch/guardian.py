"""Nothing of a trial outlives Stoker: a process of its own that waits for Stoker's end, whatever ends it.

    python -m stoker.launch.guardian --run-id ID --stoker-pid N [--stoker-start T] [--remove FOLDER …]

Told to go (SIGTERM) it goes and touches nothing. When Stoker is gone without a word (kill -9), it kills every
process that carries the run's marker or descends from one that does, and removes the trial's temporary
folders. It is started before the trial, with the lock of its GPU: until it has ended, nobody gets that GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.launch import procfs, reaper, tree
from stoker.launch.procfs import Identity
from stoker.launch.watcher import helper_environment

REMOVABLE = ("stoker-shadow-", "st-")
"""Names of folders it will remove; any other is left alone."""
_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Guardian:
    process: subprocess.Popen[bytes]

    def dismiss(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        reaper.OWN.pop(self.process.pid, None)


def start_guardian(run_id: str, remove: Sequence[Path] = (), held: Sequence[int] = ()) -> Guardian:
    """`held`: descriptors it keeps open, such as a lock's."""
    own = procfs.identify(os.getpid())
    argv = [sys.executable, "-P", "-m", "stoker.launch.guardian", "--run-id", run_id]
    argv += ["--stoker-pid", str(os.getpid())]
    if own is not None and own.create_time is not None:
        argv += ["--stoker-start", repr(own.create_time)]
    for folder in remove:
        argv += ["--remove", str(folder)]
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=helper_environment(),
        start_new_session=True,
        pass_fds=tuple(held),
    )
    reaper.OWN[process.pid] = process
    return Guardian(process)


def wait_for_end(stoker: Identity) -> None:
    """Until Stoker is gone; SIGTERM ends us before that, as usual."""
    try:
        descriptor = os.pidfd_open(stoker.pid)
    except ProcessLookupError:
        return
    except OSError:  # an old kernel
        descriptor = None
    while procfs.identify(stoker.pid) == stoker:
        select.select([descriptor] if descriptor is not None else [], [], [], _LOOK_S)


def clean_up(run_id: str, folders: Sequence[Path]) -> None:
    tree.end(lambda: tree.members(run_id, Identity(-1, None)), steps=(signal.SIGKILL,))
    for folder in folders:
        if folder.name.startswith(REMOVABLE):
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Of a trial. An overlay leaves a work folder nobody may enter, not even its owner."""
    for work in folder.glob("layers/*/work/work"):
        with contextlib.suppress(OSError):
            work.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="stoker.launch.guardian")
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--stoker-pid", type=int, required=True)
    parser.add_argument("--stoker-start", type=float)
    parser.add_argument("--remove", type=Path, action="append", default=[])
    args = parser.parse_args(argv)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Stoker holds its signals back, and we inherit that
    wait_for_end(Identity(args.stoker_pid, args.stoker_start))
    clean_up(args.run_id, args.remove)
    return 0


if __name__ == "__main__":
    sys.exit(main())
