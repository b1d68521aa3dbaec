"""Environments of torchrl, which nothing else here needs: `step` is the base class's, with `_step` inside."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stoker.inside import wire
from stoker.inside.hooks.envs import TorchrlHook


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
