"""PPO with a large critic here and a small policy in a collector process: they take turns.

How long a rollout is is the dose. A perfect diagnosis: while the collector walks, the GPU waits, and while
the GPU learns, the collector waits (the call marked below). Fix: the next rollout is asked for before the
update, with the policy as it is.
"""

import multiprocessing

import numpy as np
import torch
from stopwatch import Meter
from torch import nn

SENSES, JOINTS, HIDDEN = 12, 4, 32


class Walker:
    """A body of springs; the collector has it, and nobody else."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.springs = self.rng.standard_normal((SENSES, SENSES)) * 0.1
        self.push = self.rng.standard_normal((JOINTS, SENSES))
        self.senses = np.zeros(SENSES)

    def walk(self, weights, steps):
        enter, leave = weights
        seen, done, won = np.zeros((steps, SENSES)), np.zeros((steps, JOINTS)), np.zeros(steps)
        for n in range(steps):
            seen[n] = self.senses
            done[n] = np.tanh(np.tanh(self.senses @ enter) @ leave) + 0.1 * self.rng.standard_normal(JOINTS)
            self.senses = np.tanh(self.senses + self.springs @ self.senses + 0.1 * done[n] @ self.push)
            won[n] = self.senses[0] - 0.01 * np.square(done[n]).sum()
        return [column.astype(np.float32) for column in (seen, done, won)]


def collect(pipe):
    walker = Walker(0)
    while True:
        pipe.send(walker.walk(*pipe.recv()))


class Collector:
    def __init__(self):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=collect, args=(theirs,), daemon=True)
        self.process.start()

    def ask(self, policy, steps):
        weights = [layer.weight.detach().cpu().numpy().T.copy() for layer in (policy[0], policy[2])]
        self.pipe.send((weights, steps))

    def rollout(self):
        return self.pipe.recv()  # planted

    def close(self):
        self.process.terminate()
        self.process.join()


def critic_of(width, depth):
    layers = [nn.Linear(SENSES, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


class PPO:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 256)
        self.policy = nn.Sequential(
            nn.Linear(SENSES, HIDDEN, bias=False), nn.Tanh(), nn.Linear(HIDDEN, JOINTS, bias=False), nn.Tanh()
        ).to(meter.device)
        self.critic = critic_of(*meter.pick((4096, 5), (192, 4))).to(meter.device)
        weights = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, lr=1e-5, fused=meter.gpu)
        sizes = (SENSES, JOINTS, 1)
        self.memory = [torch.randn(self.rows, size, device=meter.device) for size in sizes]

    def remember(self, *columns):
        for kept, new in zip(self.memory, columns, strict=True):
            new = torch.from_numpy(new[: self.rows]).view(-1, kept.shape[1])
            kept[: len(new)] = new.to(self.meter.device)

    def update(self):
        seen, done, won = self.memory
        with self.meter.autocast():
            value, mean = self.critic(seen).float(), self.policy(seen).float()
        gain = won - value
        nearness = -0.5 * ((done - mean) / 0.1).square().sum(1, keepdim=True)
        ratio = (nearness - nearness.detach()).exp()
        bounded = ratio.clamp(0.8, 1.2) * gain.detach()
        loss = gain.square().mean() - torch.min(ratio * gain.detach(), bounded).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    ppo = PPO(meter)
    meter.calibrate(ppo.update)
    idle = [np.zeros((SENSES, HIDDEN)), np.zeros((HIDDEN, JOINTS))]
    step_s = meter.timed_s(lambda: Walker(1).walk(idle, 200)) / 200
    steps = max(4, round(meter.added_s / step_s))
    collector = Collector()
    collector.ask(ppo.policy, steps)
    ppo.remember(*collector.rollout())
    if not meter.sick:
        collector.ask(ppo.policy, steps)
    while meter.going_on():
        if meter.sick:
            collector.ask(ppo.policy, steps)
            ppo.remember(*collector.rollout())
        else:
            ppo.remember(*collector.rollout())
            collector.ask(ppo.policy, steps)
        ppo.update()
        meter.ticked()
    meter.report(excess=True)
    collector.close()


if __name__ == "__main__":
    main()
