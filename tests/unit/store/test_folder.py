from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import FolderError, RunNotFound
from stoker.launch import liveness
from stoker.model.run import RunFailure, RunInfo, short_id
from stoker.store import folder as folders


@pytest.fixture(autouse=True)
def _no_home_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOKER_HOME", raising=False)


def recorded(base: Path, number: int, *, ended: bool = True, script: str = "train.py") -> Path:
    folder = folders.create(["python", script], base)
    info = RunInfo(
        folder.name, ("python", script), "/x", 1000.0 + number, 5.0, ended_s=9.0 if ended else None
    )
    folders.write_info(folder, info)
    return folder


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "/a/b/train.py", "--x", "other.py"], "train"),
        (["python", "-m", "pkg.tool"], "pkg.tool"),
        (["sh", "run.sh"], "run"),
        (["torchrun", "--nproc_per_node=2", "train.py"], "train"),
        (["/usr/bin/thing"], "thing"),
        (["python", "a'; echo foo.py"], "a_echo_foo"),
        (["../../..//etc/passwd"], "passwd"),
        (["python", "x" * 300 + ".py"], "x" * 40),
        (["python", "訓練.py"], "run"),
        (["..."], "run"),
        ([], "run"),
    ],
)
def test_names(command: list[str], name: str) -> None:
    assert folders.script_name(command) == name


def test_a_new_folder(tmp_path: Path) -> None:
    folder = folders.create(["python", "train.py"], tmp_path)
    assert folder.parent == tmp_path / ".stoker" / "runs"
    assert sorted(path.name for path in folder.iterdir()) == ["inside", "outside"]
    assert (tmp_path / ".stoker" / ".gitignore").read_text() == "*\n"
    assert short_id(folder.name) == folder.name[-6:]
    (tmp_path / ".stoker" / ".gitignore").write_text("mine\n")
    assert folders.create(["python", "train.py"], tmp_path) != folder
    assert (tmp_path / ".stoker" / ".gitignore").read_text() == "mine\n"


def test_a_home_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "mine"))
    assert folders.create(["x"]).parent == tmp_path / "mine" / "runs"
    assert not (tmp_path / "mine" / ".gitignore").exists()


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / ".stoker").write_text("in the way")
    with pytest.raises(FolderError) as caught:
        folders.create(["x"], tmp_path)
    assert caught.value.exit_code == 2
    assert "STOKER_HOME" in caught.value.hint


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    folder = recorded(tmp_path, 1)
    info = replace(
        folders.read_info(folder),
        command=("a b", "\udcff\x1b[0m", "</script>"),
        failure=RunFailure("exception", "exit code 1", "", "E", "m", "a.py", 3, 7),
        notes=("one", "two"),
    )
    folders.write_info(folder, info)
    assert folders.read_info(folder) == info
    assert json.loads((folder / "run.json").read_text())["schema"] == folders.SCHEMA
    assert [path.name for path in folder.glob(".run.json*")] == []


GOOD = {
    "schema": folders.SCHEMA,
    "id": "x",
    "command": ["a"],
    "cwd": "/",
    "started_wall": 1.0,
    "started_s": 1.0,
}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "3",
        "{}",
        "[" * 100_000,
        "\x00",
        json.dumps({**GOOD, "schema": "stoker.run/99"}),
        json.dumps({**GOOD, "command": None}),
        json.dumps({**GOOD, "command": [1, 2]}),
        json.dumps({**GOOD, "started_s": None}),
        json.dumps({**GOOD, "ended_s": "later"}),
        json.dumps({**GOOD, "failure": {"kind": "x"}}),
        json.dumps({key: value for key, value in GOOD.items() if key != "id"}),
    ],
    ids=lambda text: text[:60],
)
def test_a_damaged_run_json_is_an_error_in_words(tmp_path: Path, content: str) -> None:
    folder = recorded(tmp_path, 1)
    (folder / "run.json").write_text(content)
    with pytest.raises(RunNotFound, match="is not a run that can be read"):
        folders.read_info(folder)
    assert [item.info for item in folders.listed(tmp_path)] == [None]


