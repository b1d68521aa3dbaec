"""A deep residual MLP for tables, some of whose blocks leave mixed precision "for stability".

How many is the dose; TF32 is off, as it is by default. A perfect diagnosis: large products in fp32 without
tensor cores (marked below). Fix: all blocks in bfloat16.
"""

import torch
from stopwatch import Meter
from torch import nn

COLUMNS = 256


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.fc, self.stable = nn.LayerNorm(dim), nn.Linear(dim, dim), False

    def forward(self, x):
        if self.stable:
            with torch.autocast(x.device.type, enabled=False):
                return x + torch.relu(self.fc(self.norm(x.float())))  # planted
        return x + torch.relu(self.fc(self.norm(x)))


class TabularNet(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.stem, self.head = nn.Linear(COLUMNS, dim), nn.Linear(dim, 1)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))

    def stabilize(self, count):
        for i, block in enumerate(self.blocks):
            block.stable = i < count

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main():
    meter = Meter(__doc__)
    net = TabularNet(*meter.pick((2048, 24), (32, 4))).to(meter.device)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01, fused=meter.gpu)
    table = torch.randn(meter.pick(8192, 32), COLUMNS, device=meter.device)
    target = table.sum(1, keepdim=True).sin()

    def step():
        with meter.autocast():
            loss = nn.functional.huber_loss(net(table).float(), target)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()

    meter.calibrate(step)
    if meter.sick:
        net.stabilize(4)
        extra_s = max(1e-6, (meter.timed_s(step) - meter.healthy_s) / 4)
        net.stabilize(min(len(net.blocks), max(1, round(meter.added_s / extra_s))))
    while meter.going_on():
        step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
