"""What the model is given, with gradients and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from stoker.model.record import ModelInput

LOOKS_MIN = 3


def one_row_frac(shapes: Mapping[ModelInput, int]) -> float | None:
    """Of the looks into calls without gradients: those with a single row of what is trained in batches. None
    where too few were looked at, or it is trained row by row, too."""
    batches = [given.shape for given in shapes if given.graph and given.shape[0] > 1]
    asks = [(given, looks) for given, looks in shapes.items() if not given.graph]
    acts = any(given.mode == "train" for given, _ in asks)  # else it may act in eval mode
    asked: Counter[tuple[int, ...]] = Counter()
    for given, looks in asks:
        if not (acts and given.mode == "eval"):
            asked[given.shape] += looks
    looks = asked.total()
    if looks < LOOKS_MIN or not batches:
        return None
    # Of a row, and of one step of a sequence: what is trained by whole stretches acts step by step.
    parts = {shape[1:] for shape in batches} | {shape[2:] for shape in batches if len(shape) > 2}
    rows = parts | {(1, *part) for part in parts}
    return sum(count for shape, count in asked.items() if shape in rows) / looks
