"""Which files of earlier runs are hidden from a trial, and which never."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.trials.guard import outputs
from stoker.trials.guard.mounts import folders_to_cover, mounts_below, parse_mountinfo, without_mounts_below


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "a" / "project"
    for name in ("runs/x", "data", "out"):
        (folder / name).mkdir(parents=True)
    for name in ("train.py", "data/index.pt", "runs/x/best.pt", "pretrained.pt"):
        (folder / name).write_text("", encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["--out", "runs/x"], ["runs/x"]),
        (["--log-dir=runs/x", "output_dir=out"], ["runs/x", "out"]),
        (["--data", "data", "--load_checkpoint", "runs/x/best.pt"], []),
        (["--out_dir", "."], []),
        (["--save_dir", "runs", "--init", "runs/x/best.pt"], []),
        (["--out", "new"], []),
    ],
)
def test_outputs_named_on_the_command_line(cwd: Path, words: list[str], hidden: list[str]) -> None:
    found = outputs.named_outputs(["python", "train.py", *words], cwd)
    assert found == tuple(cwd / name for name in hidden)


def test_words_that_are_no_paths_are_no_inputs(cwd: Path) -> None:
    """The text of `python -c` is longer than a name may be."""
    text = "import torch; " * 40
    assert outputs.named_inputs(["python", "-c", text, "data"], cwd) == (cwd / "data",)


def test_a_complaint_names_what_is_to_be_hidden(cwd: Path) -> None:
    said = f"FileExistsError: [Errno 17] File exists: '{cwd / 'runs/x'}'\nuses /run and /home, which exist"
    assert outputs.refused(said, cwd) == (cwd / "runs/x",)
    assert outputs.refused("out already exists.", cwd) == (cwd / "out",)
    assert outputs.refused("train.py exists", cwd, [cwd / "train.py"]) == ()
    assert outputs.refused(f"reading {cwd / 'data'}", cwd) == ()


def test_what_was_hidden_and_is_missed(cwd: Path) -> None:
    hidden = [cwd / "out", cwd / "runs/x/best.pt", cwd / "pretrained.pt"]
    assert outputs.missed(f"[Errno 2] No such file or directory: '{cwd}/pretrained.pt'", hidden) == (
        hidden[2],
    )
    assert outputs.missed("FileNotFoundError: out/vocab.json", hidden) == (hidden[0],)
    assert outputs.missed("not found: output.pt", hidden) == ()
    assert outputs.missed("best.pt already exists", hidden) == ()


def test_only_checkpoints_written_over_are_hidden(cwd: Path) -> None:
    written = [str(cwd / "runs/x/best.pt"), str(cwd / "runs/x/new.pt"), str(cwd / "train.py")]
    assert outputs.overwritten(written) == (cwd / "runs/x/best.pt",)


def test_mounts_are_covered_beside_the_way_to_the_shadow() -> None:
    text = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / /proc rw - proc proc rw\n"
        "3 1 8:2 / /home rw - ext4 /dev/sdb rw\n4 3 0:9 / /home/me/disk\\040two rw - nfs srv rw\n"
        "5 1 8:3 / /ro ro - ext4 /dev/sdc ro\n"
    )
    mounted = parse_mountinfo(text)
    tree = {"/": ["home", "proc", "var", "ro", "usr", "opt"], "/var": ["log", "tmp"], "/var/tmp": ["s", "x"]}
    covered = folders_to_cover("/var/tmp/s", lambda folder: tree.get(folder, []), mounted, root=False)
    assert covered == ["/home", "/opt", "/var/log", "/var/tmp/x"]
    assert [mount.path for mount in mounts_below(covered, mounted)] == ["/home/me/disk two"]
    tree |= {"/home": ["me"], "/home/me": ["disk two", "project"]}
    apart = without_mounts_below(covered, lambda folder: tree.get(folder, []), mounted)
    assert apart == ["/home/me/disk two", "/home/me/project", "/opt", "/var/log", "/var/tmp/x"]


def test_a_checkpoint_of_its_own_is_no_earlier_run(tmp_path: Path) -> None:
    """Loaded again to test it, say: not in the real tree, or hidden from the trial."""
    old, hidden = tmp_path / "old.pt", tmp_path / "run" / "best.pt"
    hidden.parent.mkdir()
    for path in (old, hidden):
        path.write_bytes(b"x")
    loaded = [old, hidden, tmp_path / "new.pt"]
    assert outputs.seen_by_trial(loaded, [hidden.parent]) == (old,)
    assert outputs.seen_by_trial(loaded, []) == (old, hidden)


def test_what_could_not_be_watched_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "resumed.7.json").write_text('{"loaded": ["/a/last.pt", 3]}', encoding="utf-8")
    (tmp_path / "resumed.8.json").write_text('{"loa', encoding="utf-8")
    (tmp_path / "unwatched.7.json").write_text('{"reason": "no load"}', encoding="utf-8")
    assert outputs.resumed_from(tmp_path) == (Path("/a/last.pt"),)
    (note,) = outputs.unwatched(tmp_path)
    assert note.endswith("cannot be told: no load")
