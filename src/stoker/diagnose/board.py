"""All that was gathered from the files, laid out for the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.diagnose.cases import Case, cases_of
from stoker.diagnose.classes import LIMITS, Limits
from stoker.diagnose.gather import gather
from stoker.diagnose.trial import Trial
from stoker.model.evidence import FileReading, LoopProfile


@dataclass(frozen=True, slots=True)
class Board:
    trials: tuple[Trial, ...]
    cases: tuple[Case, ...]
    profiles: tuple[LoopProfile, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """Something the files say that nobody asked them."""

    kind: str
    subjects: tuple[str, ...]
    saw: str
    verdict: str

    @property
    def text(self) -> str:
        return f"{self.saw}: {self.verdict}"


def lay_out(
    files: Sequence[FileReading], given: dict[str, float] | None = None, limits: Limits = LIMITS
) -> Board:
    trials = gather(files, given, limits)
    profiles = tuple(item for reading in files for item in reading.items if isinstance(item, LoopProfile))
    return Board(trials, cases_of(trials, limits), profiles)
