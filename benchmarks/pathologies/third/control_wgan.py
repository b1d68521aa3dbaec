"""Healthy control: a Wasserstein GAN with two optimizers, data on the GPU, large convolutions.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
from stopwatch import Meter
from torch import nn


class Up(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(
            nn.Upsample(scale_factor=2),
            nn.Conv2d(c_in, c_out, 3, padding=1),
            nn.BatchNorm2d(c_out),
            nn.ReLU(),
        )


class Down(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(nn.Conv2d(c_in, c_out, 3, padding=1), nn.LeakyReLU(0.2), nn.AvgPool2d(2))


class Generator(nn.Module):
    def __init__(self, noise, width):
        super().__init__()
        self.start = nn.Linear(noise, 16 * 4 * width)
        self.ups = nn.Sequential(Up(4 * width, 2 * width), Up(2 * width, width), Up(width, width))
        self.rgb = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, z):
        x = self.start(z).unflatten(1, (-1, 4, 4)).contiguous(memory_format=torch.channels_last)
        return torch.tanh(self.rgb(self.ups(x)))


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.downs = nn.Sequential(Down(3, width), Down(width, 2 * width), Down(2 * width, 4 * width))
        self.score = nn.Linear(16 * 4 * width, 1)

    def forward(self, x):
        return self.score(self.downs(x).flatten(1)).float()


class WGAN:
    def __init__(self, meter):
        self.meter, self.noise = meter, 128
        self.bs, width = meter.pick((512, 256), (4, 8))
        self.g = Generator(self.noise, width).to(meter.device, memory_format=torch.channels_last)
        self.c = Critic(width).to(meter.device, memory_format=torch.channels_last)
        self.opt_g = torch.optim.RMSprop(self.g.parameters(), 5e-5, foreach=True)
        self.opt_c = torch.optim.RMSprop(self.c.parameters(), 5e-5, foreach=True)
        self.real = torch.rand(4 * self.bs, 3, 32, 32, device=meter.device)
        self.real = self.real.to(memory_format=torch.channels_last)

    def fakes(self):
        return self.g(torch.randn(self.bs, self.noise, device=self.meter.device))

    def critic_step(self, real):
        with self.meter.autocast():
            with torch.no_grad():
                fake = self.fakes()
            loss = self.c(fake).mean() - self.c(real).mean()
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        with torch.no_grad():
            for p in self.c.parameters():
                p.clamp_(-0.02, 0.02)

    def generator_step(self):
        with self.meter.autocast():
            loss = -self.c(self.fakes()).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()

    def round(self, ticked):
        for real in self.real.split(self.bs):
            self.critic_step(real)
            ticked()
        self.generator_step()
        ticked()


def main():
    meter = Meter(__doc__)
    gan = WGAN(meter)
    meter.calibrate(lambda: gan.round(lambda: None))
    meter.healthy_s /= 5
    while meter.going_on():
        gan.round(meter.ticked)
    meter.report()


if __name__ == "__main__":
    main()
