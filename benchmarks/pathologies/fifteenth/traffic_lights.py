"""Traffic lights of a town learn by deep Q; a policy is shared, and wrapped so that each light can ask it.

A light asks for itself alone, with a batch of one. How many lights there are is the dose. A perfect
diagnosis: one inference per agent or environment (any line marked below). Fix: one for all lights.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

LANES, PHASES, LEARNT = 8, 4, 320


class Town:
    """Queues at all crossings, as one tensor; cars go on to the next crossing."""

    def __init__(self, lights):
        self.queues = torch.rand(lights, LANES) * 5
        self.open = torch.eye(PHASES).repeat_interleave(2, 1)

    def advance(self, phases):
        left = torch.minimum(self.queues, 2 * self.open[phases])
        self.queues = (self.queues - left + 0.7 * left.roll(1, 0) + 0.5 * torch.rand(LANES)).clamp(max=20)
        return -self.queues.sum(1)


class Backbone(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(LANES, hidden), nn.Linear(hidden, hidden)))
        self.advantage, self.value = nn.Linear(hidden, PHASES), nn.Linear(hidden, 1)

    def forward(self, queues):
        h = queues
        for layer in self.layers:
            h = F.relu(layer(h))
        advantage = self.advantage(h)
        return self.value(h) + advantage - advantage.mean(1, keepdim=True)


class Mixer(nn.Module):
    """What the whole town is worth."""

    def __init__(self, hidden=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LANES + 1, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, queues, q):
        return self.net(torch.cat([queues, q[:, None]], 1))[:, 0]


class SharedPolicy(nn.Module):
    def __init__(self, backbone, explore=0.05):
        super().__init__()
        self.backbone, self.explore = backbone, explore

    def act(self, observation):
        """For one light."""
        with torch.inference_mode():
            q = self.backbone(observation[None])  # planted
            return int(torch.randint(PHASES, ()) if torch.rand(()) < self.explore else q.argmax())

    def act_in_town(self, observations):
        return torch.tensor([self.act(observation) for observation in observations])  # planted


class TownPolicy(SharedPolicy):
    def act_in_town(self, observations):
        with torch.inference_mode():
            best = self.backbone(observations).argmax(1)
            chance = torch.randint(PHASES, best.shape, device=best.device)
            return torch.where(torch.rand(best.shape, device=best.device) < self.explore, chance, best).cpu()


class Learner:
    def __init__(self, device):
        self.device, self.online, self.target = device, Backbone().to(device), Backbone().to(device)
        self.mixer, self.steps = Mixer().to(device), 0
        self.optimizer = torch.optim.Adam([*self.online.parameters(), *self.mixer.parameters()], lr=3e-4)
        self.memory = [torch.rand(LEARNT, LANES), torch.zeros(LEARNT).long(), torch.rand(LEARNT)]

    def store(self, *parts):
        self.memory = [torch.cat([old, new])[-LEARNT:] for old, new in zip(self.memory, parts, strict=True)]

    def learn(self):
        queues, phases, rewards = (part.to(self.device) for part in self.memory)
        with torch.no_grad():
            wanted = rewards / 50 + 0.9 * self.target(queues).roll(-1, 0).amax(1)
        q = self.online(queues).gather(1, phases[:, None])[:, 0]
        loss = F.smooth_l1_loss(q, wanted) + F.mse_loss(self.mixer(queues, q), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % 50 == 0:
            self.target.load_state_dict(self.online.state_dict())


def drive(meter, policy, learner, town):
    def tick():
        seen = town.queues
        with meter.injecting():
            phases = policy.act_in_town(seen.to(meter.device))  # planted
        learner.store(seen, phases, town.advance(phases))
        learner.learn()

    return tick


def main():
    meter, lights = Meter(__doc__), 10
    learner = Learner(meter.device)
    single, together = SharedPolicy(learner.online), TownPolicy(learner.online)
    meter.calibrate(drive(meter, together, learner, Town(lights)))
    if meter.dose:

        def asking(count):
            queues = torch.rand(count, LANES, device=meter.device)
            return lambda: single.act_in_town(queues)

        lights = amount_taking(meter, asking, 10, 60, meter.added_s)
    meter.injected_s, policy = 0.0, single if meter.sick else together
    tick = drive(meter, policy, learner, Town(lights))
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