def test_fields_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    folder = recorded(tmp_path, 1)
    (folder / "run.json").write_text(json.dumps({**GOOD, "mood": "good"}))
    assert folders.read_info(folder).command == ("a",)


def test_a_run_without_space_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path, 1)
    before = folders.read_info(folder)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(FolderError, match="No space left"):
        folders.write_info(folder, replace(before, exit_code=3))
    assert folders.read_info(folder) == before


def test_find(tmp_path: Path) -> None:
    old, new = recorded(tmp_path, 1), recorded(tmp_path, 2, script="other.py")
    for name in (None, "latest", new.name, "other", short_id(new.name), str(new)):
        assert folders.find(name, tmp_path) == new
    assert folders.find("train", tmp_path) == old
    with pytest.raises(RunNotFound, match="2 runs match '-'") as caught:
        folders.find("-", tmp_path)
    assert old.name in caught.value.seen
    for name in ("nothing", "x" * 9000, "a\x00b"):
        with pytest.raises(RunNotFound, match="no run matches") as caught:
            folders.find(name, tmp_path)
        assert new.name in caught.value.seen


def test_latest_is_one_that_can_be_read(tmp_path: Path) -> None:
    good = recorded(tmp_path, 1)
    folders.create(["just", "begun"], tmp_path)
    assert folders.find("latest", tmp_path) == good


def test_many_runs_are_not_all_listed(tmp_path: Path) -> None:
    for number in range(8):
        recorded(tmp_path, number)
    with pytest.raises(RunNotFound) as caught:
        folders.find("train", tmp_path)
    assert caught.value.seen.count("-train-") == folders.SHOWN
    assert caught.value.seen.endswith("and 3 older")


def test_no_runs(tmp_path: Path) -> None:
    assert folders.listed(tmp_path) == []
    with pytest.raises(RunNotFound, match="no recorded run here"):
        folders.find(None, tmp_path)


def test_prune(tmp_path: Path) -> None:
    runs = [recorded(tmp_path, number, ended=number != 1) for number in range(5)]
    done = folders.prune(2, lambda item: item.folder == runs[0], tmp_path)
    assert [item.folder for item in done.removed] == [runs[1], runs[2]]
    assert [item.folder for item in done.alive] == [runs[0]]
    assert (done.kept, done.stuck) == (2, ())
    assert sorted(item.folder.name for item in folders.listed(tmp_path)) == sorted(
        run.name for run in (runs[0], runs[3], runs[4])
    )
    assert folders.prune(9, lambda item: False, tmp_path).removed == ()


def test_runs_that_take_much_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (recorded(tmp_path, 1) / "inside" / "1-0.jsonl").write_bytes(b"x" * 20_000)
    assert folders.crowded_bytes(tmp_path) is None
    monkeypatch.setattr(folders, "CROWDED_BYTES", 10_000)
    assert (folders.crowded_bytes(tmp_path) or 0) > 20_000


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "file").write_text("x")
    recorded(tmp_path, 1)
    (tmp_path / ".stoker" / "runs" / "link").symlink_to(treasure)
    done = folders.prune(0, lambda item: False, tmp_path)
    assert [item.folder.name for item in done.stuck] == ["link"]
    assert (treasure / "file").exists()


def test_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recorded(tmp_path, 1, ended=False)
    info = folders.read_info(folder)
    own = liveness.procfs.identify(os.getpid())
    assert own is not None
    assert not liveness.is_alive(folder, info)
    assert not liveness.is_alive(folder, replace(info, stoker_pid=os.getpid(), stoker_start_s=0.0))
    watched = replace(info, stoker_pid=own.pid, stoker_start_s=own.create_time)
    assert liveness.is_alive(folder, watched)
    assert not liveness.is_alive(folder, replace(watched, ended_s=3.0))
    assert liveness.is_alive(folder, replace(info, host="another-machine"))
    assert liveness.is_alive(folder, None), "it may be starting"
    os.utime(folder, (1, 1))
    assert not liveness.is_alive(folder, None)
    monkeypatch.setattr(liveness.procfs, "list_pids", lambda: None)
    assert liveness.is_alive(folder, info), "without /proc it cannot be told"
