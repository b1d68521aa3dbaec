from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.diagnose.board import Board, lay_out
from stoker.ingest.folder import collect


@pytest.fixture
def board(tmp_path: Path) -> Callable[..., Board]:
    """Write files (path: content) and lay them out, as `classify` would."""

    def go(files: dict[str, str], **given: float) -> Board:
        for name, content in files.items():
            path = tmp_path / "root" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return lay_out(collect([tmp_path / "root"]).files, given)

    return go


@pytest.fixture
def recorded(recordings: Path) -> Callable[..., Board]:
    def go(*folders: str, **given: float) -> Board:
        return lay_out(collect([recordings / folder for folder in folders]).files, given)

    return go
