"""Healthy control: levels of tanks are held by PPO of Stable Baselines; all tanks are one vector of arrays.

Tempting: environments stepped by the training thread, a callback in every step, and rollouts and updates
by turns; but a step is a few products for all tanks. A perfect diagnosis: healthy, nothing to mend. The
dose is taken and does nothing; there is no planted line.
"""

import warnings

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv
from stopwatch import Meter

TANKS, STEPS, SEEN = 64, 4, 4


class TankVecEnv(VecEnv):
    def __init__(self):
        space = gym.spaces.Box(-10, 10, (SEEN,), np.float32)
        super().__init__(TANKS, space, gym.spaces.Box(-1, 1, (2,), np.float32))
        self.rng, self.age = np.random.default_rng(0), np.zeros(TANKS, int)
        self.level, self.wanted = self.rng.random((2, TANKS, 2))
        self.infos = [{} for _ in range(TANKS)]

    def look(self):
        return np.hstack([self.level, self.wanted]).astype(np.float32)

    def reset(self):
        return self.look()

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        leak = 0.03 * np.sqrt(self.level[:, ::-1])
        self.level = np.clip(self.level + 0.05 * self.actions - leak + 0.02, 0, 2)
        reward = -np.abs(self.level - self.wanted).sum(1).astype(np.float32)
        self.age += 1
        over = np.zeros(TANKS, bool)
        return self.look(), reward, over, self.infos

    def close(self):
        pass

    def get_attr(self, attr_name, indices=None):
        return [getattr(self, attr_name, None)] * TANKS

    def set_attr(self, attr_name, value, indices=None):
        setattr(self, attr_name, value)

    def env_method(self, method_name, *args, indices=None, **kwargs):
        return [None] * TANKS

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * TANKS


class MeterCallback(BaseCallback):
    """A tick is a rollout and what is learnt from it."""

    def __init__(self, meter):
        super().__init__()
        self.meter, self.begun = meter, False

    def _on_rollout_start(self):
        if self.begun:
            self.meter.ticked()
        self.begun = True

    def _on_step(self):
        return self.meter.going_on()


def main():
    warnings.filterwarnings("ignore")
    meter = Meter(__doc__)
    model = PPO(
        "MlpPolicy",
        TankVecEnv(),
        n_steps=STEPS,
        batch_size=128,
        n_epochs=3,
        policy_kwargs={"net_arch": [128, 128]},
        device=meter.device,
        seed=0,
    )
    # Without one of its own, each call makes a folder for its logs.
    model.set_logger(Logger(None, []))
    model.learn(STEPS * TANKS)
    meter.calibrate(lambda: model.learn(STEPS * TANKS, reset_num_timesteps=False))
    meter.going_on()
    model.learn(10**9, callback=MeterCallback(meter))
    meter.report()


if __name__ == "__main__":
    main()
