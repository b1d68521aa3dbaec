"""A setting that no code could read."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.trials.knobs.words import Unread, unread

SET = """
CONFIG = {
    "lr_decay": 0.1,
}
lr_decay = 0.1
lr_decay: float = 0.1
old_lr_decay, lr_decays = 1, 2
"""
DECLARED = """
parser.add_argument("--lr-decay", type=float)
"""


@pytest.mark.parametrize("name", ["lr_decay", "optim.lr_decay", "--lr_decay"])
def test_a_name_that_is_only_set_is_read_by_nobody(tmp_path: Path, name: str) -> None:
    (tmp_path / "train.py").write_text(SET)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "model.py").write_text("lr = 1")
    (tmp_path / "notes.txt").write_text("print(lr_decay)")
    found = unread(name, (str(tmp_path / "train.py"), str(tmp_path / "package")))
    assert found == Unread(2, proven=False), "a sign, no proof"


def test_a_flag_that_is_declared_and_not_read_is_dead(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DECLARED + 'getattr(args, "other")')
    assert unread("--lr-decay", (str(tmp_path),)) == Unread(1, proven=True)


@pytest.mark.parametrize(
    "line",
    [
        'getattr(args, f"{part}_decay")',
        "setattr(sim.physics, key, value)",
        "train(**vars(args))",
        "args.__dict__.items()",
        'parser.add_argument("--other", dest="lr")',
    ],
)
def test_code_that_takes_things_by_any_name_leaves_a_doubt(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(DECLARED + line)
    assert unread("--lr-decay", (str(tmp_path),)) == Unread(1, proven=False)


@pytest.mark.parametrize(
    "line",
    [
        "args.lr_decay",
        'cfg["lr_decay"]',
        "lr_decay = cfg.lr_decay",
        '    "lr_decay": args.lr_decay,',
        "def schedule(optimizer, lr_decay): ...",
        "if lr_decay == 3: ...",
        "rate = 1-lr_decay",
        'parser.add_argument("--decay", dest="lr_decay")',
        "# lr_decay is not used",
    ],
)
def test_any_other_place_may_read_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(SET + DECLARED + line)
    assert unread("--lr-decay", (str(tmp_path),)) is None


def test_what_cannot_be_looked_at_is_not_told(tmp_path: Path) -> None:
    assert unread("lr_decay", ()) is None
    assert unread("lr_decay", (str(tmp_path),)) is None, "no file of code"
    (tmp_path / "train.py").write_text("pass")
    assert unread("lr_decay", (str(tmp_path), "/an/egg.zip/package/x.pyc")) is None
    for name in ("xy", "--no-norm-adv", "++width", "data/augment"):
        assert unread(name, (str(tmp_path),)) is None, name
