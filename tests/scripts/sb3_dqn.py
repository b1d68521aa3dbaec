"""stable-baselines3 DQN on CartPole: trains every 4 env steps, copies the target every 200.

`--steps` counts env steps, the first 100 without training. Losses: one line per optimizer step.
"""

import torch
from stable_baselines3 import DQN
from tiny_job import Losses, arguments, report


class WritingDQN(DQN):
    """DQN that writes its loss after each training call (one gradient step each)."""

    losses: Losses

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        super().train(gradient_steps, batch_size)
        self.losses.add(float(self.logger.name_to_value["train/loss"]))


def main() -> None:
    args = arguments(__doc__, steps=1500)
    torch.set_num_threads(1)
    model = WritingDQN(
        "MlpPolicy",
        "CartPole-v1",
        buffer_size=5000,
        learning_starts=100,
        train_freq=4,
        target_update_interval=200,
        seed=0,
        device="cpu",
    )
    model.losses = Losses(args.losses)
    model.learn(total_timesteps=args.steps, log_interval=None)
    report(ticks=model._n_updates, env_steps=model.num_timesteps)


if __name__ == "__main__":
    main()
