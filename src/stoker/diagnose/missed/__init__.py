"""What the numbers say beyond their authors' reading. One file per detector, one visible list.

A detector is a function from the board to observations; it says nothing where it knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.diagnose.board import Board, Observation
from stoker.diagnose.missed import (
    budget_not_run,
    gate_too_kind,
    gpu_pair,
    idle_per_sample,
    loader_supply,
    log_aliasing,
    memory_per_env,
    one_variant,
    probe_against_long,
    repeats_disagree,
    stall_rhythm,
    update_interval,
    utilisation_not_speed,
    window_gaps,
)

DETECTORS: tuple[Callable[[Board], list[Observation]], ...] = (
    utilisation_not_speed.look,
    loader_supply.look,
    log_aliasing.look,
    stall_rhythm.look,
    gate_too_kind.look,
    repeats_disagree.look,
    budget_not_run.look,
    memory_per_env.look,
    idle_per_sample.look,
    probe_against_long.look,
    gpu_pair.look,
    window_gaps.look,
    update_interval.look,
    one_variant.look,
)


def look(board: Board) -> tuple[Observation, ...]:
    return tuple(observation for detector in DETECTORS for observation in detector(board))
