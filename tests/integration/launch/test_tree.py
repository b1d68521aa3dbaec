"""A time limit ends the whole tree, wherever its processes went; a normal end leaves daemons alone."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.launch import procfs, tree

Drive = Callable[..., Any]
Until = Callable[[Callable[[], object], str], None]

FAMILY = """
import os, signal, subprocess, sys, time

def tell(name):
    with open(sys.argv[1], "a") as log:
        log.write(f"{name} {os.getpid()}\\n")

def sleep_on(name):
    tell(name)
    while True:
        time.sleep(60)

def daemon(name, env=None):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if env is not None:
                script = 'echo "bare $$" >> "$1"; exec sleep 60'
                os.execve("/bin/sh", ["sh", "-c", script, "sh", sys.argv[1]], env)
            sleep_on(name)
        os._exit(0)
    os.wait()

if os.fork() == 0:
    os.setsid()          # as torchrun does with its workers
    if os.fork() == 0:
        sleep_on("grandchild")
    sleep_on("session")
daemon("daemon")         # carries the marker, has lost its parent
daemon("bare", env={})   # has lost both
"""
STAYS = 'sleep_on("root")\n'
IGNORES = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def pids_in(log: Path) -> dict[str, int]:
    lines = log.read_text().splitlines() if log.exists() else []
    return {name: int(pid) for name, pid in (line.split() for line in lines)}


def wait_for_family(log: Path, until: Until, size: int) -> dict[str, procfs.Identity]:
    until(lambda: len(pids_in(log)) == size, "the whole family")
    found = {name: procfs.identify(pid) for name, pid in pids_in(log).items()}
    return {name: identity for name, identity in found.items() if identity}


def alive(family: dict[str, procfs.Identity]) -> set[str]:
    return {name for name, who in family.items() if procfs.identify(who.pid) == who}


@pytest.mark.parametrize("stubborn", [False, True], ids=["INT-is-enough", "KILL-is-needed"])
def test_a_time_limit_ends_everybody(drive: Drive, tmp_path: Path, until: Until, stubborn: bool) -> None:
    log = tmp_path / "family"
    program = FAMILY.replace("def tell", IGNORES + "def tell", 1) if stubborn else FAMILY
    command = [sys.executable, "-c", program + STAYS, str(log)]
    driven = drive("--limit", "2", "--grace", "0.3", "--", *command)
    family = wait_for_family(log, until, 5)
    assert set(family) == {"root", "session", "grandchild", "daemon", "bare"}
    code, _, err = driven.finish()
    assert alive(family) == set()
    assert b"ended_by=time-limit" in err
    assert code == 128 + (signal.SIGKILL if stubborn else signal.SIGINT)


def test_a_normal_end_leaves_daemons_alone(drive: Drive, tmp_path: Path, until: Until) -> None:
    log = tmp_path / "family"
    driven = drive("--", sys.executable, "-c", FAMILY + "sys.exit(4)", str(log))
    # Daemons hold the pipes of the driver open, so its end is awaited, not the end of its output.
    assert driven.wait() == 4
    family = wait_for_family(log, until, 4)
    assert alive(family) == {"session", "grandchild", "daemon", "bare"}
    for who in family.values():
        tree.send(who, signal.SIGKILL)


def test_processes_that_appear_while_ending_are_ended_too(drive: Drive, until: Until, tmp_path: Path) -> None:
    """A parent which replaces each child that dies, as torchrun does on a restart."""
    respawn = (
        "import os, signal, subprocess\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True: subprocess.run(['sleep', '60'], start_new_session=True)\n"
    )
    driven = drive("--limit", "1", "--grace", "0.3", "--", sys.executable, "-c", respawn)
    until(lambda: len(driven.members()) == 2, "parent and child")
    assert driven.wait() == 128 + signal.SIGKILL
    assert driven.members() == []


def test_orphans_are_reaped_and_the_commands_status_is_not_lost(drive: Drive) -> None:
    """Hundreds of orphans end around the command's own end; no zombie is left below the driver meanwhile."""
    orphans = (
        "import os, sys, time\n"
        "for _ in range(100):\n"
        "    if os.fork() == 0:\n"
        "        os.fork()\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
        "driver = os.getppid()\n"
        "end = time.monotonic() + 15\n"
        "def zombies():\n"
        "    kids = open(f'/proc/{driver}/task/{driver}/children').read().split()\n"
        "    return [k for k in kids if ') Z ' in open(f'/proc/{k}/stat').read()]\n"
        "def settled():\n"
        "    try: return not zombies()\n"
        "    except FileNotFoundError: return False\n"
        "while not settled():\n"
        "    if time.monotonic() > end: sys.exit(1)\n"
        "sys.exit(42)\n"
    )
    assert drive("--", sys.executable, "-c", orphans).wait() == 42


def test_members_by_marker_and_never_the_asker(drive: Drive, until: Until) -> None:
    driven = drive("--", "sh", "-c", "sleep 60 & sleep 60")
    names = ["sh", "sleep", "sleep"]
    until(lambda: sorted(member.name for member in driven.members()) == names, "these three and no other")
    assert driven.process.pid not in {member.identity.pid for member in driven.members()}


def test_an_unreadable_environment_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a process of another user: parentage alone must do."""
    child = os.posix_spawn("/bin/sh", ["sh", "-c", "sleep 60 & wait"], dict(os.environ))
    try:
        root = procfs.identify(child)
        assert root is not None
        monkeypatch.setattr(procfs, "carries", lambda pid, marker: None)
        found = {member.identity for member in tree.members("nobody", root)}
        assert root in found
    finally:
        assert tree.end(lambda: tree.members("nobody", root), steps=[signal.SIGKILL]) == []
        os.waitpid(child, 0)


def test_a_pid_with_another_start_time_is_somebody_else() -> None:
    child = os.posix_spawn("/bin/sleep", ["sleep", "60"], dict(os.environ))
    try:
        root = procfs.identify(child)
        assert root is not None
        assert root.create_time is not None
        stranger = procfs.Identity(child, root.create_time - 1)
        assert tree.members("nobody", stranger) == []
        assert not tree.send(stranger, signal.SIGKILL)
        assert procfs.identify(child) == root
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
