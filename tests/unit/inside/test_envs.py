"""How many environments a step is of; and those of torchrl, which nothing else here needs."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Generic, TypeVar

import pytest

from stoker.inside import wire
from stoker.inside.hooks.envs import _ENVS_KNOWN, GymnasiumHook, PettingZooHook, TorchrlHook


@pytest.mark.parametrize(("batch", "envs"), [(0, 1), (1, 1), (8, 8)], ids=["no batch", "one", "eight"])
def test_a_step_of_torchrl_is_timed_once_and_counts_its_batch(driven, batch: int, envs: int) -> None:
    class EnvBase:
        batch_size = SimpleNamespace(numel=lambda: batch)

        def step(self, tensordict: str) -> str:
            driven.clock.advance(0.5)
            return self._step(tensordict)

        def reset(self, tensordict: str | None = None, **options: object) -> str:
            driven.clock.advance(0.25)
            return "start"

    class Around(EnvBase):
        def __init__(self, inner: EnvBase) -> None:
            self.inner = inner

        def _step(self, tensordict: str) -> str:
            return self.inner.step(tensordict)

    class Inner(EnvBase):
        def _step(self, tensordict: str) -> str:
            return f"{tensordict}, stepped"

    recorder = driven.recorder
    TorchrlHook(driven.agent).install_in(SimpleNamespace(EnvBase=EnvBase))
    recorder.adopt()
    env = Around(Inner())
    assert (env.reset(), env.step("state"), env.step(tensordict="state")) == (
        "start",
        *["state, stepped"] * 2,
    )
    assert recorder.totals[wire.ENV] == pytest.approx(2.25)
    assert (recorder.env_calls, recorder.env_steps) == (2, 2 * envs)


def test_a_step_of_pettingzoo_is_one_however_many_agents_act_in_it(driven) -> None:
    agents = TypeVar("agents")

    class ParallelEnv(Generic[agents]):
        def step(self, actions: dict[agents, int]) -> dict[agents, float]:
            raise NotImplementedError

    class AECEnv(Generic[agents]):
        def step(self, action: int) -> None:
            raise NotImplementedError

    PettingZooHook(driven.agent).install_in(SimpleNamespace(ParallelEnv=ParallelEnv, AECEnv=AECEnv))

    class Tag(ParallelEnv[str]):
        def step(self, actions: dict[str, int]) -> dict[str, float]:
            driven.clock.advance(0.5)
            return dict.fromkeys(actions, 1.0)

    class Chess(AECEnv[str]):
        def step(self, action: int) -> None:
            driven.clock.advance(0.25)

    recorder = driven.recorder
    recorder.adopt()
    assert Tag().step({"wolf": 1, "sheep": 2}) == {"wolf": 1.0, "sheep": 1.0}
    Chess().step(3)
    assert recorder.totals[wire.ENV] == pytest.approx(0.75)
    assert (recorder.env_calls, recorder.env_steps) == (2, 2)


class Vector:
    def __init__(self, num_envs: int) -> None:
        self.num_envs = num_envs

    def step(self, action: int) -> int:
        return action


def test_nothing_that_waits_to_be_told_of_keeps_an_environment_alive(driven) -> None:
    """And each kind has its own ids: an environment may lie where an optimizer was."""
    recorder = driven.recorder
    step = GymnasiumHook(driven.agent).wrap_step(Vector.step, counts=True)
    recorder.adopt()
    recorder.thinning.active = True
    driven.step(0.001)
    recorder.thinning.let_go("nobody")
    env = Vector(4)
    recorder.optimizers[id(env)] = 0  # of one that is gone
    gone = weakref.ref(env)
    step(env, 0)
    recorder.replay()
    step(env, 0)
    del env
    assert gone() is None
    recorder.replay()
    assert (recorder.env_calls, recorder.env_steps) == (2, 8)


def test_of_very_many_environments_those_of_several_are_remembered(driven) -> None:
    recorder = driven.recorder
    ends = GymnasiumHook(driven.agent)._counting()
    recorder.adopt()
    many, single = Vector(8), [Vector(1) for _ in range(3 * _ENVS_KNOWN)]
    for env in (many, *single):
        ends(env)
    for env in (many, single[0]):
        ends(id(env))
    assert recorder.env_steps == 8 + len(single) + 8 + 1
    assert len(ends.counts) <= _ENVS_KNOWN
