"""The iteration, found in the order of events."""

from __future__ import annotations

import random

import pytest

from stoker.diagnose.iteration import RUNS_MAX, Iteration, find_iteration

Runs = list[tuple[int | str, int]]

PPO = [("e", 2048), (0, 320)]
SAC = [("e", 1), (0, 1), (1, 1), (2, 1)]


def shape(found: Iteration | None) -> tuple[dict[int, float], float, bool]:
    assert found is not None
    return found.optimizer_steps, found.env_calls, found.exact


@pytest.mark.parametrize(
    ("sequence", "steps", "env_calls"),
    [
        ([(0, 5000)], {0: 1}, 0),
        ([(0, 1)], {0: 1}, 0),
        ([("e", 700)], {}, 1),
        ([(0, 1), (1, 1)] * 400, {0: 1, 1: 1}, 0),
        ([(0, 5), (1, 1)] * 300, {0: 5, 1: 1}, 0),
        (SAC * 200, {0: 1, 1: 1, 2: 1}, 1),
        ([("e", 1000), *SAC[1:], *(SAC * 200)], {0: 1, 1: 1, 2: 1}, 1),
        ([("e", 1), (0, 1), ("e", 1), (0, 1), (1, 1)] * 200, {0: 2, 1: 1}, 2),
        ([("e", 4), (0, 1)] * 300, {0: 1}, 4),
        ([("e", 1), (0, 20)] * 300, {0: 20}, 1),
        (PPO * 12, {0: 320}, 2048),
        ([*(PPO * 3), ("e", 500)], {0: 320}, 2048),
        ([*(PPO * 2), ("e", 2048), (0, 100)], {0: 320}, 2048),
        ([(0, 1000), (1, 1)] * 20, {0: 1}, 0),
    ],
    ids=[
        "supervised", "one-tick", "env-only", "gan", "wgan", "sac", "sac-after-exploration", "td3",
        "dqn", "many-updates-per-step", "ppo", "ppo-in-the-middle", "ppo-cut-in-updates", "rare-optimizer",
    ],
)  # fmt: skip
def test_shapes(sequence: list[tuple[int | str, int]], steps: dict[int, float], env_calls: float) -> None:
    assert shape(find_iteration(sequence)) == (steps, env_calls, True)


def test_ppo_that_stops_its_epochs_early() -> None:
    """Epochs end when the KL divergence is too large: the number of updates varies."""
    chance = random.Random(3)
    counts = [chance.choice([32, 64, 160, 320]) for _ in range(100)]
    found = find_iteration([run for count in counts for run in (("e", 2048), (0, count))])
    steps, env_calls, exact = shape(found)
    assert not exact
    assert env_calls == 2048
    assert steps[0] == pytest.approx(sum(counts[:-1]) / 99)


def test_episodes_of_varying_length() -> None:
    chance = random.Random(4)
    lengths = [chance.randint(20, 200) for _ in range(80)]
    steps, env_calls, exact = shape(find_iteration([r for n in lengths for r in (("e", n), (0, n))]))
    assert not exact
    assert steps[0] == pytest.approx(env_calls, rel=0.05)


@pytest.mark.parametrize(
    "sequence",
    [[], [("e", 2048), (0, 10)], [("e", 2048), (0, 320), ("e", 3)]],
    ids=["empty", "once", "begun"],
)
def test_too_little_to_tell(sequence: list[tuple[int | str, int]]) -> None:
    assert find_iteration(sequence) is None


def test_no_cycle() -> None:
    chance = random.Random(5)
    kinds: list[int | str] = [0, 1, 2, "e"]
    sequence: list[tuple[int | str, int]] = []
    while len(sequence) < 400:
        kind = chance.choice(kinds)
        if not sequence or sequence[-1][0] != kind:
            sequence.append((kind, chance.randint(1, 9)))
    assert find_iteration(sequence) is None


def test_a_long_training_is_judged_by_its_end() -> None:
    """20,000 runs of the shortest kind, with another shape long ago."""
    old: list[tuple[int | str, int]] = [(1, 3), (2, 1)] * 1000
    assert shape(find_iteration([*old, *(PPO * 9000)])) == ({0: 320}, 2048, True)


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


@pytest.mark.parametrize(
    ("sequence", "row"),
    [
        (SAC * 200, 1),
        (([("e", 10)] + SAC[1:] * 10) * 20, 10),
        ([("e", 1), (0, 1), ("e", 1), (0, 1), (1, 1)] * 200, 1),
        (PPO * 12, 320),
        ([(0, 5000)], None),
        ([("e", 700)], None),
    ],
    ids=["SAC", "every ten steps", "a delayed actor", "PPO", "supervised", "no updates"],
)
def test_updates_in_a_row(sequence: Runs, row: float | None) -> None:
    found = find_iteration(sequence)
    assert found is not None
    assert found.updates_in_a_row == row
