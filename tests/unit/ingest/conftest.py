from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.ingest.folder import format_of
from stoker.ingest.source import Reading, open_source


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[str, Reading]]:
    """Write content to a file of a meaningless name, and read it as `classify` would."""

    def go(content: str | bytes, name: str = "file.bin") -> tuple[str, Reading]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        source = open_source(path)
        assert source is not None
        known = format_of(source)
        assert known is not None, "no format recognised it"
        return known.name, known.read(source)

    return go
