"""stable-baselines3 PPO on CartPole: 2 envs, 64 steps each, then 4 epochs of 4 minibatches.

`--steps` counts env steps, rounded up to whole rollouts of 128. Losses: one line per rollout.
"""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from tiny_job import Losses, arguments, report


class WriteLosses(BaseCallback):
    def __init__(self, losses: Losses) -> None:
        super().__init__()
        self.losses = losses

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        loss = self.logger.name_to_value.get("train/loss")
        if loss is not None:
            self.losses.add(float(loss))


def main() -> None:
    args = arguments(__doc__, steps=1280)
    torch.set_num_threads(1)
    envs = make_vec_env("CartPole-v1", n_envs=2, seed=0)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=32, n_epochs=4, seed=0, device="cpu")
    # One more look after the last update: learn() calls on_rollout_start only before each rollout.
    callback = WriteLosses(Losses(args.losses))
    model.learn(total_timesteps=args.steps, callback=callback, log_interval=None)
    callback._on_rollout_start()
    rollouts = model.num_timesteps // 128
    report(ticks=rollouts * 16, env_steps=model.num_timesteps)


if __name__ == "__main__":
    main()
