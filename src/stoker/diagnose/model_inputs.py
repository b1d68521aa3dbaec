"""What the model is given, with gradients and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stoker.model.record import ModelInput, ProcessRecord

LOOKS_MIN = 3


def inputs_within(record: ProcessRecord, start_s: float | None, end_s: float | None) -> Counter[ModelInput]:
    """How often each was seen. In the first seconds it is looked at more often, and what a script does before
    it settles is not what it does later."""
    first_s = float("-inf") if start_s is None else start_s
    last_s = float("inf") if end_s is None else end_s
    within = (row for row in record.seconds if first_s < row.sums.t_s <= last_s)
    return Counter(given for row in within for given in row.inputs)


def one_row_frac(shapes: Mapping[ModelInput, int]) -> float | None:
    """Of the looks into calls without gradients: those with a single row of what is trained in batches. None
    where too few were looked at, or it is trained row by row, too."""
    batches = [given.shape for given in shapes if given.graph and given.shape[0] > 1]
    asks = [(given, looks) for given, looks in shapes.items() if not given.graph]
    acts = any(given.mode == "train" for given, _ in asks)  # else it may act in eval mode
    asked = {given: looks for given, looks in asks if not (acts and given.mode == "eval")}
    looks = sum(asked.values())
    if looks < LOOKS_MIN or not batches:
        return None
    return sum(count for given, count in asked.items() if _is_one_row(given, batches)) / looks


def _is_one_row(given: ModelInput, batches: Sequence[tuple[int, ...]]) -> bool:
    """Or one step of a sequence: what is trained by whole stretches acts step by step. Of a model known to be
    trained any single row: with gradients often a critic is seen, whose inputs are wider."""
    shape = given.shape
    if given.mode and shape[0] == 1 and any(len(shape) == len(batch) for batch in batches):
        return True
    parts = {shape[1:] for shape in batches} | {shape[2:] for shape in batches if len(shape) > 2}
    return shape in parts or (shape[:1] == (1,) and shape[1:] in parts)
