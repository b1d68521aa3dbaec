"""A command under Stoker ends as it would alone: same code, same streams, same errors as a shell's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Drive = Callable[..., Any]


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 143), ("kill -9 $$", 137)]
)
def test_the_exit_code_is_the_commands_own(drive: Drive, script: str, code: int) -> None:
    returned, out, err = drive("--", "sh", "-c", script).finish()
    assert returned == code
    assert out == b""
    assert b"ended_by=itself" in err


def test_no_such_command(drive: Drive) -> None:
    code, out, err = drive("--", "no-such-command-anywhere").finish()
    assert (code, out) == (127, b"")
    assert b"error: there is no command called no-such-command-anywhere" in err
    assert b"seen: looked on PATH" in err
    assert b"Traceback" not in err


def test_no_such_path(drive: Drive, tmp_path: Path) -> None:
    code, _, err = drive("--", str(tmp_path / "missing.sh")).finish()
    assert code == 127
    assert b"there is no file" in err


@pytest.mark.parametrize(
    ("mode", "text", "seen"),
    [
        (0o644, "#!/bin/sh\n", b"Permission denied"),
        (0o755, "echo hi\n", b"no '#!' line"),
        (0o755, "#!/no/such/python\r\n", b"interpreter that does not exist: '#!/no/such/python\\r'"),
    ],
    ids=["not-executable", "no-shebang", "bad-interpreter"],
)
def test_a_file_that_cannot_be_executed(
    drive: Drive, tmp_path: Path, mode: int, text: str, seen: bytes
) -> None:
    script = tmp_path / "train.sh"
    script.write_bytes(text.encode())
    script.chmod(mode)
    code, out, err = drive("--", str(script)).finish()
    assert (code, out) == (126, b"")
    assert seen in err
    assert b"try:" in err


def test_a_folder_is_no_command(drive: Drive, tmp_path: Path) -> None:
    code, _, err = drive("--", str(tmp_path)).finish()
    assert code == 126
    assert b"it is a folder" in err


def test_a_path_that_a_shell_would_trip_over(drive: Drive, tmp_path: Path) -> None:
    script = tmp_path / "a'; echo foo"
    script.write_text('#!/bin/sh\nprintf "%s" "$1"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    code, out, _ = drive("--", str(script), "$(echo no) 'x").finish()
    assert (code, out) == (0, b"$(echo no) 'x")


def test_binary_output_passes_unchanged(drive: Drive) -> None:
    every_byte = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)"
    code, out, _ = drive("--", sys.executable, "-c", every_byte).finish()
    assert code == 0
    assert out == bytes(range(256)) * 100


def test_standard_input_is_the_commands(drive: Drive) -> None:
    driven = drive("--", "cat")
    out, _ = driven.process.communicate(b"from us", timeout=120)
    assert out == b"from us"


def test_a_terminal_stays_a_terminal(drive: Drive) -> None:
    isatty = "import os, sys; sys.exit(0 if all(os.isatty(fd) for fd in (0, 1, 2)) else 1)"
    assert drive("--", sys.executable, "-c", isatty, tty=True).wait() == 0
    assert drive("--", sys.executable, "-c", isatty).wait() == 1


LIST_DESCRIPTORS = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])"


def test_no_descriptor_of_ours_leaks(drive: Drive, tmp_path: Path) -> None:
    _, out, _ = drive("--watch", str(tmp_path), "--", sys.executable, "-c", LIST_DESCRIPTORS).finish()
    assert out == b"[0, 1, 2]\n"


def test_a_descriptor_handed_over_on_purpose_arrives(drive: Drive) -> None:
    """bash hands `<(…)` over as /dev/fd/63."""
    driven = drive(
        "--", "sh", "-c", "cat <&9", wrapper=("sh", "-c", 'echo config | "$@" 9<&0 0</dev/null', "sh")
    )
    code, out, _ = driven.finish()
    assert (code, out) == (0, b"config\n")


def blocked_and_ignored(status: bytes) -> list[int]:
    """Masks of signals 1 to 31. 32 and 33 are glibc's own: its posix_spawn leaves them ignored, and its
    thread library takes them back when it needs them."""
    return [int(line.split()[1], 16) & 0x7FFFFFFF for line in status.splitlines()]


def test_signal_mask_and_dispositions_are_those_we_were_started_with(drive: Drive) -> None:
    """grep's own status under the driver is what it is without it, ignored signals included."""
    as_nohup = ["sh", "-c", "trap '' HUP USR1; exec \"$@\"", "sh"]
    show = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"]
    alone = subprocess.run([*as_nohup, *show], capture_output=True, check=True).stdout
    _, out, _ = drive("--", *show, wrapper=tuple(as_nohup)).finish()
    assert blocked_and_ignored(out) == blocked_and_ignored(alone)
    assert blocked_and_ignored(out)[1] & 1, "SIGHUP should have stayed ignored"


def test_the_commands_own_path_is_searched(drive: Drive, tmp_path: Path) -> None:
    tool = tmp_path / "only-here"
    tool.write_text("#!/bin/sh\nexit 5\n")
    tool.chmod(0o755)
    path = f"PATH={tmp_path}:{os.environ['PATH']}"
    assert drive("--", "only-here", wrapper=("env", path)).wait() == 5


def test_a_link_to_nothing(drive: Drive, tmp_path: Path) -> None:
    (tmp_path / "train").symlink_to(tmp_path / "gone")
    code, _, err = drive("--", str(tmp_path / "train")).finish()
    assert code == 126
    assert b"it is a link to nothing" in err


def test_a_beat_that_fails_stops_the_beats_and_not_the_command(drive: Drive, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    wait_and_end = (
        f"while [ ! -e {beats} ] || [ $(stat -c %s {beats}) -lt 3 ]; do sleep 0.05; done; sleep 0.2; exit 8"
    )
    code, _, err = drive("--beats", str(beats), "--", "sh", "-c", wait_and_end).finish()
    assert code == 8
    assert beats.read_text() == "xxx"
    assert b"RuntimeError('third beat')" in err


def test_a_folder_to_work_in(drive: Drive, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\npwd\n")
    (tmp_path / "tool").chmod(0o755)
    code, out, _ = drive("--cwd", str(tmp_path), "--", "./tool").finish()
    assert (code, out.decode().strip()) == (0, os.path.realpath(tmp_path))


def test_no_such_folder_to_work_in(drive: Drive, tmp_path: Path) -> None:
    code, _, err = drive("--cwd", str(tmp_path / "gone"), "--", "true").finish()
    assert code == 2
    assert b"cannot work in" in err
