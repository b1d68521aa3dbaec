"""`stoker run --pid N`: a job that already runs, watched from outside until it ends or Ctrl-C."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

from stoker.commands.output import show_after
from stoker.errors import FolderError, StokerError, UsageError
from stoker.launch import procfs
from stoker.launch.beginning import begun
from stoker.launch.watcher import Watcher, start_watcher
from stoker.model.run import Run, RunInfo
from stoker.outside import attach as job
from stoker.store import folder as folders
from stoker.store.reading import load


def attach(args: argparse.Namespace) -> int:
    if args.command:
        raise UsageError("--pid watches a job that runs; it takes no command", hint="stoker run -- …")
    root = job.find(args.pid)
    command = _command(args.pid)
    folder = folders.create(command)
    info = begun(folder, command, attached_pid=args.pid)
    watcher = _watcher(folder, info, root)
    sys.stderr.write(f"watching pid {args.pid} from outside; Ctrl-C ends the watching, not the job\n")
    how = "watching ended"
    try:
        if job.follow(root, limit_s=args.limit_s):
            how = "the job ended"
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    watcher.stop()
    problem = watcher.failure
    ended = replace(info, ended_s=time.perf_counter(), ended_by=how, notes=(problem,) if problem else ())
    show_after(lambda: _recorded(folder, ended), args)
    return 0


def _watcher(folder: Path, info: RunInfo, root: procfs.Identity) -> Watcher:
    try:
        folders.write_info(folder, info)
        return start_watcher(folder, info.id, root, attached=True)
    except (OSError, StokerError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, StokerError):
            raise
        raise FolderError("the host watcher could not be started", seen=str(error)) from error


def _recorded(folder: Path, info: RunInfo) -> Run:
    folders.write_info(folder, info)
    return load(folder)


def _command(pid: int) -> list[str]:
    text = procfs.read_text(f"/proc/{pid}/cmdline") or ""
    return [part for part in text.split("\0") if part] or [f"pid {pid}"]
