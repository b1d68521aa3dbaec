"""Healthy control: balloons learn to stay over a town, on-policy; they are tensors on the training's device.

Nothing is read on the way: rewards are added up where they are, and shown at the end. A perfect diagnosis:
healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, RISES = 8, 3


class Sky:
    """Winds differ by height, and by a phase that is each balloon's own."""

    def __init__(self, balloons, device):
        self.place, self.phase = torch.randn(2, balloons, 2, device=device)
        self.height = torch.rand(balloons, 1, device=device)
        self.rewards = torch.zeros((), device=device)

    def seen(self):
        wind = torch.sin(3 * self.height + self.phase)
        return torch.cat([self.place, wind, self.phase, self.height, self.height.square()], 1)

    def step(self, rise):
        self.height = (self.height + 0.05 * (rise.float() - 1)).clamp(0, 1)
        self.place = 0.999 * self.place + 0.05 * torch.sin(3 * self.height + self.phase)
        reward = torch.exp(-self.place.square().sum(1, keepdim=True))
        self.rewards += reward.mean()
        return reward


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.rise, self.value = (
            nn.Linear(SEEN, width),
            nn.Linear(width, RISES),
            nn.Linear(width, 1),
        )
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + torch.tanh(layer(h))
        return self.rise(h).float(), self.value(h).float()


def moves(meter, sky, net):
    """One after another, without end: what was seen, what was done, what came of it."""
    while True:
        seen = sky.seen()
        with torch.no_grad(), meter.autocast():
            scores, _ = net(seen)
        noise = -torch.log(-torch.log(torch.rand_like(scores).clamp(1e-6, 1 - 1e-6)))
        rise = (scores + noise).argmax(1, keepdim=True)
        yield seen, rise, sky.step(rise)


def learner(meter, net):
    optimizer = torch.optim.Adam(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(seen, rise, reward):
        with meter.autocast():
            scores, value = net(seen)
        likely = scores.log_softmax(1).gather(1, rise)
        gain = reward - value
        loss = gain.square().mean() - (likely * gain.detach()).mean() + 1e-3 * F.softplus(scores).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return learn


def main():
    meter = Meter(__doc__)
    net = ActorCritic(*meter.pick((4096, 5), (256, 4))).to(meter.device)
    sky = Sky(meter.pick(6144, 96), meter.device)
    played, learn = moves(meter, sky, net), learner(meter, net)
    meter.calibrate(lambda: learn(*next(played)))
    while meter.going_on():
        learn(*next(played))
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
