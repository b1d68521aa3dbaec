"""GAN: five critic steps for each generator step (Wasserstein, clipped weights).

Tick: a critic step; `--steps` counts these. Iteration: five ticks and one generator step.
"""

import torch
from tiny_job import Losses, arguments, report
from torch import nn

CRITIC_STEPS = 5


def main() -> None:
    args = arguments(__doc__, steps=400)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    losses = Losses(args.losses)
    critic_steps = generator_steps = 0
    while critic_steps < args.steps:
        real = torch.randn(32, 2) + 2
        fake = generator(torch.randn(32, 4)).detach()
        critic_optimizer.zero_grad()
        loss = critic(fake).mean() - critic(real).mean()
        loss.backward()
        critic_optimizer.step()
        for weight in critic.parameters():
            weight.data.clamp_(-0.1, 0.1)
        losses.add(loss.item())
        critic_steps += 1
        if critic_steps % CRITIC_STEPS == 0:
            generator_optimizer.zero_grad()
            (-critic(generator(torch.randn(32, 4))).mean()).backward()
            generator_optimizer.step()
            generator_steps += 1
    report(ticks=critic_steps, generator_steps=generator_steps, env_steps=0)


if __name__ == "__main__":
    main()
