"""`stoker run --pid N`: a job that already runs, watched from outside until it ends or Ctrl-C."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import time
from dataclasses import replace

from stoker import __version__
from stoker.commands.output import show
from stoker.diagnose.summary import summarise
from stoker.errors import UsageError
from stoker.launch import procfs
from stoker.launch.watcher import start_watcher
from stoker.model.run import RunInfo
from stoker.outside import attach as job
from stoker.store import folder as folders
from stoker.store.reading import load


def attach(args: argparse.Namespace) -> int:
    if args.command:
        raise UsageError("--pid watches a job that runs; it takes no command", hint="stoker run -- …")
    root = job.find(args.pid)
    command = _command(args.pid)
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
        watcher = start_watcher(folder, info.id, root, attached=True)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    sys.stderr.write(f"watching pid {args.pid} from outside; Ctrl-C ends the watching, not the job\n")
    try:
        job.follow(root, limit_s=args.limit_s)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    watcher.stop()
    folders.write_info(folder, info := replace(info, ended_s=time.perf_counter(), ended_by="watching ended"))
    if not args.quiet:
        show(summarise(load(folder)), args, sys.stderr)
    return 0


def _command(pid: int) -> list[str]:
    text = procfs.read_text(f"/proc/{pid}/cmdline") or ""
    return [part for part in text.split("\0") if part] or [f"pid {pid}"]
