"""Faults of reinforcement learning: environments, acting, replay."""

from __future__ import annotations

import random
from typing import Any

import gymnasium
import numpy as np
import torch
from lab import BATCH, SHARE, TICK_S, WIDTH, Job, Learner, burn


class Toy(gymnasium.Env[np.ndarray, int]):
    """Random observations; a step costs what it is told to."""

    observation_space = gymnasium.spaces.Box(-1, 1, (WIDTH,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, busy_s: float = 0.0) -> None:
        self.busy_s = busy_s
        self.seen = np.zeros(WIDTH, np.float32)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        return self.seen, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.busy_s:
            burn(self.busy_s)
        return self.seen, 0.0, False, False, {}


class ToyOf:
    def __init__(self, busy_s: float) -> None:
        self.busy_s = busy_s

    def __call__(self) -> Toy:
        return Toy(self.busy_s)


def act(learner: Learner, seen: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        chosen: np.ndarray = learner.model(torch.from_numpy(seen)).argmax(1).numpy()
    return chosen


def serial_env(job: Job) -> None:
    envs, cost_s = 4, SHARE[job.dose] * TICK_S
    kind = gymnasium.vector.AsyncVectorEnv if job.fixed else gymnasium.vector.SyncVectorEnv
    vector = kind([ToyOf(cost_s / envs)] * envs)
    learner, x = Learner(WIDTH, 4), torch.randn(BATCH, WIDTH)
    seen, _ = vector.reset()
    while job.going_on():
        actions = act(learner, seen)
        seen = job.injecting(lambda actions=actions: vector.step(actions))[0]
        learner.step(x)
        job.ticked()
    vector.close()


def one_by_one(job: Job) -> None:
    """Many cheap environments, and the policy asked for each of them."""
    envs = (1, 12, 24, 48)[job.dose]
    learner, x = Learner(WIDTH, 4), torch.randn(BATCH, WIDTH)
    vector = gymnasium.vector.SyncVectorEnv([ToyOf(0.0)] * envs)
    singles = [Toy() for _ in range(envs)]
    seen, _ = vector.reset()

    def each() -> None:
        for number, env in enumerate(singles):
            env.step(int(act(learner, seen[number : number + 1])[0]))

    while job.going_on():
        job.injecting(each if not job.fixed else lambda: vector.step(act(learner, seen)))
        learner.step(x)
        job.ticked()


def replay(job: Job) -> None:
    """A buffer of Python lists, put together anew for each update."""
    learner, env = Learner(WIDTH, 4), Toy()
    rows = (1, 24, 48, 96)[job.dose]
    array = np.random.rand(1000, WIDTH).astype(np.float32)
    buffer = [list(map(float, row)) for row in array]
    x = torch.randn(BATCH, WIDTH)

    def sample() -> torch.Tensor:
        picked = random.sample(range(1000), rows)
        return torch.from_numpy(array[picked]) if job.fixed else torch.tensor([buffer[n] for n in picked])

    while job.going_on():
        env.step(0)
        job.injecting(sample)
        learner.step(x)
        job.ticked()
