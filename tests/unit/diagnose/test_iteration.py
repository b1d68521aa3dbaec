"""The iteration, found in the order of events."""

from __future__ import annotations

import random

import pytest

from stoker.diagnose.iteration import RUNS_MAX, find_iteration

Runs = list[tuple[int | str, int]]
LENGTHS = [random.Random(seed).randint(5, 50) for seed in range(99)]


@pytest.mark.parametrize(
    ("sequence", "steps", "env_calls", "exact"),
    [
        pytest.param([(0, 900)], {0: 1}, 0, True, id="supervised"),
        pytest.param([("e", 900)], {}, 1, True, id="env only"),
        pytest.param([(0, 5), (1, 1)] * 40, {0: 5, 1: 1}, 0, True, id="gan"),
        pytest.param([("e", 64), (0, 16)] * 20, {0: 16}, 64, True, id="ppo"),
        pytest.param([("e", 100)] + [("e", 4), (0, 1)] * 99, {0: 1}, 4, True, id="dqn"),
        pytest.param(
            [("e", 1), (0, 1), ("e", 1), (0, 1), (1, 1), (2, 1)] * 50, {0: 2, 1: 1, 2: 1}, 2, True, id="sac"
        ),
        pytest.param(
            [run for length in LENGTHS for run in (("e", length), (0, 3))],
            pytest.approx({0: 3}),
            pytest.approx(sum(LENGTHS[1:]) / len(LENGTHS[1:]), rel=0.02),
            False,
            id="episodes of different length",
        ),
    ],
)
def test_found(sequence: Runs, steps: dict[int, float], env_calls: float, exact: bool) -> None:
    merged = sequence
    if sequence[0] == ("e", 100):  # the recorder joins equal neighbours
        merged = [("e", 104), *sequence[2:]]
    found = find_iteration(merged)
    assert found is not None
    assert (found.optimizer_steps, found.env_calls, found.exact) == (steps, env_calls, exact)


def test_nothing_seen_or_no_cycle() -> None:
    assert find_iteration([]) is None
    primes = [(n % 3, 1 + n * n % 17) for n in range(10)]
    assert find_iteration(primes) is None or not find_iteration(primes).exact


def test_a_rare_event_does_not_hide_the_cycle() -> None:
    runs: Runs = []
    for number in range(400):
        runs += [("e", 4), (0, 1)]
        if number % 100 == 99:
            runs += [(1, 1)]
    found = find_iteration(runs)
    assert found is not None
    assert found.optimizer_steps[0] / found.env_calls == pytest.approx(0.25, rel=0.02)


def test_long_sequences_are_cut() -> None:
    runs: Runs = [("e", 64), (0, 16)] * (2 * RUNS_MAX)
    found = find_iteration(runs)
    assert found is not None
    assert found.optimizer_steps == {0: 16}
