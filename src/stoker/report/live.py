"""One status line while a training runs."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.model.record import PHASES
from stoker.report.figures import duration, rate

_TAIL_BYTES = 65_536


def status(folder: Path, elapsed_s: float, limit_s: float | None) -> str:
    """The last seconds of the process that has ticked most."""
    parts = [duration(elapsed_s) + (f" of {duration(limit_s)}" if limit_s else "")]
    best = max((_last_rows(path) for path in (folder / "inside").glob("*-*.jsonl")), key=_ticks, default=[])
    if not best or not best[-1]["ticks"]:
        return f"stoker: {parts[0]} · no tick yet"
    before, now = best[0], best[-1]
    if before is now:  # the first row: no speed yet
        return f"stoker: {parts[0]} · {now['ticks']:,} ticks"
    seconds = max(now["t"] - before["t"], 1e-6)
    parts.append(f"{now['ticks']:,} ticks · {rate((now['ticks'] - before['ticks']) / seconds)}/s")
    shares = [(b - a) / seconds for a, b in zip(before["s"], now["s"], strict=True)]
    top = sorted(zip(shares, PHASES, strict=True), reverse=True)[:3]
    parts += [f"{name} {100 * share:.0f} %" for share, name in top]
    return "stoker: " + " · ".join(parts)


def _ticks(rows: list[dict]) -> int:  # type: ignore[type-arg]
    return int(rows[-1]["ticks"]) if rows else -1


def _last_rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    try:
        with path.open("rb") as handle:
            skipped = max(0, path.stat().st_size - _TAIL_BYTES)
            handle.seek(skipped)
            lines = handle.read().split(b"\n")[1 if skipped else 0 :]  # the first one may be cut
        rows = [json.loads(line) for line in lines if line.endswith(b'"k":"second"}')]
    except (OSError, ValueError):
        return []
    return rows[-6:]
