"""Step rows gathered into sessions: a run that was appended to the file of another starts a new one."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from stoker.ingest.source import json_number
from stoker.model.evidence import StepLog

_LARGEST = 1e15
_STAGE_KEYS = ("time_to_device", "time_forward", "time_loss", "time_backward")
_SAMPLE_KEY = "sample_time_sample_total_mean"


@dataclass
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1


@dataclass
class _Session:
    first_line: int
    epochs: array[int] = field(default_factory=lambda: array("q"))
    iters: array[int] = field(default_factory=lambda: array("q"))
    data: array[float] = field(default_factory=lambda: array("d"))
    steps: array[float] = field(default_factory=lambda: array("d"))
    means: dict[str, _Mean] = field(default_factory=dict)
    detailed: int = 0
    warnings: int = 0
    epochs_closed: int = 0

    def join(self, rest: _Session) -> None:
        for own, more in ((self.epochs, rest.epochs), (self.iters, rest.iters)):
            own.extend(more)
        for figures, others in ((self.data, rest.data), (self.steps, rest.steps)):
            figures.extend(others)
        for key, mean in rest.means.items():
            kept = self.means.setdefault(key, _Mean())
            kept.total, kept.count = kept.total + mean.total, kept.count + mean.count
        self.detailed += rest.detailed
        self.warnings += rest.warnings
        self.epochs_closed += rest.epochs_closed


def _place(session: _Session, row: int) -> tuple[int, int]:
    return session.epochs[row], session.iters[row]


class Sessions:
    def __init__(self) -> None:
        self._all: list[_Session] = []
        self._before = _Session(1)

    def step(self, line: int, epoch: float, iteration: float, data: float, step: float) -> bool:
        if not (abs(epoch) < _LARGEST and abs(iteration) < _LARGEST and 0 <= step < _LARGEST):
            return False
        if data < 0 or data >= _LARGEST:  # nan, a figure that is missing, passes
            return False
        session = self._current(line, int(epoch), int(iteration))
        session.epochs.append(int(epoch))
        session.iters.append(int(iteration))
        session.data.append(data)
        session.steps.append(step)
        return True

    def extend(
        self,
        line: int,
        epochs: array[int],
        iters: array[int],
        data: array[float],
        steps: array[float],
        *,
        ahead: bool,
    ) -> bool:
        """Many rows; `ahead` promises that they only advance, so that they lie in one session."""
        if min(data) < 0 or min(steps) < 0 or max(steps) >= _LARGEST or max(data) >= _LARGEST:
            return False
        if not ahead:
            for offset, row in enumerate(zip(epochs, iters, data, steps, strict=True)):
                self.step(line + offset, *row)
            return True
        session = self._current(line, epochs[0], iters[0])
        session.epochs.extend(epochs)
        session.iters.extend(iters)
        session.data.extend(data)
        session.steps.extend(steps)
        return True

    def _current(self, line: int, epoch: int, iteration: int) -> _Session:
        last = self._all[-1] if self._all else None
        if last is None or (last.iters and (epoch, iteration) <= _place(last, -1)):
            last = _Session(line)
            self._all.append(last)
        return last

    def detail(self, line: int, row: dict[str, object]) -> None:
        """Stage times, nested or flat, and the loader's probe; kept as means of the session of that line."""
        session = next((session for session in reversed(self._all) if session.first_line <= line), None)
        if session is None:
            return
        nested = row.get("stage_times")
        stages = nested if isinstance(nested, dict) else row
        probe = row.get("data_probe")
        figures = {key: stages.get(key) for key in _STAGE_KEYS}
        if isinstance(probe, dict):
            figures |= {key: value for key, value in probe.items() if str(key).endswith("_mean")}
        session.detailed += 1
        for key, value in figures.items():
            session.means.setdefault(str(key), _Mean()).add(json_number(value))

    def warning(self) -> None:
        self._notices.warnings += 1

    def epoch(self) -> None:
        self._notices.epochs_closed += 1

    @property
    def _notices(self) -> _Session:
        """Where warnings and epochs are counted; those before any step belong to the part before this."""
        return self._all[-1] if self._all else self._before

    def take(self, other: Sessions, line_offset: int) -> None:
        """Sessions of the part of the file that follows; its first may be the rest of our last."""
        self._notices.warnings += other._before.warnings
        self._notices.epochs_closed += other._before.epochs_closed
        for session in other._all:
            session.first_line += line_offset
            last = self._all[-1] if self._all else None
            if session is other._all[0] and last and _place(last, -1) < _place(session, 0):
                last.join(session)
            else:
                self._all.append(session)

    def logs(self) -> Iterator[StepLog]:
        for session in self._all:
            means = {key: mean.total / mean.count for key, mean in session.means.items() if mean.count}
            yield StepLog(
                first_line=session.first_line,
                iters=session.iters,
                epochs=session.epochs,
                data_s=session.data,
                step_s=session.steps,
                stage_s={key: means[key] for key in _STAGE_KEYS if key in means},
                sample_s=means.get(_SAMPLE_KEY),
                sample_parts_s={
                    key.removeprefix("sample_time_").removesuffix("_mean"): value
                    for key, value in means.items()
                    if key.startswith("sample_time_") and key != _SAMPLE_KEY
                },
                detailed_rows=session.detailed,
                warnings=session.warnings,
                epochs_closed=session.epochs_closed,
            )
