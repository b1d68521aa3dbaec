"""Each signal reaches the command exactly once, whoever sent it and from wherever.

The barrier: SIGUSR2 is sent last and takes the same way, so whatever was to come has come when it arrives.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from stoker.launch import procfs

Drive = Callable[..., Any]
Until = Callable[[Callable[[], object], str], None]


def end_with_barrier(driven: Any) -> None:
    os.kill(driven.process.pid, signal.SIGUSR2)
    assert driven.wait() == 7


def test_ctrl_c_on_a_terminal_arrives_once_and_from_the_kernel(drive: Drive, signal_log: Any) -> None:
    driven = drive("--", *signal_log.command, tty=True)
    signal_log.wait_for("ready")
    assert driven.facts()["shares_group"]
    driven.press(b"\x03")
    signal_log.wait_for("SIGINT kernel")
    end_with_barrier(driven)
    assert signal_log.heard() == ["SIGINT kernel", "SIGUSR2 process"]


@pytest.mark.parametrize("tty", [False, True], ids=["no-terminal", "terminal"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_kill_of_stoker_alone_is_passed_on_once(drive: Drive, signal_log: Any, tty: bool, name: str) -> None:
    driven = drive("--", *signal_log.command, tty=tty)
    signal_log.wait_for("ready")
    os.kill(driven.process.pid, getattr(signal, name))
    signal_log.wait_for(f"{name} process")
    end_with_barrier(driven)
    assert signal_log.heard() == [f"{name} process", "SIGUSR2 process"]


def test_kill_of_the_group_without_a_terminal_arrives_once(drive: Drive, signal_log: Any) -> None:
    driven = drive("--", *signal_log.command)
    signal_log.wait_for("ready")
    os.killpg(driven.process.pid, signal.SIGINT)
    signal_log.wait_for("SIGINT process")
    end_with_barrier(driven)
    assert signal_log.heard() == ["SIGINT process", "SIGUSR2 process"]


def test_timeout_signals_twice_and_the_command_hears_it_once(drive: Drive, signal_log: Any) -> None:
    """`timeout` signals its child, then its whole group. 124 is its word for "time was up"."""
    driven = drive("--", *signal_log.command, wrapper=("timeout", "--signal=TERM", "--kill-after=15", "2"))
    signal_log.wait_for("SIGTERM process")
    os.kill(driven.facts()["child"], signal.SIGUSR2)
    assert driven.wait() == 124
    assert signal_log.heard() == ["SIGTERM process", "SIGUSR2 process"]


def test_a_shell_and_what_it_waits_for_both_hear_a_kill_on_a_terminal(drive: Drive, signal_log: Any) -> None:
    """As a key press would: the shell alone would leave its Python behind."""
    script = 'trap "" USR1; "$@"; exit $?'
    driven = drive("--", "sh", "-c", script, "sh", *signal_log.command, tty=True)
    signal_log.wait_for("ready")
    os.kill(driven.process.pid, signal.SIGTERM)
    signal_log.wait_for("SIGTERM process")


def test_a_signal_ignored_at_the_start_stays_ignored(drive: Drive, signal_log: Any) -> None:
    """nohup, and `sh` for its background jobs: our parent's decision is not ours to change."""
    driven = drive("--", *signal_log.command, wrapper=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    signal_log.wait_for("ready")
    os.kill(driven.process.pid, signal.SIGINT)
    end_with_barrier(driven)
    assert signal_log.heard() == ["SIGUSR2 process"]


def test_ending_after_a_signal_says_so(drive: Drive) -> None:
    driven = drive("--", "sleep", "60")
    driven.facts()
    os.kill(driven.process.pid, signal.SIGTERM)
    code, _, err = driven.finish()
    assert code == 128 + signal.SIGTERM
    assert b"ended_by=signal-from-user" in err


STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
if sys.argv[1] == "parent":
    subprocess.Popen([sys.executable, "-c", os.environ["STUBBORN"], "kid"], start_new_session=True)
else:
    print("up", flush=True)
while True:
    signal.pause()
"""


def stubborn(terminable: bool) -> list[str]:
    """Two processes in two sessions which do not care for SIGINT."""
    more = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    text = STUBBORN if terminable else STUBBORN.replace("if sys.argv", more + "if sys.argv", 1)
    return ["env", f"STUBBORN={text}", sys.executable, "-c", text, "parent"]


def stubborn_and_up(drive: Drive, terminable: bool) -> tuple[Any, list[Any]]:
    driven = drive("--grace", "0.3", "--", *stubborn(terminable))
    assert driven.process.stdout.readline() == b"up\n"
    members = [member.identity for member in driven.members()]
    assert len(members) == 2
    return driven, members


def test_a_second_interrupt_insists(drive: Drive) -> None:
    driven, members = stubborn_and_up(drive, terminable=True)
    for _ in range(2):
        interrupt(driven)
    assert driven.wait() == 128 + signal.SIGTERM
    assert all(map(gone, members))


def test_a_third_interrupt_kills_at_once(drive: Drive) -> None:
    driven, members = stubborn_and_up(drive, terminable=False)
    for _ in range(3):
        interrupt(driven)
    assert driven.wait() == 128 + signal.SIGKILL
    assert all(map(gone, members))


def gone(identity: procfs.Identity) -> bool:
    return procfs.identify(identity.pid) != identity


def interrupt(driven: Any) -> None:
    """From another process each time, as three key presses are never one request told twice; and heard before
    the next one comes, since the kernel makes one of two that wait."""
    pid = driven.process.pid
    assert os.spawnlp(os.P_WAIT, "kill", "kill", "-INT", str(pid)) == 0
    end = time.monotonic() + 20
    while waits_for_it(pid, signal.SIGINT) and time.monotonic() < end:
        time.sleep(0.01)


def waits_for_it(pid: int, number: int) -> bool:
    status = procfs.read_text(f"/proc/{pid}/status") or ""
    masks = [
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    ]
    return any(mask >> (number - 1) & 1 for mask in masks)


def test_ctrl_z_stops_both_and_both_go_on(drive: Drive, signal_log: Any, until: Until) -> None:
    driven = drive("--", *signal_log.command, tty=True)
    signal_log.wait_for("ready")
    child = driven.facts()["child"]
    # The driver leads its session, so its group is an orphan and the terminal's stop would be discarded
    # (POSIX); SIGSTOP to the group has the same effect.
    os.killpg(driven.process.pid, signal.SIGSTOP)
    for pid in (driven.process.pid, child):
        until(lambda pid=pid: state(pid) == "T", "a stopped process")
    os.killpg(driven.process.pid, signal.SIGCONT)
    end_with_barrier(driven)
    assert signal_log.heard() == ["SIGUSR2 process"]


def test_stop_in_the_background_stops_the_command_too(drive: Drive, signal_log: Any, until: Until) -> None:
    driven = drive("--", *signal_log.command, wrapper=("sh", "-c", '"$@"; exit $?', "sh"))
    signal_log.wait_for("ready")
    child = driven.facts()["child"]
    driver = procfs.read_stat(child).parent_pid
    os.kill(driver, signal.SIGTSTP)
    for pid in (child, driver):
        until(lambda pid=pid: state(pid) == "T", "a stopped process")
    os.kill(driver, signal.SIGCONT)
    until(lambda: state(child) == "S", "the command to go on")
    os.kill(driver, signal.SIGUSR2)
    assert driven.wait() == 7


def state(pid: int) -> str:
    stat = procfs.read_stat(pid)
    return stat.state if stat else "gone"


def test_under_an_interactive_shell(drive: Drive, signal_log: Any, until: Until) -> None:
    """Ctrl-Z stops the job and `fg` takes it up, Ctrl-C reaches the command once: as without Stoker."""
    bash = ("bash", "--norc", "--noprofile", "-i", "-c", 'set -m; "$@"; fg; exit $?', "bash")
    driven = drive("--", *signal_log.command, tty=True, wrapper=bash)
    signal_log.wait_for("ready")
    child = driven.facts()["child"]
    driver = procfs.read_stat(child).parent_pid
    assert driver != driven.process.pid
    driven.press(b"\x1a")
    # bash sees the job stop and goes on to `fg`, so the stop itself is over too soon to be looked at.
    until(lambda: continued(driven), "bash to take the job up again")
    until(lambda: state(child) == "S", "the command to go on")
    driven.press(b"\x03")
    signal_log.wait_for("SIGINT kernel")
    os.kill(driver, signal.SIGUSR2)
    assert driven.wait() == 7
    assert signal_log.heard() == ["SIGINT kernel", "SIGUSR2 process"]


def continued(driven: Any) -> bool:
    """bash says which job it stopped and which it takes up, on the terminal."""
    driven.shown += os.read(driven.master, 65536) if readable(driven.master) else b""
    return driven.shown.count(b"driver.py") >= 2 or b"Stopped" in driven.shown


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0.05)[0])
