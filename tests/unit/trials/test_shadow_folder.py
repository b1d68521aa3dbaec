"""What a trial wrote, as its shadow folder has it."""

from __future__ import annotations

from pathlib import Path

from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.shadow_folder import written_paths


def layer(shadow: Path, number: int) -> Path:
    found = shadow / "layers" / str(number)
    (found / "upper").mkdir(parents=True)
    return found


def test_a_trial_that_ended_while_its_guard_was_set_up_wrote_nothing(tmp_path: Path) -> None:
    """A Ctrl-C comes at any moment: the last layer has no name yet."""
    covered = tmp_path / "home"
    first = layer(tmp_path / "shadow", 1)
    (first / "of").write_text(str(covered))
    (first / "upper" / "model.pt").write_text("weights")
    layer(tmp_path / "shadow", 2)
    (layer(tmp_path / "shadow", 3) / "of").touch()
    assert list(written_paths(tmp_path / "shadow", GuardMode.OVERLAY)) == [str(covered / "model.pt")]
