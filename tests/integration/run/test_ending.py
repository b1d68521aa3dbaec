"""How a run ends: a time limit, Ctrl-C, a signal; and what is shown meanwhile and afterwards."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Bench = Any
Until = Callable[[Callable[[], Any], str], Any]

LAUNCHER = """
import subprocess, sys, time
words = [sys.executable, sys.argv[1]]
workers = [
    subprocess.Popen([*words, f"progress{n}", "stop"], start_new_session=True, stderr=subprocess.DEVNULL)
    for n in range(2)
]
deaf = "trap '' INT TERM; touch deaf; while true; do sleep 1; done"
workers.append(subprocess.Popen(["sh", "-c", deaf], start_new_session=True))
for worker in workers:
    worker.wait()
"""


def ticking(bench: Bench, stubs: Path) -> list[str]:
    return ["python", str(stubs / "ticking.py"), str(bench.folder / "progress"), str(bench.folder / "stop")]


def has_row(bench: Bench) -> bool:
    return any(b'"second"' in path.read_bytes() for path in bench.home.glob("runs/*/inside/*.jsonl"))


def read_terminal(bench: Bench, process: Any) -> bytes:
    """Until the terminal's other end is closed."""
    shown, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([bench.terminal], [], [], 0.2)
        if ready:
            try:
                piece = os.read(bench.terminal, 65536)
            except OSError:  # nobody has it open any more
                break
            shown += piece
        elif process.poll() is not None:
            break
    process.wait(60)
    return shown


def test_a_time_limit_ends_workers_in_sessions_of_their_own(bench: Bench, stubs: Path) -> None:
    bench.script(LAUNCHER, "launcher.py")
    words = ["python", "launcher.py", str(stubs / "ticking.py")]
    done = bench.stoker("run", "--for", "3s", "--grace", "0.5s", "--", *words)
    assert done.code != 0
    assert (bench.folder / "deaf").exists()
    run = bench.runs()[-1]
    assert bench.members(run) == []
    assert "ended by --for" in done.page
    assert "Training processes" in done.page, "both workers are on the page"
    info = bench.run_json()
    assert (info["ended_by"], info["failure"]) == ("time-limit", None)
    assert "KeyboardInterrupt" not in done.page.partition("stoker · ")[2], "we did that ourselves"


def test_ctrl_c_keeps_what_was_measured(bench: Bench, stubs: Path, until: Until) -> None:
    process = bench.start_on_terminal("run", "--", *ticking(bench, stubs))
    until(lambda: has_row(bench), "the first second to be written")
    os.write(bench.terminal, b"\x03")
    shown = read_terminal(bench, process).decode()
    assert process.returncode == -signal.SIGINT
    page = re.sub(r"\x1b\[[0-9;]*m", "", shown[shown.index("stoker · ") :])
    assert re.search(r"SIGINT · [\d.]+ s", page)
    assert "stopped  KeyboardInterrupt at" in page
    assert "ticks/s" in page
    info = bench.run_json()
    assert (info["ended_by"], info["failure"]["kind"]) == ("signal-from-user", "interrupted")
    recorded = bench.stoker("why", "--json").json["trainers"][0]["optimizer_steps"][0]
    assert abs(recorded - int((bench.folder / "progress").read_text())) <= 1


def test_sigterm_is_passed_on(bench: Bench, stubs: Path, until: Until) -> None:
    process = bench.start("run", "--", *ticking(bench, stubs))
    until((bench.folder / "progress").exists, "the first tick")
    process.terminate()
    _, err = process.communicate(timeout=240)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"stopped  ended by SIGTERM after the user asked for it" in err
    assert bench.members(bench.runs()[-1]) == []


def test_one_status_line_while_it_runs(bench: Bench, stubs: Path) -> None:
    process = bench.start_on_terminal("run", "--live", "--for", "4s", "--", *ticking(bench, stubs))
    shown = read_terminal(bench, process).decode()
    before, _, page = shown.partition("stoker · ")
    lines = [line for line in before.split("\r\x1b[2K") if line.startswith("stoker: ")]
    assert len(lines) >= 2
    assert all(len(line) < 80 for line in lines[:-1])  # the last one runs into the script's own traceback
    assert re.search(r"stoker: [\d.]+ s of 4\.0 s · \d+ ticks · [\d.,]+/s · ", lines[-1]), lines
    assert re.search(r"\r\x1b\[2K\s*\x1b\[1m$", before), "the line is gone before the page comes"
    assert "\x1b[2K" not in page


def test_no_status_line_without_a_terminal(bench: Bench) -> None:
    done = bench.stoker("run", "--live", "--quiet", "--", "sleep", "1.5")
    assert (done.code, done.out, done.err) == (0, b"", b"")


def test_two_stokers_at_once_do_not_meet(bench: Bench, stubs: Path) -> None:
    command = ["python", str(stubs / "stub_training.py")]
    both = [bench.start("run", "--json", "--", *command, str(count)) for count in (30, 70)]
    pages = [json.loads(process.communicate(timeout=240)[1]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [page["trainers"][0]["optimizer_steps"] for page in pages] == [[30], [70]]
    assert len({page["folder"] for page in pages}) == 2
    assert (bench.home / ".gitignore").read_text() == "*\n"


def test_a_job_that_already_runs(bench: Bench, stubs: Path, until: Until) -> None:
    job = bench.start("run", "--quiet", "--", *ticking(bench, stubs))
    until((bench.folder / "progress").exists, "the first tick")
    done = bench.stoker("run", "--pid", str(job.pid), "--for", "2.5s")
    assert (done.code, done.out) == (0, b"")
    assert "Seen from outside only" in done.page
    assert "cores used" in done.page
    assert "next: stoker run -- " in done.page
    assert job.poll() is None, "only the watching ended"
    (bench.folder / "stop").touch()
    assert job.wait(60) == 0


def test_a_job_that_ends_while_it_is_watched(bench: Bench) -> None:
    job = bench.start("run", "--quiet", "--", "sleep", "2")
    done = bench.stoker("run", "--pid", str(job.pid), "--json")
    assert done.code == 0
    shown = json.loads(done.err.partition(b"\n")[2])
    assert shown["run"]["ended_by"] == "the job ended"
    assert shown["run"]["attached_pid"] == job.pid
    assert sys.executable in shown["run"]["command"]
