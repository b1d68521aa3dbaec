"""What a user may get wrong, and trainings that behave oddly: exit code, stdout and stderr, each checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

Bench = Any


def assert_refused(bench: Bench, done: Any, code: int, *texts: str) -> None:
    assert (done.code, done.out) == (code, b"")
    assert "Traceback" not in done.page
    for text in texts:
        assert text in done.page
    assert not bench.home.exists() or not bench.runs(), "nothing ran, so nothing is kept"


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (["run"], "there is no command to run"),
        (["run", "--"], "there is no command to run"),
        (["run", "--for", "soon", "--", "true"], "'soon' is no time; write 90s, 10m or 2h"),
        (["run", "--for", "0s", "--", "true"], "'0s' is no time"),
        (["run", "--for", "9" * 400, "--", "true"], "is no time"),
        (["run", "--grace", "-1", "--", "true"], "--grace"),
        (["run", "--env", "nonsense", "--", "true"], "is not of the form module:Class.method"),
        (["run", "--env", "a:b;eval=os:system", "--", "true"], "is not of the form module:Class.method"),
        (["run", "--total", "many", "--", "true"], "'100000 ticks'"),
        (["run", "--total", "-1 ticks", "--", "true"], "--total"),
        (["run", "--total", "1e999", "--", "true"], "'100000 ticks'"),
        (["run", "--json", "--md", "--", "true"], "not allowed with"),
        (["run", "python", "train.py"], "stoker run -- python train.py"),
        (["run", "--pid", "x"], "invalid int value"),
        (["run", "--pid", "999999999"], "there is no process 999999999"),
        (["run", "--pid", "1", "--", "true"], "it takes no command"),
        (["frobnicate"], "there is no command called 'frobnicate'"),
        (["why", "--", "true"], "it takes no command"),
        (["why", "--gate", "loss < 3"], "loss is not a recorded field"),
        (["why", "--gate", "loss < 3"], "fields: iter, tick, time_s, tick_s, data_time"),
        (["why", "--window", "soon"], "cannot be understood"),
        (["runs", "--", "true"], "it takes no command"),
        (["runs", "--prune", "-3"], "--prune"),
        (["runs", "--prune", "all"], "'all' is no number of runs to keep"),
        (["why"], "there is no recorded run here"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_refused_before_anything_starts(bench: Bench, words: list[str], seen: str) -> None:
    assert_refused(bench, bench.stoker(*words), 2, "error: ", seen)


def test_a_command_that_does_not_exist(bench: Bench) -> None:
    done = bench.stoker("run", "--", "no-such-command-anywhere", "--flag")
    assert_refused(bench, done, 127, "there is no command called no-such-command-anywhere", "try:")


def test_a_file_that_cannot_be_executed(bench: Bench) -> None:
    bench.script("print(1)\n")
    assert_refused(bench, bench.stoker("run", "--", "./train.py"), 126, "stoker run -- python ./train.py")


def test_a_script_that_dies_at_import(bench: Bench) -> None:
    bench.script("import torch\n\nimport no_such_module\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert (done.code, done.out) == (1, b"")
    assert "It ended with ModuleNotFoundError before any training was seen." in done.page
    assert "failed  ModuleNotFoundError at train.py:3 (exit code 1)" in done.page
    assert bench.run_json()["failure"] == {
        "kind": "exception",
        "text": "exit code 1",
        "hint": "",
        "exception": "ModuleNotFoundError",
        "message": "No module named 'no_such_module'",
        "file": str(bench.folder / "train.py"),
        "line": 3,
        "pid": bench.run_json()["failure"]["pid"],
    }


def test_its_own_exit_code(bench: Bench) -> None:
    bench.script("import torch, sys\nsys.exit(41)\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert done.code == 41
    assert "failed  exit code 41" in done.page
    assert bench.run_json()["failure"]["kind"] == "exit-code"


def test_out_of_memory(bench: Bench) -> None:
    bench.script("import torch\n\n\ndef grow():\n    raise MemoryError\n\n\ngrow()\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert done.code == 1
    assert "failed  MemoryError at train.py:5 (exit code 1)" in done.page
    assert bench.run_json()["failure"]["kind"] == "out-of-memory"


def test_killed_by_a_signal(bench: Bench) -> None:
    done = bench.stoker("run", "--", "sh", "-c", "kill -SEGV $$")
    assert done.code == 128 + signal.SIGSEGV
    assert "SIGSEGV · " in done.page
    assert "failed  ended by SIGSEGV" in done.page
    assert (bench.run_json()["exit_code"], bench.run_json()["exit_signal"]) == (None, signal.SIGSEGV)


def test_a_name_that_never_comes_up(bench: Bench, stubs: Path) -> None:
    words = ["--env", "no_such_module:Sim.step", "--", "python", stubs / "stub_training.py", "20"]
    done = bench.stoker("run", *words)
    assert done.code == 0
    assert "nothing called no_such_module:Sim.step was seen here" in " ".join(done.page.split())


def test_a_name_in_a_module_run_by_its_name_and_no_optimizer(bench: Bench) -> None:
    """The steps of a simulator that Stoker does not know are the ticks."""
    (bench.folder / "pkg").mkdir()
    (bench.folder / "pkg/__init__.py").touch()
    bench.script(
        "class Sim:\n def step(self): pass\nimport torch\nfor _ in range(7): Sim().step()\n", "pkg/train.py"
    )
    words = ["--env", "pkg.train:Sim.step", "--quiet", "--", "python", "-m", "pkg.train"]
    assert bench.stoker("run", *words).code == 0
    (trainer,) = bench.stoker("why", "--json").json["trainers"]
    assert (trainer["window"]["ticks"], trainer["window"]["tick"]) == (7, "env call")


def test_ends_at_once_and_has_no_torch(bench: Bench) -> None:
    done = bench.stoker("run", "--", "true")
    assert (done.code, done.out) == (0, b"")
    assert "No PyTorch training was seen in this command." in done.page
    assert "next: stoker doctor" in done.page


def test_has_torch_and_no_tick(bench: Bench) -> None:
    bench.script("import torch\ntorch.nn.Linear()([1])\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert done.code == 0
    assert "torch was imported, but no optimizer stepped" in done.page.replace("\n", " ")


def test_binary_output_passes_unchanged(bench: Bench) -> None:
    every_byte = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300)"
    done = bench.stoker("run", "--json", "--", "python", "-c", every_byte)
    assert done.code == 0
    assert done.out == bytes(range(256)) * 300
    assert json.loads(done.err)["schema"] == "stoker.why/1"


def test_quiet(bench: Bench) -> None:
    done = bench.stoker("run", "--quiet", "--", "sh", "-c", "echo out; echo err >&2; exit 4")
    assert (done.code, done.out, done.err) == (4, b"out\n", b"err\n")
    assert bench.run_json()["exit_code"] == 4


def test_words_after_the_dashes_are_the_users(bench: Bench) -> None:
    done = bench.stoker("run", "--quiet", "--", "printf", "%s|", "--for", "--", "--json", "$HOME")
    assert (done.code, done.out) == (0, b"--for|--|--json|$HOME|")


def test_a_daemon_lives_on(bench: Bench) -> None:
    daemon = "setsid sh -c 'echo $$ > pid; exec sleep 300' >/dev/null 2>&1 &"
    done = bench.stoker("run", "--", "sh", "-c", f"{daemon} while [ ! -s pid ]; do sleep 0.05; done")
    pid = int((bench.folder / "pid").read_text())
    try:
        assert done.code == 0
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_folder_that_cannot_be_made(bench: Bench) -> None:
    blocked = bench.folder / "file"
    blocked.write_text("")
    done = bench.stoker("run", "--", "touch", "started", env={"STOKER_HOME": str(blocked / "home")})
    assert (done.code, done.out) == (2, b"")
    assert "error: no folder can be made for this run" in done.page
    assert "Not a directory" in done.page
    assert not (bench.folder / "started").exists()


def test_the_current_folder_is_gone(bench: Bench) -> None:
    gone = ("sh", "-ec", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh")
    for words in (["run", "--", "true"], ["why"], ["runs"]):
        done = bench.stoker(*words, wrapper=gone)
        assert (done.code, done.out) == (2, b"")
        assert "error: the current folder is gone" in done.page
        assert "Traceback" not in done.page


def test_nobody_reads_the_page(bench: Bench) -> None:
    """The exit code is the command's all the same."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        bench.argv(["run", "--", "sh", "-c", "exit 9"]),
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=writer,
        timeout=240,
        check=False,
    )
    os.close(writer)
    assert process.returncode == 9


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"], ids=["closed", "full"])
def test_a_page_that_cannot_be_written(bench: Bench, stderr: str) -> None:
    """The exit code is the command's all the same."""
    done = bench.stoker("run", "--", "sh", "-c", "exit 9", wrapper=["sh", "-c", f'"$@" {stderr}', "sh"])
    assert done.code == 9


