"""A large file read by several processes, each a part of its lines; a small one by this process alone.

A million JSON rows cost two seconds of one core. Parts begin and end at line ends, and come back in order.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

_SMALLEST_PART_BYTES = 48 * 1024 * 1024
_MOST_PARTS = 4

Result = TypeVar("Result")


def in_parts(path: Path, work: Callable[[Path, int, int], Result]) -> list[Result]:
    """`work(path, start, end)` for each part. Where processes cannot be had, one part is the whole file."""
    bounds = _bounds(path, path.stat().st_size)
    starts, ends = bounds[:-1], bounds[1:]
    if len(starts) > 1:
        try:
            with ProcessPoolExecutor(len(starts), mp_context=get_context("fork")) as pool:
                return list(pool.map(work, [path] * len(starts), starts, ends))
        except (OSError, BrokenProcessPool, ImportError):
            pass
    return [work(path, 0, bounds[-1])]


def _bounds(path: Path, size: int) -> list[int]:
    parts = max(1, min(len(os.sched_getaffinity(0)), _MOST_PARTS, size // _SMALLEST_PART_BYTES))
    bounds = [0]
    with open(path, "rb") as stream:
        for part in range(1, parts):
            stream.seek(size * part // parts)
            stream.readline(_SMALLEST_PART_BYTES)
            if bounds[-1] < stream.tell() < size:
                bounds.append(stream.tell())
    return [*bounds, size]
