from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import CommandNotFound, CommandNotRunnable
from stoker.launch.command import locate


def tool(folder: Path, name: str, mode: int = 0o755) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_the_first_that_can_run_is_taken(tmp_path: Path) -> None:
    tool(tmp_path / "a", "train", 0o644)
    wanted = tool(tmp_path / "b", "train")
    tool(tmp_path / "c", "train")
    path = ":".join(str(tmp_path / name) for name in "abc")
    assert locate("train", {"PATH": path}) == str(wanted)


def test_found_but_closed_is_another_error_than_not_found(tmp_path: Path) -> None:
    tool(tmp_path / "a", "train", 0o644)
    with pytest.raises(CommandNotRunnable) as closed:
        locate("train", {"PATH": str(tmp_path / "a")})
    assert closed.value.exit_code == 126
    assert "chmod +x" in closed.value.hint
    with pytest.raises(CommandNotFound) as missing:
        locate("train", {"PATH": str(tmp_path)})
    assert missing.value.exit_code == 127


@pytest.mark.parametrize(
    ("name", "hint"), [("train.py", "stoker run -- python train.py"), ("train", "stoker run -- ./train")]
)
def test_a_file_that_lies_here_is_not_on_the_path(tmp_path: Path, name: str, hint: str) -> None:
    tool(tmp_path, name)
    with pytest.raises(CommandNotFound) as caught:
        locate(name, {"PATH": "/nowhere"}, tmp_path)
    assert caught.value.hint == hint


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    tool(tmp_path, "a'; echo foo")
    assert locate("./a'; echo foo", {}, tmp_path) == "./a'; echo foo"


def test_a_whole_command_in_quotes_is_no_file_name(tmp_path: Path) -> None:
    """Longer than any name may be."""
    with pytest.raises(CommandNotFound):
        locate("python train.py " + "--more words " * 40, {"PATH": str(tmp_path)}, tmp_path)
