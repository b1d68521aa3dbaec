"""What `stoker run` does with a command, and nothing else: start, watch, wait, return its exit code.

driver.py [options] -- command …
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from stoker.errors import StokerError
from stoker.launch.child import RUN_MARKER, become_subreaper, start
from stoker.launch.watcher import start_watcher


def main() -> int:
    cut = sys.argv.index("--")
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float)
    parser.add_argument("--grace", type=float, default=10.0)
    parser.add_argument("--watch", type=Path)
    parser.add_argument("--facts", type=Path)
    parser.add_argument("--cwd", type=Path)
    parser.add_argument("--beats", type=Path, help="a mark per beat; the third one fails")
    parser.add_argument("--run-id", default=f"test-{os.getpid()}")
    args = parser.parse_args(sys.argv[1:cut])
    become_subreaper()
    try:
        child = start(sys.argv[cut + 1 :], {**os.environ, RUN_MARKER: args.run_id}, cwd=args.cwd)
    except StokerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    watcher = start_watcher(args.watch, args.run_id, child.identity, interval_s=0.1) if args.watch else None
    if args.facts:
        facts = {"child": child.pid, "shares_group": child.shares_group, "watcher": watcher and watcher.pid}
        args.facts.with_suffix(".part").write_text(json.dumps(facts))
        args.facts.with_suffix(".part").rename(args.facts)

    def beat() -> None:
        with args.beats.open("a") as marks:
            marks.write("x")
        if args.beats.stat().st_size == 3:
            raise RuntimeError("third beat")

    on_beat = beat if args.beats else None
    exit = child.wait(limit_s=args.limit, grace_s=args.grace, on_beat=on_beat, beat_s=0.02)
    if watcher:
        watcher.stop()
    print(
        f"ended_by={exit.ended_by} code={exit.code} signal={exit.signal} {child.beat_error!r}",
        file=sys.stderr,
    )
    return exit.shell_code


if __name__ == "__main__":
    sys.exit(main())
