"""`stoker classify` as a user starts it: a real process, its streams and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"


def stoker(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "stoker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=240)


def test_a_page_on_stdout(recordings: Path):
    done = stoker("classify", recordings / "mimickit_published")
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 throughput/env-bound" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.split("\n"))) <= 80


def test_nothing_readable_is_exit_2_on_stderr(tmp_path: Path):
    done = stoker("classify", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: nothing that can be judged")
    assert len(done.stderr.splitlines()) > 15, "one known format to a line"
    assert "\\x0a" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pipe_with_a_name_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    done = stoker("classify", tmp_path / "pipe")
    assert done.returncode == 2
    assert "not a regular file" in done.stderr
