from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.summary import summarise
from stoker.trials.ab.measuring import window_verdict
from stoker.trials.ab.plan import windows_of

Make = Any


@pytest.mark.parametrize(
    ("compiled_s", "steady", "remark"),
    [
        (0.0, True, "a window too short to be judged steady"),
        (0.5, False, "6% of the 8 s is torch.compile"),
    ],
)
def test_a_short_window_shows_no_compiling(make: Make, compiled_s: float, steady: bool, remark: str) -> None:
    main = summarise(make.run(make.training({"forward": 1.0}, seconds=8))).main
    assert main is not None
    content = replace(main.window.content, phase_s=make.sums(0.0, compile=compiled_s).phase_s)
    main = replace(main, window=replace(main.window, content=content))
    assert window_verdict(main, windows_of(6.0)) == (steady, remark)
