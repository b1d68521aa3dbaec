"""A run's folder, small enough to commit: what `stoker why` reads, without paths of the machine it ran on.

One `.tar.xz` holds the run's files under `run/` and `lab.json`: what was planted, and what was said. Of a run
that two watchers saw (`run.py --both`) the counters of the one with GPM lie in `gpm/gpu.jsonl`.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deep_part import shortened

SCHEMA = "stoker.lab.recording/2"
LIMIT_BYTES = 300_000
"""In tests/recordings at most 60 kB: those are chosen by hand."""
DEEP_SHARES = (1.0, 0.5, 0.2, 0.08, 0.03)
"""Of a deep window, tried one after another until the whole is small enough."""
GPM_COUNTERS = "gpm/gpu.jsonl"


def keep(
    folder: Path, told: Mapping[str, Any], hidden: Mapping[str, str], path: Path, gpm: Path | None = None
) -> int | None:
    """Its size; None where it would be too large even with less of its deep window. `hidden`: texts of this
    machine, and what to write. `gpm`: what the second watcher wrote."""
    for share in DEEP_SHARES:
        content = packed(folder, told, hidden, gpm, share)
        if len(content) <= LIMIT_BYTES:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return len(content)
    return None


def packed(
    folder: Path,
    told: Mapping[str, Any],
    hidden: Mapping[str, str],
    gpm: Path | None = None,
    deep_share: float = 1.0,
) -> bytes:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".json", ".jsonl", ".tsv")
    }
    if deep_share < 1:
        files = shortened(files, deep_share)
        told = {**told, "deep_share": deep_share}
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz", preset=6) as archive:
        _add(archive, "lab.json", json.dumps({"schema": SCHEMA, **told}, indent=1).encode())
        if gpm is not None and gpm.exists():
            _add(archive, GPM_COUNTERS, _without(gpm.read_bytes(), hidden))
        for name, content in files.items():
            _add(archive, f"run/{name}", _without(content, hidden))
    return whole.getvalue()


def unpacked(path: Path, folder: Path) -> tuple[dict[str, Any], Path, Path | None]:
    """What was planted and said, the run's folder, and the counters with GPM where there are two."""
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")
    told: dict[str, Any] = json.loads((folder / "lab.json").read_text("utf-8"))
    gpm = folder / GPM_COUNTERS
    return told, folder / "run", gpm if gpm.exists() else None


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
