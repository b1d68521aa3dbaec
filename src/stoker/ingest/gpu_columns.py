"""Regular blocks of GPU rows, cut into columns at once: 700 000 rows a day cannot be taken one by one.

A block is regular when all its rows have the same number of fields and the GPUs come round in the same order.
Anything else is refused as a whole, and the caller goes line by line, where bad lines are found and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stoker.ingest.source import is_absent, number
from stoker.ingest.trace_builder import Collected, larger

_LOOKED_AT = 64

Clock = Callable[[list[bytes], int], float]
"""The time of a row, in seconds; ValueError where it cannot be read."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of the fields in a row."""

    width: int
    gpu: int | None
    util: int
    used: int | None = None
    total: int | None = None


class Figures(dict[bytes, float]):
    """Text to figure; a log has few different ones. ValueError on what is neither a figure nor a blank."""

    def __init__(self, top: float) -> None:
        super().__init__()
        self.top = top

    def __missing__(self, text: bytes) -> float:
        shown = text.decode("ascii", "replace")
        value = number(shown)
        if not is_absent(shown) and (value is None or not 0 <= value <= self.top):
            raise ValueError(shown)
        self[text] = float("nan") if value is None else value
        return self[text]


class GpuColumns:
    """Collects the samples of all GPUs from regular blocks."""

    def __init__(self) -> None:
        self.gpus: dict[str, Collected] = {}
        self.utils = Figures(100.0)
        self.sizes = Figures(1e9)

    def keep(self, fields: list[bytes], rows: int, layout: Layout, clock: Clock | None) -> bool:
        """False, and nothing kept, if the block is not regular."""
        if layout.gpu is None or rows == 0 or len(fields) != rows * layout.width:
            return False
        keys = fields[layout.gpu :: layout.width]
        polled = list(dict.fromkeys(keys[:_LOOKED_AT]))
        if any(set(keys[place :: len(polled)]) != {gpu} for place, gpu in enumerate(polled)):
            return False
        try:
            fresh = [self._column(fields, place, len(polled), layout) for place in range(len(polled))]
            counts = [len(utils) for utils, _, _ in fresh]
            times = _times(fields, counts, clock) if clock else [[] for _ in polled]
        except ValueError:
            return False
        for gpu, (utils, used, total), stamps in zip(polled, fresh, times, strict=True):
            kept = self.gpus.setdefault(gpu.decode("ascii", "replace"), Collected())
            kept.util.extend(utils)
            kept.times.extend(stamps)
            kept.mem_peak, kept.mem_total = larger(kept.mem_peak, used), larger(kept.mem_total, total)
        return True

    def _column(
        self, fields: list[bytes], place: int, polled: int, layout: Layout
    ) -> tuple[list[float], float | None, float | None]:
        base, step = place * layout.width, layout.width * polled
        utils = list(map(self.utils.__getitem__, fields[base + layout.util :: step]))
        used, total = (
            None if column is None else self._peak(fields[base + column :: step])
            for column in (layout.used, layout.total)
        )
        return utils, used, total

    def _peak(self, column: list[bytes]) -> float | None:
        figures = [self.sizes[text] for text in set(column)]
        return max((figure for figure in figures if figure == figure), default=None)


def _times(fields: list[bytes], counts: list[int], clock: Clock) -> list[list[float]]:
    """The GPUs of one poll are asked milliseconds apart, so one clock serves all of them.

    A block may begin in the middle of a poll; the GPUs that come round first in it belong to the poll before.
    """
    stride = len(counts)
    shared = [clock(fields, row * stride) for row in range(counts[0])]
    poll_s = shared[1] - shared[0] if len(shared) > 1 else float("inf")
    every = []
    for place, count in enumerate(counts):
        late = clock(fields, place) - shared[0] > poll_s / 2
        stamps = shared[1 : count + 1] if late else shared[:count]
        every.append(
            stamps if len(stamps) == count else [*stamps, clock(fields, place + (count - 1) * stride)]
        )
    return every
