"""`stoker run --pid N`: a job that already runs, watched from outside until it ends or Ctrl-C."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from dataclasses import replace

import psutil

from stoker import __version__
from stoker.commands.output import show
from stoker.diagnose.summary import summarise
from stoker.errors import UsageError
from stoker.launch.procfs import read_stat
from stoker.launch.watcher import start_watcher
from stoker.model.run import RunInfo
from stoker.store import folder as folders
from stoker.store.reading import load


def attach(args: argparse.Namespace) -> int:
    if args.command:
        raise UsageError("--pid watches a job that runs; it takes no command", hint="stoker run -- …")
    command = _command(args.pid)
    stat = read_stat(args.pid)
    if stat is None:
        raise UsageError(f"there is no process {args.pid} that can be read", hint="ps -ef | grep python")
    folder = folders.create(command)
    info = RunInfo(
        id=folder.name,
        command=tuple(command),
        cwd=os.getcwd(),
        started_wall=time.time(),
        started_s=time.perf_counter(),
        attached_pid=args.pid,
        stoker=__version__,
        host=platform.node(),
    )
    folders.write_info(folder, info)
    try:
        watcher = start_watcher(folder, info.id, stat.identity, attached=True)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sys.stderr.write(f"watching pid {args.pid} from outside; Ctrl-C ends the watching, not the job\n")
    try:
        _until_over(args.pid, stat.identity.create_time, args.limit_s)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    watcher.stop()
    folders.write_info(folder, info := replace(info, ended_s=time.perf_counter(), ended_by="watching ended"))
    if not args.quiet:
        show(summarise(load(folder)), args, sys.stderr)
    return 0


def _command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline() or [f"pid {pid}"]
    except psutil.NoSuchProcess:
        raise UsageError(f"there is no process {pid}", hint="ps -ef | grep python") from None
    except psutil.AccessDenied:
        return [f"pid {pid}"]


def _until_over(pid: int, create_time: float | None, limit_s: float | None) -> None:
    end = time.monotonic() + limit_s if limit_s else float("inf")
    while time.monotonic() < end:
        stat = read_stat(pid)
        if stat is None or stat.identity.create_time != create_time:
            return
        time.sleep(0.2)
