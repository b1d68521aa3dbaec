"""gpu.csv of the bench: eight floats a sample, no header, no clock, separated by a backslash and an `n`.

The bench writes the two characters `\\n` where it means a new line, so its file is one line; both are read.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import GpuTrace, Stage

_FIELDS_PER_GPU = 4
_FLOAT = r"-?\d+(?:\.\d+)?"
_SAMPLE = re.compile(rf"{_FLOAT}(?:,{_FLOAT}){{7}}")
# The bench sleeps one second and then asks nvidia-smi, and drops the first 20 samples when there are more.
_POLL_S = 1.0
_DROPPED = 20
_LARGEST = 1e9


def recognise(source: Source) -> bool:
    pieces = [piece for piece in re.split(r"\\n|\n", source.head)[:20] if piece.strip()]
    fitting = sum(bool(_SAMPLE.fullmatch(piece.strip())) for piece in pieces)
    return bool(pieces) and bool(_SAMPLE.fullmatch(pieces[0].strip())) and fitting * 2 > len(pieces)


def read(source: Source) -> Reading:
    ledger = Ledger()
    samples = [sample for number, piece in _pieces(source) if (sample := _sample(number, piece, ledger))]
    traces = tuple(_trace(gpu, samples) for gpu in range(2)) if samples else ()
    note = "gpu.csv has no clock: one sample is taken to be one second (the bench's own poll)"
    return Reading(traces, ledger, (note,) if traces else ())


def _pieces(source: Source) -> Iterator[tuple[int, str]]:
    """Samples, numbered from 1: the file has only one line, so a line number would say nothing."""
    number, rest = 1, ""
    for _, line in source.lines():
        *whole, rest = (rest + line).split("\\n")
        if not rest.endswith("\\"):  # a real newline ended the sample; otherwise an over-long line was cut
            whole.append(rest)
            rest = ""
        for piece in whole:
            if piece.strip():
                yield number, piece
                number += 1
    if rest.strip():
        yield number, rest


def _sample(number: int, piece: str, ledger: Ledger) -> list[float] | None:
    if not _SAMPLE.fullmatch(piece.strip()):
        ledger.add(number, "a sample is eight numbers", piece)
        return None
    values = [float(field) for field in piece.split(",")]
    if any(not 0 <= values[gpu * _FIELDS_PER_GPU] <= 100 for gpu in range(2)) or max(values) > _LARGEST:
        ledger.add(number, "utilisation outside 0-100, or a figure beyond any card", piece)
        return None
    return values


def _trace(gpu: int, samples: list[list[float]]) -> GpuTrace:
    util, used, total = (gpu * _FIELDS_PER_GPU + offset for offset in range(3))
    return GpuTrace(
        gpu=str(gpu),
        util_pct=array("f", (sample[util] for sample in samples)),
        poll_s=_POLL_S,
        mem_peak_mib=max(sample[used] for sample in samples),
        mem_total_mib=max(sample[total] for sample in samples),
        stage=Stage.PROBE,
        warm_up_samples=_DROPPED if len(samples) > _DROPPED else 0,
    )
