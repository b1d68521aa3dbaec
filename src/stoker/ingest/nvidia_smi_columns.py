"""Which column of an `nvidia-smi` CSV is which: by header, by units, or by the shape of plain figures."""

from __future__ import annotations

import re

GPU_COLUMNS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial", "serial")
_UNIT = re.compile(r"\s*\[[^\]]*\]\s*$")
_STAMP = re.compile(r"^\d{4}[-/]\d{2}[-/]\d{2}[ T]\d{2}:\d{2}:\d{2}")
_INTEGER = re.compile(r"^\d{1,3}$")
_FIGURE = re.compile(r"^\d+(?:\.\d+)?$")
_LOOKED_AT = 32
_GUESSED = "no header in this file: columns taken as "

Columns = tuple[list[str], list[str]]


def is_header(line: str) -> bool:
    return "utilization.gpu" in line


def columns_of(head: str) -> Columns | None:
    """Column names and remarks; None if this is no such file or cannot be told apart."""
    lines = [line for line in head.split("\n")[:_LOOKED_AT] if line.strip()]
    if not lines or "," not in lines[0]:
        return None
    if is_header(lines[0]):
        return [_UNIT.sub("", name.strip()) for name in lines[0].split(",")], []
    rows = [[field.strip() for field in line.split(",")] for line in lines]
    if len(rows[-1]) != len(rows[0]):  # the head may end inside a line
        rows.pop()
    rows = [row for row in rows if len(row) == len(rows[0])]
    names = _by_unit(rows[0]) or _by_shape(rows)
    return None if names is None else (names, [_GUESSED + ", ".join(names)])


def _by_unit(row: list[str]) -> list[str] | None:
    """With units a row explains itself: % first is utilisation, MiB first is used, second is total."""
    names, percents, sizes = [], 0, 0
    for place, field in enumerate(row):
        if field.endswith("%"):
            names.append("utilization.gpu" if percents == 0 else f"percent {percents}")
            percents += 1
        elif field.endswith("MiB"):
            names.append(("memory.used", "memory.total")[sizes] if sizes < 2 else f"memory {sizes}")
            sizes += 1
        else:
            names.append(_plain_name(place, field, names))
    return names if percents and len(row) > 1 else None


def _plain_name(place: int, field: str, names: list[str]) -> str:
    if _STAMP.match(field) and "timestamp" not in names:
        return "timestamp"
    if _INTEGER.match(field) and place <= 1 and "index" not in names:
        return "index"
    if field.startswith("GPU-"):
        return "uuid"
    return f"other {place}"


def _by_shape(rows: list[list[str]]) -> list[str] | None:
    """No header, no units: only the queries of which every figure fits are accepted."""
    lead = ["timestamp"] if _STAMP.match(rows[0][0]) else []
    body = [row[len(lead) :] for row in rows]
    if not body[0] or not all(_FIGURE.match(field) for row in body for field in row):
        return None
    for names in (
        ["index", "utilization.gpu", "memory.used", "memory.total", "power.draw"],
        ["index", "utilization.gpu", "memory.used", "memory.total"],
        ["utilization.gpu", "memory.used", "memory.total", "power.draw"],
        ["index", "utilization.gpu", "memory.used"],
    ):
        if len(names) == len(body[0]) and all(_fits(dict(zip(names, row, strict=True))) for row in body):
            return lead + names
    return None


def _fits(row: dict[str, str]) -> bool:
    figures = {name: float(text) for name, text in row.items()}
    if figures["utilization.gpu"] > 100 or figures.get("index", 0) > 63 or "." in row.get("index", ""):
        return False
    used, total = figures["memory.used"], figures.get("memory.total")
    return total is None or (used <= total and total >= 1024)
