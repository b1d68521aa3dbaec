"""Which causes a knob can try out: what the fixes say today, against the knobs there are."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from tests.unit.diagnose.test_causes import FOUND

from stoker.diagnose.verdict import judge
from stoker.model.finding import Finding, Fix
from stoker.trials.knobs import Kind, parse_settings
from stoker.trials.knobs.advised import advised

KNOBS = {
    "SK101": r"num_workers=\d+",
    "SK102": r"num_workers=\d+",
    "SK106": "persistent_workers=on",
    "SK402": "compile=reduce-overhead",
    "SK403": "pin_memory=on,non_blocking=on",
    "SK405": "tf32=on",
}


def finding_of(code: str) -> Finding:
    return next(one for one in judge(FOUND[code]).findings if one.code == code)


@pytest.mark.parametrize("code", sorted(FOUND))
def test_a_fix_is_a_knob_or_code(code: str) -> None:
    found = advised(finding_of(code))
    if code not in KNOBS:
        assert found is None
        return
    assert found is not None
    assert re.fullmatch(KNOBS[code], found)
    assert all(setting.knob.kind is not Kind.DYNAMICS for setting in parse_settings(found, ()))


def test_workers_are_as_many_as_the_fix_says() -> None:
    fix = Fix("more", "DataLoader(data, num_workers=2)", "DataLoader(data, num_workers=12)")
    assert advised(replace(finding_of("SK102"), fixes=(fix,))) == "num_workers=12"


def test_a_loader_that_has_to_be_written_first_has_no_knob() -> None:
    fix = Fix("a loader", "for x in batches:", "for x in DataLoader(data, num_workers=4):")
    assert advised(replace(finding_of("SK101"), fixes=(fix,))) is None


def test_only_the_first_fix_counts() -> None:
    launch = finding_of("SK402")
    assert advised(replace(launch, fixes=launch.fixes[1:])) is None
    assert advised(replace(launch, fixes=())) is None


def test_a_value_no_knob_takes_is_not_advised() -> None:
    fix = Fix("compile", "model = Net()", 'model = torch.compile(Net(), mode="sideways")')
    assert advised(replace(finding_of("SK402"), fixes=(fix,))) is None
