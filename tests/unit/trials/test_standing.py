"""What the environment of a guarded trial says about compiled modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.standing import put_up


@pytest.mark.parametrize(("env", "apart"), [({}, True), ({"PYTHONDONTWRITEBYTECODE": "1"}, False)])
def test_compiled_modules_are_kept_apart_only_where_some_are_written(
    env: dict[str, str], apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere those of the installation are found, and torch need not be compiled in every trial."""
    (tmp_path / "shadows").mkdir()
    monkeypatch.setenv("STOKER_SHADOW_BASE", str(tmp_path / "shadows"))
    folder, project = tmp_path / "ab" / "trial0", tmp_path / "project"
    for made in (folder, project):
        made.mkdir(parents=True)
    standing = put_up(GuardMode.REDIRECT, ["python"], env, folder=folder, cwd=project)
    try:
        prefix = standing.env.get("PYTHONPYCACHEPREFIX")
        assert prefix == (str(tmp_path / "ab" / "cache" / "pycache") if apart else None)
        assert standing.env["STOKER_GUARD"] == "redirect"
    finally:
        standing.take_down()
    assert list((tmp_path / "shadows").iterdir()) == []
