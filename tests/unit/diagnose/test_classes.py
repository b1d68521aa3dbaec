"""The table of limits, at and around each of them."""

from __future__ import annotations

import pytest

from stoker.diagnose.classes import LIMITS, CaseClass, Figures, judge


@pytest.mark.parametrize(
    ("util", "memory", "total", "expected"),
    [
        (50.0, 23000.0, None, CaseClass.VRAM_BOUND),
        (50.0, 22999.0, None, CaseClass.BALANCED),
        (70.0, 24000.0, None, CaseClass.VRAM_BOUND),
        (60.0, 5000.0, None, CaseClass.COMPUTE_HEAVY),
        (59.99, 5000.0, None, CaseClass.BALANCED),
        (45.0, 5000.0, None, CaseClass.BALANCED),
        (44.99, 5000.0, None, CaseClass.THROUGHPUT_BOUND),
        (44.99, 15000.0, None, CaseClass.THROUGHPUT_BOUND),
        (50.0, 24000.0, 81920.0, CaseClass.BALANCED),
        (50.0, 77000.0, 81920.0, CaseClass.VRAM_BOUND),
        (50.0, 7700.0, 8192.0, CaseClass.VRAM_BOUND),
        (None, 24000.0, None, CaseClass.UNCLASSIFIABLE),
    ],
)
def test_limits_absolute_and_relative(util, memory, total, expected):
    assert judge(Figures(util, memory, total)).case_class is expected


def test_unknown_memory_gives_a_class_and_says_so():
    judgement = judge(Figures(30.0))
    assert (judgement.case_class, judgement.memory_known) == (CaseClass.THROUGHPUT_BOUND, False)
    assert "memory unknown" in judgement.why


def test_no_utilisation_says_what_is_missing():
    assert judge(Figures(None)).why == "no utilisation in this file"


def test_too_few_samples_are_no_class():
    assert judge(Figures(50.0, 1.0, 2.0, samples=9)).case_class is CaseClass.UNCLASSIFIABLE
    assert judge(Figures(50.0, 1.0, 2.0, samples=10)).case_class is CaseClass.BALANCED


@pytest.mark.parametrize(("util", "near"), [(43.0, 45.0), (42.9, None), (61.9, 60.0), (52.0, None)])
def test_near_a_limit(util, near):
    assert judge(Figures(util, 1.0)).near_limit_pct == near


def test_limits_can_be_overridden():
    limits = LIMITS.with_overrides({"util_low_pct": 20.0})
    assert judge(Figures(30.0), limits).case_class is CaseClass.BALANCED
