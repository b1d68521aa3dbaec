"""Scripts that look at their process, their loader or their classes find what they would find alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")


@pytest.mark.parametrize("what", ["process", "loader", "pickle"])
def test_it_finds_what_it_would_find_alone(
    watch: Callable[..., Any], bare: Callable[..., Any], scripts: Path, what: str
) -> None:
    plain = bare("python", str(scripts / "particular.py"), what)
    watched = watch("python", str(scripts / "particular.py"), what)
    assert plain.returncode == 0, plain.stderr
    assert (watched.code, watched.out, watched.err) == (0, plain.stdout, plain.stderr)
    assert watched.record.hook_failures == (), "all hooks are in use"
    if what == "loader":
        assert watched.record.last.samples == 30
        assert {(one.length, one.iterable) for one in watched.record.loaders} == {(None, False)}