def test_a_shells_loop_ends_when_the_training_is_interrupted(bench: Bench) -> None:
    """It goes on after an exit code of 130, and not after a command that died of the signal."""
    done = bench.stoker("run", "--quiet", "--", "sh", "-c", "kill -INT $$")
    assert done.code == -signal.SIGINT
    assert bench.run_json()["exit_signal"] == signal.SIGINT


def test_the_folder_vanishes_in_the_middle(bench: Bench) -> None:
    bench.script("import os, shutil, sys, torch\nshutil.rmtree(os.environ['STOKER_FOLDER'])\nsys.exit(5)\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert (done.code, done.out) == (5, b"")
    assert "the page of this run cannot be shown" in done.page
    assert "Traceback" not in done.page


def test_a_page_that_fails_does_not_change_the_exit_code(bench: Bench) -> None:
    broken = "import sys, stoker.commands.output as o; o.summarise = None; import stoker.commands as c; "
    argv = [sys.executable, "-c", broken + "sys.exit(c.main(['run', '--', 'sh', '-c', 'exit 6']))"]
    done = subprocess.run(argv, cwd=bench.folder, env=bench.environment(), capture_output=True, timeout=240)
    assert (done.returncode, done.stdout) == (6, b"")
    assert done.stderr.startswith(b"\nstoker: the page of this run cannot be shown: TypeError")


def test_a_terminal_that_knows_no_bars(bench: Bench, stubs: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    bench.stoker("run", "--quiet", "--", "python", stubs / "stub_training.py", "20")
    done = bench.stoker("why", env=ascii_only)
    assert (done.code, done.err) == (0, b"")
    assert b"ticks" in done.out


IN_OWN_MOUNTS = ("unshare", "--mount", "sh", "-ec")


def require_mounts() -> None:
    probe = [*IN_OWN_MOUNTS, "mount -t tmpfs none /mnt"]
    try:
        allowed = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("mounting a small disk is not allowed here")


def test_proc_cannot_be_read(bench: Bench, stubs: Path) -> None:
    require_mounts()
    hide = (*IN_OWN_MOUNTS, 'mount -t tmpfs none /proc; exec "$@"', "sh")
    done = bench.stoker("run", "--", "python", stubs / "stub_training.py", "50", wrapper=hide)
    assert (done.code, done.out) == (0, b"")
    assert "50 ticks" in done.page or "49 ticks" in done.page, "the inside is seen all the same"
    assert "host: machine_cpu_pct not measured: /proc/stat cannot be read" in done.page
    assert "more fields not measured" in done.page


FILLS_THE_DISK = """
import glob, os, sys, time, torch


def recorded():
    files = glob.glob(os.environ["STOKER_FOLDER"] + "/inside/*-0.jsonl")
    return any('"second"' in open(name).read() for name in files)


def fill():
    with open(os.environ["STOKER_HOME"] + "/filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 512)
        except OSError:
            pass


model, optimizer = torch.nn.Linear(), torch.optim.SGD()
end, ticks = None, 0
while end is None or time.monotonic() < end:
    torch.autograd.backward(model([1]))
    optimizer.step()
    ticks += 1
    if end is None and ticks % 20 == 0 and recorded():
        fill()
        end = time.monotonic() + 2.5
    time.sleep(0.001)
print(ticks)
sys.exit(7)
"""


def test_the_disk_fills_in_the_middle(bench: Bench) -> None:
    require_mounts()
    bench.script(FILLS_THE_DISK)
    disk = bench.folder / "disk"
    disk.mkdir()
    small = (*IN_OWN_MOUNTS, f'mount -t tmpfs -o size=2m none "{disk}"; exec "$@"', "sh")
    done = bench.stoker("run", "--", "python", "train.py", wrapper=small, env={"STOKER_HOME": str(disk)})
    assert done.code == 7
    assert int(done.out) > 100, "the training went on to its own end"
    page = " ".join(done.page.split())
    assert "the end of the run is not recorded: run.json cannot be written: No space left" in page
    assert "ticks/s" in page, "what was written before is shown"
    assert "not written" in page or "could not be written" in page or "last second may be missing" in page
