"""`stoker ab` as a user starts it, with windows of a second: what it prints and keeps, not who wins."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from stoker.__main__ import main
from stoker.errors import DeviceInUse, FolderError
from stoker.launch import tree
from stoker.launch.procfs import Identity
from stoker.model.exit import EndedBy, Exit
from stoker.model.failure import FailureClass
from stoker.outside.gpu.fake import FakeGpus
from stoker.trials.ab import arms
from stoker.trials.ab.answer import Turn
from stoker.trials.ab.measure import Arm, ArmMeasure
from stoker.trials.ab.plan import ArmPlan, Plan
from stoker.trials.device_lock import all_locked, locked
from stoker.trials.failures import Failure
from stoker.trials.guard.mode import GuardMode
from stoker.trials.spec import TrialResult

TESTS = Path(__file__).parents[2]
DEADLINE_S = 240.0
TRAINING = """
import sys, time, torch
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
nap, seed = float(sys.argv[1]), sys.argv[2:]
step = 0
while True:
    torch.autograd.backward(model([1]))
    optimizer.step()
    step += 1
    time.sleep(nap)
    if step % 20 == 0:
        print(f"step {step} loss {1 / step:.4f}", flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "train.py").write_text(TRAINING)
    yield tmp_path
    end_what_runs_in(tmp_path)


