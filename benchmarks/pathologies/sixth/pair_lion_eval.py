"""Two faults: an optimizer of one's own goes through many small weights, and evaluations are frequent.

Each takes three quarters of a dose. A perfect diagnosis names both: hundreds of tiny kernels (first marked
line), and evaluations much too often (second). Fix: the optimizer by `_foreach` calls, an evaluation every
two thousand steps.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, SENSORS, STATES = 0.75, 60, 5


class Lion(torch.optim.Optimizer):
    """Steps of the same size for all, by the sign of the momentum."""

    def __init__(self, weights, lr=1e-5, decay=0.9, together=True):
        super().__init__(weights, {"lr": lr, "decay": decay})
        self.together, self.momenta = together, {}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            momenta = [self.momenta.setdefault(w, torch.zeros_like(w)) for w in weights]
            grads = [weight.grad for weight in weights]
            if self.together:
                torch._foreach_lerp_(momenta, grads, 1 - group["decay"])
                torch._foreach_add_(weights, torch._foreach_sign(momenta), alpha=-group["lr"])
                continue
            for weight, momentum, grad in zip(weights, momenta, grads, strict=True):
                momentum.lerp_(grad, 1 - group["decay"])
                weight.add_(momentum.sign().mul_(-group["lr"]))  # planted


class Machine(nn.Module):
    """A wide trunk; every machine in the hall has an offset of its own."""

    def __init__(self, width, depth, machines):
        super().__init__()
        self.enter, self.state = nn.Linear(SENSORS, width), nn.Linear(width, STATES)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.offsets = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(machines))

    def forward(self, sensed):
        h = self.enter(sensed) + torch.stack(list(self.offsets)).mean(0)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.state(h).float()


class Hall:
    def __init__(self, meter, machines=4, together=True):
        self.meter, rows = meter, meter.pick(8192, 32)
        self.net = Machine(*meter.pick((4096, 5), (64, 1)), machines).to(meter.device)
        self.lion = Lion(self.net.parameters(), together=together)
        self.sensed = torch.randn(rows, SENSORS, device=meter.device)
        self.states = torch.randint(STATES, (rows,), device=meter.device)

    def learn(self):
        with self.meter.autocast():
            loss = F.cross_entropy(self.net(self.sensed), self.states)
        self.lion.zero_grad(set_to_none=True)
        loss.backward()
        self.lion.step()

    @torch.inference_mode()
    def test(self, batches=12):
        self.net.eval()
        with self.meter.autocast():
            right = [(self.net(self.sensed).argmax(1) == self.states).float().mean() for _ in range(batches)]
        self.net.train()
        return torch.stack(right).mean().item()


def machine_s(meter):
    """Host time of one small weight more in the optimizer."""
    weights = [nn.Parameter(torch.zeros(64, device=meter.device)) for _ in range(100)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    lion = Lion(weights, together=False)
    return meter.timed_s(lion.step, calls=6) / 100


def main():
    meter = Meter(__doc__)
    hall, every = Hall(meter), 2000
    healthy_s = meter.calibrate(hall.learn)
    part_s = PART * meter.added_s
    if meter.dose:
        # The host's own work of a healthy step goes on beside the GPU's.
        wanted_s = part_s + (healthy_s if meter.gpu else 0.0)
        hall = Hall(meter, max(4, min(20_000, round(wanted_s / machine_s(meter)))), together=not meter.sick)
    if meter.sick:
        every = max(1, round(meter.timed_s(hall.test, calls=2) / part_s))
    scores = []
    while meter.going_on():
        hall.learn()
        meter.ticked()
        if meter.ticks % every == 0:
            scores.append(hall.test())  # planted
    meter.report(excess=True)


if __name__ == "__main__":
    main()
