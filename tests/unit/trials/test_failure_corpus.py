"""The corpus itself, and the classes on the part of it they were made with."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from stoker.ingest.failure_signatures import signature_in
from stoker.model.exit import EndedBy, Exit
from stoker.model.failure import FailureClass
from stoker.model.record import ProcessRecord, Raised
from stoker.trials.failures import classify_failure
from stoker.trials.failures.actions import ACTIONS
from stoker.trials.failures.signatures import names_a_root

SCORE = Path(__file__).parents[3] / "benchmarks" / "failures" / "score.py"
FAILED = Exit(1, None, EndedBy.ITSELF)


def scorer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("failure_score", SCORE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["failure_score"] = module
    spec.loader.exec_module(module)
    return module


def test_the_corpus_is_large_and_mixed_enough() -> None:
    tails = scorer().corpus()
    assert len(tails) >= 60
    assert sum(tail.origin.startswith("provoked") for tail in tails) >= 40
    assert sum(bool(tail.looks_like) for tail in tails) >= 10
    counted = Counter(tail.kind for tail in tails)
    assert {kind: counted[kind] for kind in FailureClass if counted[kind] < 3} == {}


def test_classes_are_right_on_both_parts() -> None:
    """The held-out part was scored once, before it was put into this test; see benchmarks/failures."""
    score = scorer()
    for held_out in (False, True):
        tails = [tail for tail in score.corpus() if tail.held_out == held_out]
        wrong = [f"{tail.name}: {score.given(tail)}" for tail in tails if score.given(tail) != tail.kind]
        assert len(wrong) <= 0.05 * len(tails), wrong


def test_every_class_has_its_action() -> None:
    assert set(ACTIONS) == set(FailureClass)


def test_a_good_end_is_no_failure_and_a_signal_of_the_user_is_one() -> None:
    assert classify_failure("CUDA out of memory", Exit(0, None, EndedBy.ITSELF)) is None
    assert classify_failure("", Exit(None, 15, EndedBy.TIME_LIMIT)) is None
    by_user = classify_failure("", Exit(None, 2, EndedBy.USER))
    assert by_user is not None
    assert by_user.kind is FailureClass.INTERRUPTED


def test_losses_that_went_to_nan_are_a_failure_of_a_trial_that_ended_well() -> None:
    log = "\n".join(f"step {i} loss {'nan' if i > 3 else 1.0 / (i + 1)}" for i in range(9))
    failure = classify_failure(log, Exit(None, 15, EndedBy.TIME_LIMIT))
    assert failure is not None
    assert failure.kind is FailureClass.NUMERIC


def test_what_was_raised_inside_is_better_than_the_log() -> None:
    raised = Raised(
        "OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB", "out of memory", "a.py", 3
    )
    record = ProcessRecord(1, 0, "3.12", "2.11", (), 0.0, None, 1, 2, raised=raised)
    failure = classify_failure("KeyError: 'x'", FAILED, [record])
    assert failure is not None
    assert failure.kind is FailureClass.GPU_OOM


def test_killed_by_the_kernel_for_memory() -> None:
    killed = Exit(None, 9, EndedBy.ITSELF)
    told = classify_failure("step 1", killed, oom_killed=True)
    untold = classify_failure("step 1", killed)
    assert told is not None
    assert untold is not None
    assert (told.kind, untold.kind) == (FailureClass.HOST_OOM, FailureClass.CRASH)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NCCL version 2.27.5+cuda12.9", None),
        ("tip: if you see CUDA out of memory, use a smaller batch", None),
        ("RuntimeError: CUDA error: out of memory", FailureClass.GPU_OOM),
    ],
)
def test_a_plain_line(line: str, kind: FailureClass | None) -> None:
    row = signature_in(line, said_by_exception=False)
    assert (row.kind if row else None) == kind


def test_a_root_in_a_log_that_went_on_is_none() -> None:
    died = "step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried"
    assert names_a_root(died)
    assert not names_a_root(died + "\nstep 2 loss 0.3")
