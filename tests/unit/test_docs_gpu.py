from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from stoker.diagnose import gpu_view
from stoker.diagnose.gpu_budget import Kind
from stoker.diagnose.summary import summarise
from stoker.model.gpu import SCHEMA, GpuCost, GpuDevice, GpuHeader, GpuReading, RowKind
from stoker.outside.gpu import watching
from stoker.outside.gpu.nvml import NO_GPM
from stoker.report.gpu_data import gpu_data

PAGE = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")


def test_every_field_and_kind_is_documented_and_no_other() -> None:
    table = PAGE.split("### Readings")[1]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted(field.name for field in fields(GpuReading))
    others = [field.name for cls in (GpuHeader, GpuDevice, GpuCost) for field in fields(cls)]
    for name in [*others, *(kind.value for kind in RowKind), SCHEMA]:
        assert f"`{name}`" in PAGE, name


def test_the_figures_on_the_page_are_those_of_the_code() -> None:
    assert (watching.INTERVAL_S, watching.DEAR_S, watching.SHARE_MAX) == (1 / 5, 1.0, 0.008)
    assert "GPM up to five times and all else once a second" in " ".join(PAGE.split())
    assert "0.8 % of a core is the limit" in " ".join(PAGE.split())
    assert f"more than {gpu_view.COPYING_MIN_PCT:g} points above" in PAGE
    assert gpu_view.COPYING_MIN_S == 3.0
    assert "three seconds at least" in " ".join(PAGE.split())
    assert f"Each {watching.STRETCH_AT_BYTES // 2**20} MiB" in PAGE
    assert watching.FIRST_COST_AFTER == 10
    assert f"`{NO_GPM}=1`" in PAGE


def test_every_part_of_the_bar_is_explained() -> None:
    table = PAGE.split("Each second is in one place:")[1].split("The table below it")[0]
    named = {kind.value for kind in Kind} - {Kind.IDLE.value, Kind.LAUNCHING.value} | {"idle: launching"}
    assert named <= set(re.findall(r"`([^`]+)`", table))


def test_every_key_of_a_gpu_in_the_json_is_explained(make: Any, cards: Any) -> None:
    run = cards.run(make, {"env": 1.0}, cards.record(cards.readings(30.0)), None)
    use = summarise(run).trainers[0].gpus.main
    assert use is not None
    text = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")
    table = text.split("`gpu`, of each trainer")[1].split("`steadiness`: `verdict`")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(gpu_data(use))
