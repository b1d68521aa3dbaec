"""Hovercrafts learn to dock, on-policy; they are tensors, and simulated on the device like everything else.

To write down how long each took, the log asks `if done[n]` of one after another, and every answer is read
from the GPU. How many hovercrafts the log watches is the dose. A perfect diagnosis: reads from the GPU, many
in every tick (marked below). Fix: sums that stay on the device and are read at the end.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SEEN, PUSHES, LONGEST = 5, 2, 400


class Bay:
    """All hovercrafts at once: where they are, how fast, and for how long they have been under way."""

    def __init__(self, count, device):
        self.place, self.speed = torch.rand(2, count, 2, device=device)
        self.age = torch.randint(LONGEST, (count, 1), device=device).float()

    def seen(self):
        return torch.cat([self.place, self.speed, self.age / LONGEST], 1)

    def step(self, push):
        self.speed = 0.97 * self.speed + 0.02 * push
        self.place = self.place + 0.05 * self.speed
        far, self.age = self.place.norm(dim=1, keepdim=True), self.age + 1
        done = (far < 0.01) | (self.age >= LONGEST)
        took = self.age
        self.place = torch.where(done, torch.rand_like(self.place), self.place)
        self.age = torch.where(done, 0.0, self.age)
        return -far, done[:, 0], took[:, 0]


class LogBook:
    def __init__(self, watched):
        self.watched, self.lengths = watched, []

    def write(self, done, took):
        for n in range(self.watched):
            if done[n]:  # planted
                self.lengths.append(float(took[n]))


class DeviceLogBook(LogBook):
    def __init__(self, watched, device):
        super().__init__(watched)
        self.sums = torch.zeros(2, device=device)

    def write(self, done, took):
        done = done[: self.watched].float()
        self.sums += torch.stack([done.sum(), (done * took[: self.watched]).sum()])


class ActorCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(SEEN, width), nn.Linear(width, PUSHES + 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.elu(layer(h))
        return self.leave(h).float().split((PUSHES, 1), 1)


class Training:
    def __init__(self, meter):
        self.meter, crafts = meter, meter.pick(4096, 48)
        self.bay = Bay(crafts, meter.device)
        self.net = ActorCritic(*meter.pick((4096, 4), (128, 3))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.earlier = None

    def act(self, seen):
        with torch.no_grad(), self.meter.autocast():
            mean, _ = self.net(seen)
        return (mean + 0.3 * torch.randn_like(mean)).clamp(-1, 1)

    def tick(self, log):
        """A move of all, and a step over this move and the one before."""
        seen = self.bay.seen()
        push = self.act(seen)
        reward, done, took = self.bay.step(push)
        log.write(done, took)
        now = torch.cat([seen, push, reward], 1)
        rows = torch.cat([now, now if self.earlier is None else self.earlier])
        self.earlier = now
        self.learn(*rows.split((SEEN, PUSHES, 1), 1))

    def learn(self, seen, push, reward):
        with self.meter.autocast():
            mean, value = self.net(seen)
        gain = reward - value
        likely = -(push - mean).square().sum(1, keepdim=True)
        loss = gain.square().mean() - (likely * gain.detach()).clamp(-2, 2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def question_s(meter):
    done, took = torch.zeros(64, dtype=torch.bool, device=meter.device), torch.zeros(64, device=meter.device)
    return meter.timed_s(lambda: LogBook(64).write(done, took), calls=10) / 64


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    crafts = len(training.bay.age)
    meter.calibrate(lambda: training.tick(DeviceLogBook(8, meter.device)))
    watched = min(crafts, max(8, round(meter.added_s / question_s(meter))))
    log = LogBook(watched) if meter.sick else DeviceLogBook(watched, meter.device)
    while meter.going_on():
        training.tick(log)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
