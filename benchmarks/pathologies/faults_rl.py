"""Faults of reinforcement learning: environments, acting, replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from lab import WIDTH, Job, Learner, burn, learning, repeats


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
            burn(self.busy_s)  # planted
        return self.seen, 0.0, False, False, {}


class ToyOf:
    def __init__(self, busy_s: float) -> None:
        self.busy_s = busy_s

    def __call__(self) -> Toy:
        return Toy(self.busy_s)


def act(learner: Learner, seen: np.ndarray, device: str = "cpu") -> np.ndarray:
    with torch.no_grad():
        chosen: np.ndarray = learner.model(torch.from_numpy(seen).to(device)).argmax(1).cpu().numpy()
    return chosen


def serial_env(job: Job, after: Callable[[], Any] | None = None) -> None:
    envs = 4
    kind = gymnasium.vector.AsyncVectorEnv if job.fixed else gymnasium.vector.SyncVectorEnv
    vector = kind([ToyOf(job.serial_s / envs)] * envs)
    learner, x = learning(job, outputs=4)
    seen, _ = vector.reset()
    while job.going_on():
        actions = act(learner, seen, job.device)
        seen = job.injecting(lambda actions=actions: vector.step(actions))[0]  # planted serial_env
        learner.step(x)
        job.ticked()
        if after is not None:
            job.injecting(after)
    vector.close()


def one_by_one(job: Job) -> None:
    """Many cheap environments, and the policy asked for each of them."""
    envs = (1, 12, 24, 48)[job.dose] * (3 if job.cuda else 1)
    learner, x = learning(job, outputs=4)
    vector = gymnasium.vector.SyncVectorEnv([ToyOf(0.0)] * envs)
    singles = [Toy() for _ in range(envs)]
    seen, _ = vector.reset()

    def each() -> None:
        for number, env in enumerate(singles):
            action = act(learner, seen[number : number + 1], job.device)  # planted one_by_one
            env.step(int(action[0]))

    while job.going_on():
        job.injecting(each if not job.fixed else lambda: vector.step(act(learner, seen, job.device)))
        learner.step(x)
        job.ticked()


def replay(job: Job) -> None:
    """A buffer of Python lists, put together anew for each update."""
    learner, x = learning(job, outputs=4)
    env = Toy()
    array = np.random.rand(1000, WIDTH).astype(np.float32)
    buffer = [list(map(float, row)) for row in array]
    rows = (1, 24, 48, 96)[job.dose]
    if job.cuda:
        rows = 8 * repeats(lambda: torch.tensor(buffer[:8]), job.planned_s)

    def sample() -> torch.Tensor:
        picked = random.choices(range(1000), k=rows)
        if job.fixed:
            return torch.from_numpy(array[picked])
        return torch.tensor([buffer[n] for n in picked])  # planted replay

    while job.going_on():
        env.step(0)
        job.injecting(sample)
        learner.step(x)
        job.ticked()


def turns(job: Job) -> None:
    """Environments in processes of their own; the learner waits for them, then they for the learner."""
    vector = gymnasium.vector.AsyncVectorEnv([ToyOf(job.serial_s)] * 2)
    learner, x = learning(job, outputs=4)
    seen, _ = vector.reset()
    while job.going_on():
        actions = act(learner, seen, job.device)
        if job.fixed:  # the update runs beside the environments
            vector.step_async(actions)
            learner.step(x)
            seen = job.injecting(vector.step_wait)[0]
        else:
            seen = job.injecting(lambda actions=actions: vector.step(actions))[0]  # planted turns
            learner.step(x)
        job.ticked()
    vector.close()
