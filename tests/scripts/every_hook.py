"""Calls everything Stoker listens to, once in each step; the losses do not depend on any of it.

Wants `gym`, `pettingzoo` and `torchrl` (stubs will do) and a part named `__main__:Sim.step`. CUDA is not
needed: NVTX complains and is left alone, a compilation is announced by hand after one that is real.
"""

import gc
import io
import sys
from contextlib import suppress

import cloudpickle
import dill
import gym
import gymnasium
import numpy as np
import torch
from pettingzoo.utils.env import ParallelEnv
from played_graph import captured
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv
from tiny_job import Losses, arguments, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchrl.envs.common import EnvBase

torch.set_num_threads(1)


class OneStep(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        return np.zeros(1, np.float32), {}

    def step(self, action) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros(1, np.float32), 1.0, True, False, {}


class OldStep(gym.Env):
    def step(self, action) -> tuple[int, float, bool, dict]:
        return 0, 0.0, False, {}


class DictStep(EnvBase):
    def _step(self, tensordict: dict) -> dict:
        return tensordict


class ManyStep(ParallelEnv):
    def step(self, actions: dict[str, int]) -> dict[str, float]:
        return dict.fromkeys(actions, 0.0)


class Sim:
    def step(self) -> float:
        return 0.5


class Policy:
    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return np.zeros(len(observation), dtype=int), state


def compilations(count: int) -> None:
    from torch._dynamo.callback import CallbackArgs, CallbackTrigger, callback_handler

    torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(1))
    told = CallbackArgs(CallbackTrigger.DYNAMO, "0/0")
    for _ in range(count - 1):
        callback_handler.run_start_callbacks(told)
        callback_handler.run_end_callbacks(told)


def generation() -> int:
    return 7


def evaluations(loop: object) -> None:
    with suppress(AttributeError, TypeError):  # no trainer behind it
        loop.run(object())


def main() -> None:
    args = arguments(__doc__, steps=40)
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=8, shuffle=True)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    env, old, sim, vec = OneStep(), OldStep(), Sim(), DummyVecEnv([OneStep])
    dicts, many = DictStep(), ManyStep()
    vec.reset()
    loop = sys.modules.get("lightning.pytorch.loops.evaluation_loop")
    other = torch.optim.SGD([nn.Parameter(torch.zeros(1))])
    graph = captured(other.step, lambda: None)
    losses, step = Losses(args.losses), 0
    while step < args.steps:
        for batch, target in loader:
            env.reset()
            env.step(0)
            old.step(0)
            dicts.step({})
            many.step({"agent": 0})
            cloudpickle.dumps(lambda: 0)
            dill.dumps(lambda: 0)
            vec.step(np.zeros(1, dtype=int))
            model.eval().train()
            optimizer.zero_grad()
            with torch.profiler.record_function("my loss"):
                loss = nn.functional.mse_loss(model(batch), target) * sim.step()
            with suppress(RuntimeError):
                torch.cuda.nvtx.range_push("mine")
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            graph.replay()
            assert generation() == 7
            losses.add(loss.item())
            torch.save(step, io.BytesIO())
            gc.collect(0)
            evaluate_policy(Policy(), vec, n_eval_episodes=1, warn=False)
            if loop is not None:
                evaluations(loop._EvaluationLoop)
            step += 1
            if step == args.steps:
                break
    compilations(args.steps)
    report(ticks=step)


if __name__ == "__main__":
    main()
