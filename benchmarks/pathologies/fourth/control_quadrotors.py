"""Healthy control: DQN on quadrotors that are rows of a GPU tensor, with a replay that is one too.

A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

STATE, THRUSTS = 8, 9


class Quadrotors:
    def __init__(self, count, device):
        self.state = torch.randn(count, STATE, device=device)
        self.lift = 0.1 * torch.randn(THRUSTS, STATE, device=device)

    def fly(self, thrust):
        before = self.state
        self.state = (0.98 * before + 0.05 * before.roll(1, 1) + self.lift[thrust]).clamp(-3, 3)
        return before, -self.state.square().mean(1), self.state


class Replay:
    def __init__(self, size, device):
        self.rows = torch.randn(size, 2 * STATE + 2, device=device)
        self.rows[:, -1] = 0
        self.place = 0

    def add(self, before, reward, after, thrust):
        new = torch.cat([before, after, reward[:, None], thrust[:, None].float()], 1)
        self.rows[self.place : self.place + len(new)] = new
        self.place = (self.place + len(new)) % (len(self.rows) - len(new))

    def sample(self, count):
        picked = self.rows[torch.randint(len(self.rows), (count,), device=self.rows.device)]
        return picked.split([STATE, STATE, 1, 1], 1)


class Dueling(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(STATE, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.value, self.extra = nn.Linear(width, 1), nn.Linear(width, THRUSTS)

    def forward(self, state):
        h = F.relu(self.enter(state))
        for layer in self.body:
            h = h + F.relu(layer(h))
        extra = self.extra(h).float()
        return self.value(h).float() + extra - extra.mean(1, keepdim=True)


class Agent:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(8192, 512)
        shape = meter.pick((4096, 5), (128, 3))
        self.q, self.target = Dueling(*shape).to(meter.device), Dueling(*shape).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.q.parameters(), 1e-5, fused=meter.gpu)
        self.world = Quadrotors(meter.pick(1024, 32), meter.device)
        self.replay = Replay(meter.pick(500_000, 4000), meter.device)

    @torch.no_grad()
    def fly(self):
        with self.meter.autocast():
            best = self.q(self.world.state).argmax(1)
        wild = torch.rand(len(best), device=best.device) < 0.1
        thrust = torch.where(wild, torch.randint_like(best, THRUSTS), best)
        self.replay.add(*self.world.fly(thrust), thrust)

    def learn(self):
        before, after, reward, thrust = self.replay.sample(self.batch)
        with torch.no_grad(), self.meter.autocast():
            goal = reward + 0.97 * self.target(after).amax(1, keepdim=True)
        with self.meter.autocast():
            now = self.q(before).gather(1, thrust.long())
        loss = F.smooth_l1_loss(now, goal)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.q.parameters()), 0.005)

    def tick(self):
        self.fly()
        self.learn()


def main():
    meter = Meter(__doc__)
    agent = Agent(meter)
    meter.calibrate(agent.tick)
    while meter.going_on():
        agent.tick()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
