"""What the watcher wrote about the GPUs, read back."""

from __future__ import annotations

from pathlib import Path

from stoker.model.gpu import GpuCost, GpuDevice, GpuHeader, GpuMissing, GpuReading, GpuRecord, parse
from stoker.store.rows import json_rows


def read_gpu(folder: Path) -> GpuRecord:
    path = folder / "outside" / "gpu.jsonl"
    if not path.exists():
        return GpuRecord()
    rows = [parsed for row in json_rows(path) if row is not None and (parsed := parse(row)) is not None]
    headers = [row for row in rows if isinstance(row, GpuHeader)]
    return GpuRecord(
        headers[0] if headers else None,
        tuple(row for row in rows if isinstance(row, GpuDevice)),
        tuple(row for row in rows if isinstance(row, GpuReading)),
        tuple(row for row in rows if isinstance(row, GpuMissing)),
        tuple(row for row in rows if isinstance(row, GpuCost)),
    )
