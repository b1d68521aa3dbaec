"""A recommender whose embedding table was left on the CPU, with its dense layers on the GPU.

A perfect diagnosis: a part of the model (`items`, an EmbeddingBag, called at the line marked below) and its
backward and update run on the CPU while the GPU waits. Fix: the table moves to the GPU, where it fits easily.
"""

import torch
from meter import Meter
from torch import nn


class Recommender(nn.Module):
    def __init__(self, items, size, width, depth):
        super().__init__()
        self.items = nn.EmbeddingBag(items, size, mode="mean")
        layers = [nn.Linear(size, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.dense = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, history, device):
        taste = self.items(history)  # planted
        return self.dense(taste.to(device)).squeeze(1)


class Fit:
    def __init__(self, meter, table_device):
        self.meter, self.table_device = meter, table_device
        self.items_count, self.rows = meter.pick((20_000, 16_384), (1000, 128))
        self.model = Recommender(self.items_count, 64, *meter.pick((4096, 6), (128, 3)))
        self.model.dense.to(meter.device)
        self.model.items.to(table_device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.0)
        self.clicked = torch.rand(self.rows, device=meter.device)

    def histories(self, length):
        """A few batches of what users looked at, on the device of the table."""
        shape = (self.rows, length)
        return [torch.randint(self.items_count, shape).to(self.table_device) for _ in range(4)]

    def step(self, history):
        with self.meter.autocast():
            score = self.model(history, self.meter.device)
        loss = nn.functional.binary_cross_entropy_with_logits(score.float(), self.clicked)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    healthy = Fit(meter, meter.device)
    still = healthy.histories(4)
    healthy_s = meter.calibrate(lambda: healthy.step(still[0]))
    length, fit = 4, healthy
    if meter.dose:
        on_cpu = Fit(meter, torch.device("cpu"))
        few, more = on_cpu.histories(1), on_cpu.histories(9)
        few_s = meter.timed_s(lambda: on_cpu.step(few[0])) - healthy_s
        look_s = (meter.timed_s(lambda: on_cpu.step(more[0])) - healthy_s - few_s) / 8
        length = min(max(1, round(1 + (meter.added_s - few_s) / max(look_s, 1e-5))), 200)
        fit = on_cpu if meter.sick else healthy
    histories = fit.histories(length)
    while meter.going_on():
        fit.step(histories[meter.ticks % len(histories)])
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
