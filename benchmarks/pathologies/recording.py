"""A run's folder, small enough to commit: what `stoker why` reads, without paths of the machine it ran on.

One `.tar.xz` holds the run's files under `run/` and `lab.json`: what was planted, and what was said.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = "stoker.lab.recording/1"
LIMIT_BYTES = 60_000


def keep(folder: Path, told: Mapping[str, Any], hidden: Mapping[str, str], path: Path) -> int | None:
    """Its size; None where it would be too large. `hidden`: texts of this machine, and what to write."""
    content = packed(folder, told, hidden)
    if len(content) > LIMIT_BYTES:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return len(content)


def packed(folder: Path, told: Mapping[str, Any], hidden: Mapping[str, str]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz", preset=9) as archive:
        _add(archive, "lab.json", json.dumps({"schema": SCHEMA, **told}, indent=1).encode())
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in (".json", ".jsonl", ".tsv"):
                _add(archive, f"run/{path.relative_to(folder)}", _without(path.read_bytes(), hidden))
    return whole.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)  # no owner, no time: the same run gives the same file
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def _without(content: bytes, hidden: Mapping[str, str]) -> bytes:
    for text, instead in sorted(hidden.items(), key=lambda item: -len(item[0])):
        if text:
            content = content.replace(text.encode(), instead.encode())
    return content


def hidden_texts(root: Path, folder: Path, host: str) -> dict[str, str]:
    """Paths of this machine. The name of the host only as a whole value: it may be a part of words."""
    texts = {str(root): "/lab", str(folder): "/run", sys.prefix: "/venv", sys.base_prefix: "/python"}
    return {**texts, str(Path.home()): "/home/me", f'"host": "{host}"': '"host": "lab"'}
