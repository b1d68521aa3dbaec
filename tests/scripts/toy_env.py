"""A Gymnasium environment that costs next to nothing: a point on a line that should stay near zero."""

import gymnasium as gym
import numpy as np

EPISODE_STEPS = 50


class Line(gym.Env):
    observation_space = gym.spaces.Box(-10.0, 10.0, (2,), np.float32)

    def __init__(self, discrete: bool) -> None:
        self.discrete = discrete
        box = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2) if discrete else box

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.speed, self.age = float(self.np_random.uniform(-1, 1)), 0.0, 0
        return self.observation(), {}

    def step(self, action) -> tuple[np.ndarray, float, bool, bool, dict]:
        push = 2.0 * int(action) - 1.0 if self.discrete else float(action[0])
        self.speed = 0.9 * self.speed + 0.1 * push
        self.place += self.speed
        self.age += 1
        fell = abs(self.place) > 5.0
        return self.observation(), -abs(self.place), fell, self.age >= EPISODE_STEPS, {}

    def observation(self) -> np.ndarray:
        return np.array([self.place, self.speed], dtype=np.float32)
