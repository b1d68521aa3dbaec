"""Everything `classify` has to say, as data: from files to one frozen answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.diagnose import missed
from stoker.diagnose.board import Board, Observation, lay_out
from stoker.diagnose.cases import Case
from stoker.diagnose.classes import LIMITS, CaseClass, Limits
from stoker.diagnose.reruns import Rerun, reruns_of
from stoker.diagnose.symptoms import Symptom, symptoms_of
from stoker.diagnose.tallies import MethodAverage, SettingRecord, failure_rates, method_averages
from stoker.diagnose.targets import Target, TargetAnswer, answers_of
from stoker.diagnose.unsaid import unsaid
from stoker.model.evidence import FileReading


@dataclass(frozen=True, slots=True)
class Question:
    """What the user asked for beyond the files themselves."""

    limits: Limits = LIMITS
    given: dict[str, float] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysis:
    board: Board
    files: tuple[FileReading, ...]
    limits: Limits
    methods: tuple[MethodAverage, ...]
    failures: tuple[SettingRecord, ...]
    symptoms: tuple[Symptom, ...]
    targets: tuple[TargetAnswer, ...]
    reruns: tuple[Rerun, ...]
    observations: tuple[Observation, ...]
    unsaid: tuple[str, ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.board.cases

    def of_class(self, wanted: CaseClass) -> tuple[Case, ...]:
        return tuple(case for case in self.cases if case.case_class is wanted)


def analyse(files: Sequence[FileReading], question: Question) -> Analysis:
    board = lay_out(files, question.given, question.limits)
    return Analysis(
        board=board,
        files=tuple(files),
        limits=question.limits,
        methods=method_averages(board.cases),
        failures=failure_rates(board.trials),
        symptoms=symptoms_of(board.cases, question.limits),
        targets=answers_of(board.cases, question.targets),
        reruns=reruns_of(board.trials, board.profiles),
        observations=missed.look(board),
        unsaid=unsaid(board, files),
    )