def end_what_runs_in(folder: Path) -> None:
    """A training that outlives a killed Stoker must not outlive the test."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                os.kill(int(process.name), signal.SIGKILL)


def start(folder: Path, *words: str, before: Sequence[str] = ()) -> subprocess.Popen[str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith(("STOKER", "PYTHON"))}
    path = f"{TESTS.parent / 'src'}{os.pathsep}{TESTS / 'stubs'}"
    env = {**base, "PYTHONPATH": path, "STOKER_HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder)}
    window = () if "--resume" in words else ("--window", "1s")
    argv = [*before, sys.executable, "-m", "stoker", "ab", *window, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)


def ab(folder: Path, *words: str) -> tuple[int, str, str]:
    process = start(folder, *words)
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def journal(folder: Path) -> list[dict[str, object]]:
    (path,) = (folder / "home" / "ab").glob("*/journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def loop(*words: str) -> list[str]:
    return ["--", sys.executable, "train.py", *words]


@pytest.mark.slow
def test_a_comparison_from_end_to_end(folder: Path) -> None:
    code, out, err = ab(
        folder, "--a", "nap=0.02", "--b", "nap=0.002", "--json", "--pairs", "3", *loop("{nap}", "{seed}")
    )
    assert code in (0, 1), err
    content = json.loads(out)
    assert content["schema"] == "stoker.ab/1"
    assert content["verdict"] in {"WIN", "LOSS", "SAME", "AMBIGUOUS", "UNSTEADY", "INVALID"}
    assert content["plan"]["seeds"] == [0, 1, 2]
    trials = content["trials"]
    assert len(trials) >= 6
    assert {one["metric_name"] for one in trials} == {"loss"}
    assert "pair 1 of 3, A" in err
    assert "step" not in err  # the training's own words go to its log
    for one in trials:
        kept = Path(content["folder"]) / one["folder"]
        assert "loss" in (kept / "output.log").read_text()
        assert json.loads((kept / "run.json").read_text())["command"][-1] == str(one["seed"])
    assert [row["k"] for row in journal(folder)][-1] == "end"


@pytest.mark.slow
def test_a_killed_comparison_is_resumed(folder: Path) -> None:
    process = start(folder, "--yes", "--pairs", "3", *loop("0.005"))
    wait_for_trials(folder, 1)
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    wait_until_gone(folder)
    done = sum(row["k"] == "arm" for row in journal(folder))
    code, out, err = ab(folder, "--resume", "--json")
    assert code in (0, 1), err
    rows = [row for row in journal(folder) if row["k"] == "arm"]
    assert len(rows) >= 6
    assert [(row["pair"], row["arm"]) for row in rows[: done + 1]] == [(1, "A"), (1, "B"), (2, "B")][
        : done + 1
    ]
    assert len(json.loads(out)["trials"]) == len(rows)


@pytest.mark.slow
def test_ctrl_c_prints_the_page_so_far(folder: Path) -> None:
    process = start(folder, "--yes", *loop("0.005"))
    wait_for_trials(folder, 1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, err
    assert "No verdict yet (interrupted)" in out
    assert "stoker ab --resume" in out
    assert "Traceback" not in err
    wait_until_gone(folder)
    assert {path.name for path in folder.iterdir()} == {"train.py", "home", "stoker"}  # the last one: locks


def test_nobody_gets_the_device_between_two_trials(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked for before each trial and after the last one: it is held all the time, then let go."""
    monkeypatch.setenv("STOKER_HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.chdir(folder)
    refused: list[str] = []

    def measured(self: arms.ArmRunner, turn: Turn) -> ArmMeasure:
        assert self.locks
        with pytest.raises(DeviceInUse) as caught, all_locked(()):
            pass
        refused.append(caught.value.seen)
        rates = {"samples": (2.0 if turn.arm is Arm.B else 1.0) + turn.pair / 100}
        return ArmMeasure(turn.arm, turn.pair, turn.order, steady=True, rates=rates)

    monkeypatch.setattr(arms.ArmRunner, "__call__", measured)
    monkeypatch.setattr("stoker.commands.ab.find_gpus", lambda: FakeGpus(devices=[]))
    assert main(["ab", "--yes", *loop("0.005")]) == 0
    assert "WIN" in capsys.readouterr().out
    assert len(refused) == 6
    assert all(f"process {os.getpid()}, stoker ab of" in seen for seen in refused)
    with all_locked(()):
        pass


def test_a_second_comparison_on_the_same_device_is_told_who_has_it(folder: Path) -> None:
    first = folder / "stoker"
    first.mkdir()
    with locked(None, "stoker ab of python other.py since 12:03", first):
        code, out, err = ab(folder, "--yes", *loop("0.005"))
    assert (code, out) == (2, "")
    assert "error: another Stoker is measuring on the CPU" in err
    assert f"process {os.getpid()}, stoker ab of python other.py since 12:03" in err
    assert not list(folder.glob("home/ab/*"))


def wait_for_trials(folder: Path, count: int) -> None:
    """And until the next one has begun."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        trials = list((folder / "home" / "ab").glob("*/pair*/run.json"))
        measured = [row for path in (folder / "home" / "ab").glob("*/journal.jsonl") for row in path.open()]
        if len(trials) > count and sum('"k":"arm"' in row for row in measured) >= count:
            return
        time.sleep(0.05)
    raise AssertionError("no trial was measured")


def wait_until_gone(folder: Path) -> None:
    """Nothing of any trial is left running."""
    ids = [json.loads(path.read_text())["id"] for path in (folder / "home" / "ab").glob("*/pair*/run.json")]
    end = time.monotonic() + DEADLINE_S
    while any(tree.members(one, Identity(-1, None)) for one in ids):
        assert time.monotonic() < end, "a trial still runs"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_script_that_always_crashes(folder: Path) -> None:
    (folder / "train.py").write_text("import torch\nprint('hello')\nraise KeyError('lr')\n")
    code, out, err = ab(folder, "--b-command", f"{sys.executable} train.py -x", *loop())
    assert code == 1, err
    assert "INVALID: A fails (1 of 1 trials), user_error: KeyError: 'lr'" in out
    assert "hello" in out
    assert "Traceback (most recent call last):" in out
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_crash_without_a_word_is_tried_again(folder: Path) -> None:
    (folder / "train.py").write_text("import os\nos._exit(3)\n")
    code, out, err = ab(folder, "--yes", *loop())
    assert code == 1, err
    assert "INVALID: A fails (2 of 2 trials), crash: exit code 3" in out


@pytest.mark.slow
def test_a_full_disk_ends_it_with_nothing_lost(folder: Path) -> None:
    """Played by the script in its second trial: the first one is kept, and --resume goes on after it."""
    full = "if len(sys.argv) > 2: raise OSError(28, 'No space left on device')\n"
    head, _, rest = TRAINING.partition("model,")
    (folder / "train.py").write_text(f"{head}{full}model,{rest}")
    words = ["--b-command", f"{sys.executable} train.py 0.005 x", "--pairs", "3"]
    code, out, err = ab(folder, *words, *loop("0.005"))
    assert code == 1, err
    assert "error: the disk was full in a trial" in err
    assert "stoker ab --resume" in err
    assert "No verdict yet (the disk was full in a trial)" in " ".join(out.split())
    (folder / "train.py").write_text(TRAINING)
    code, out, err = ab(folder, "--resume", "--json", "--time", "1s")
    trials = json.loads(out)["trials"]
    assert [(one["pair"], one["arm"]) for one in trials] == [(1, "A")], err


SMALL_DISK = 'mount -t tmpfs -o size=14m none "$STOKER_HOME" && exec "$@"'


@pytest.mark.slow
def test_a_disk_that_really_fills_up(folder: Path) -> None:
    """A file system of 14 MB in a mount namespace of its own; filled when the second trial has begun."""
    home = folder / "home"
    home.mkdir()
    inside = ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh"]
    if not shutil.which("unshare") or subprocess.call(
        [*inside, "true"], env={**os.environ, "STOKER_HOME": home}
    ):
        pytest.skip("no file system can be mounted here")
    process = start(folder, "--yes", "--pairs", "3", *loop("0.005"), before=inside)
    disk = Path(f"/proc/{process.pid}/root{home}")
    wait_for_trials(disk.parent, 1)
    with suppress(OSError), (disk / "fill").open("wb", buffering=0) as fill:
        while True:
            fill.write(bytes(4096))
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1, err
    assert "No space left on device" in err
    assert "Traceback" not in err
    shown = " ".join(out.split())
    assert "No verdict yet (" in shown
    assert "failed trials 0 of 1 ?" in shown  # the first trial is kept
    assert "stoker ab --resume" in shown
    assert not list(home.iterdir())


def test_no_room_for_a_recording(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(arms.shutil, "disk_usage", lambda path: usage(10**9, 10**9 - 5, 5))
    side = ArmPlan("a", (sys.executable, "train.py"))
    runner = arms.ArmRunner(Plan(side, side, str(folder)), folder, FakeGpus(), GuardMode.OFF)
    with pytest.raises(FolderError, match="the disk is full") as caught:
        runner(Turn(Arm.A, 1, 0, 1, None))
    assert "--resume" in caught.value.hint
    assert not list(folder.glob("pair*"))


def test_a_gpu_in_use_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = FakeGpus()
    gpus.used_by(0, 4312)
    monkeypatch.setattr("stoker.commands.ab.find_gpus", lambda: gpus)
    monkeypatch.setenv("STOKER_HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(folder)
    code = main(["ab", "--yes", *loop("0.005")])
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert "somebody else uses GPU-0000" in shown.err
    assert "processes: 4312" in shown.err
    assert "--share" in shown.err
    assert gpus.closed
    assert not list((folder / "home").glob("ab/*/*"))


def test_a_guard_that_lets_files_through_needs_the_users_word(folder: Path) -> None:
    code, out, err = ab(
        folder, "--guard", "redirect", "--b-command", f"{sys.executable} x.py", *loop("0.005")
    )
    assert (code, out) == (2, "")
    assert "a trial could change what is yours" in err
    assert "files written by a program that is not Python" in err
    assert "--yes" in err
    assert not (folder / "home").exists()


@pytest.mark.slow
def test_a_command_that_ends_too_soon(folder: Path) -> None:
    text = TRAINING.replace("while True:", "for _ in range(40):")
    (folder / "train.py").write_text(text)
    code, out, _ = ab(folder, "--yes", *loop("0.005"))
    assert code == 1
    assert "UNSTEADY: the command ended by itself" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--b", "nop=3", *loop("{nap}")], "there is no knob called 'nop'"),
        (["--b", "num_worker=3", *loop("1")], "known, nearest first: num_workers,"),
        (["--b", "nmu_envs=8", *loop("{num_envs}")], "known, nearest first: {num_envs},"),
        (["--a", "threads=1", "--b", "threads=1", *loop("1")], "threads=1 in both"),
        (["--a", "seed=1", "--b", "seed=2", *loop("{seed}")], "{seed} is filled in by the comparison"),
        (["--b", "nap=3", "--metric", "loss", *loop("{nap}")], "has no group"),
        (["--b", "nap=3", *loop("{nap}")], "A's command still holds {nap}"),
        (["--b", "cfg:train.py:lr=3", *loop("1")], "train.py defines no lr"),
        (["--b-config", "x.yaml", *loop("1")], "does not say where x.yaml goes"),
        (["--b-command", "python 'x", *loop("1")], "--b-command cannot be read"),
        (["--preflight", " ", "--b", "threads=1", *loop("1")], "--preflight is empty"),
        (["--pairs", "2", *loop("1")], "3 to 16 pairs"),
        (["--b", "nap=1"], "there is no command"),
        (["--b", "--quick", *loop("1")], "a flag of the script is written flag:--lr"),
        (["--b", "num_workers=2", "python", "train.py"], "the command stands after two dashes: stoker ab"),
        ([*loop("1")], "A and B are the same"),
        (["--resume", "--b", "nap=1", *loop("{nap}")], "--resume takes the plan"),
        (["--resume"], "no unfinished comparison"),
    ],
)
def test_mistakes_are_told_before_anything_runs(folder: Path, words: list[str], said: str) -> None:
    code, out, err = ab(folder, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert not (folder / "home").exists()


def test_a_command_that_is_not_there(folder: Path) -> None:
    code, out, err = ab(folder, "--b-command", "pyhton train.py", *loop("1"))
    assert (code, out) == (127, "")
    assert "there is no command called pyhton" in err
    assert not (folder / "home").exists()


def test_a_command_that_comes_first_and_fails(folder: Path) -> None:
    code, out, err = ab(folder, "--yes", "--preflight", "false", *loop("0.01"))
    assert (code, out) == (2, "")
    assert "a command that has to come first failed: false" in err


def test_a_dry_run_runs_nothing(folder: Path) -> None:
    code, out, _ = ab(
        folder, "--a", "nap=1", "--b", "nap=2", "--preflight", "true 1", "--dry-run", *loop("{nap}")
    )
    assert code == 0
    assert "before each   true 1" in out
    assert (
        "threads=1, num_workers=2"
        in ab(folder, "--b", "threads=1", "--b", "num_workers=2", "--dry-run", *loop("1"))[1]
    ), "given twice, both count"
    assert "nothing was run" in out
    assert "at most" in out
    assert not (folder / "home").exists()


def test_a_flag_of_the_script_is_a_setting_as_it_stands(folder: Path) -> None:
    words = ["--a", "--nap=1", "--b", "--nap=2", "--seed-flag", "--seed", "--dry-run", *loop("3")]
    code, out, err = ab(folder, *words)
    assert (code, err) == (0, "")
    assert "B             --nap=2: " in out
    assert "with the seeds 0, 1, 2" in out


def test_what_the_fence_refused_is_not_the_scripts_fault(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("sh: cannot create note.txt: Permission denied\n", encoding="utf-8")
    failure = Failure(FailureClass.USER_ERROR, "CalledProcessError: …", "by hand")
    result = TrialResult(tmp_path, Exit(1, None, EndedBy.ITSELF), failure, 0.0, 1.0)
    assert arms._failure(result, "", GuardMode.FENCE).hint == arms.FENCED
    assert arms._failure(result, "", GuardMode.OVERLAY).hint == ""
