"""A humanoid with adversarial motion priors; the discriminator comes from an earlier run, loaded to the CPU.

How many transitions it judges is the dose. A perfect diagnosis: a part of the model computes on the CPU, and
the GPU waits for its rewards (marked below). Fix: the discriminator moves to the policy's device.
"""

import io

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, ACTIONS = 30, 12


class Discriminator(nn.Module):
    """Was this step taken by an actor or by the robot?"""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 * STATE, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
                                    nn.Linear(128, 1))  # fmt: skip

    def forward(self, transitions):
        return self.layers(transitions)[:, 0]


def earlier_run():
    """Its file, as `torch.save` left it."""
    file = io.BytesIO()
    torch.save(Discriminator().state_dict(), file)
    file.seek(0)
    return file


def resume(file):
    discriminator = Discriminator()
    discriminator.load_state_dict(torch.load(file, map_location="cpu"))
    return discriminator


class StyleReward:
    def __init__(self, discriminator):
        self.net = discriminator
        self.device = next(discriminator.parameters()).device
        self.optimizer = torch.optim.SGD(discriminator.parameters(), 1e-3)
        self.actor = torch.randn(256, 2 * STATE, device=self.device)

    def __call__(self, transitions):
        transitions = transitions.to(self.device)
        robot, actor = self.net(transitions), self.net(self.actor)  # planted
        loss = F.softplus(robot).mean() + F.softplus(-actor).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return (1 - 0.25 * (robot.detach() - 1).square()).clamp(min=0)


class Policy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(STATE, width), nn.Linear(width, ACTIONS + STATE)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, state):
        h = self.enter(state)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float().split((ACTIONS, STATE), 1)


class Imitation:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.policy = Policy(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), 1e-5, fused=meter.gpu)
        self.state = torch.randn(self.rows, STATE, device=meter.device)
        self.judged = 64

    def step(self, style):
        with self.meter.autocast():
            action, after = self.policy(self.state)
        transitions = torch.cat([self.state, after.detach()], 1)
        reward = style(transitions.repeat(-(-self.judged // self.rows), 1)[: self.judged])
        reward = reward.to(self.meter.device).mean()
        loss = reward * action.square().mean() + F.mse_loss(after, self.state)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def transition_s(meter, style):
    """One transition more, on the CPU."""
    times = []
    for count in (256, 4352):
        transitions = torch.randn(count, 2 * STATE)
        times.append(meter.timed_s(lambda t=transitions: style(t), calls=5))
    return max(1e-8, (times[1] - times[0]) / 4096)


def main():
    meter = Meter(__doc__)
    imitation, resumed = Imitation(meter), resume(earlier_run())
    moved = StyleReward(resume(earlier_run()).to(meter.device))
    meter.calibrate(lambda: imitation.step(moved))
    if meter.dose:
        each_s = transition_s(meter, StyleReward(resumed))
        imitation.judged = max(64, round(meter.added_s / each_s))
    style = StyleReward(resumed) if meter.sick else moved
    while meter.going_on():
        imitation.step(style)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
