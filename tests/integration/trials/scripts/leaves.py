"""Starts a process in a session of its own, and ends without it."""

import subprocess
import sys

child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)"],
    start_new_session=True,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
print("left", child.pid, flush=True)
raise SystemExit(int(sys.argv[1]))
