"""A deep residual MLP in bf16, but for some blocks kept in full fp32 "to be safe", with TF32 off.

A perfect diagnosis: the GPU is busy, but with fp32 matrix products that do not use the tensor cores, in the
blocks whose autocast is switched off at the line marked below; TF32 or bf16 would do. Nothing on the host is
to blame. Fix: autocast for all blocks.
"""

import torch
from meter import Meter
from torch import nn
from torch.nn import functional as F


class SafeBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.exact = False
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def body(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x):
        if not self.exact:
            return self.body(x)
        with torch.autocast(x.device.type, enabled=False):  # planted
            return self.body(x.float())


def make_exact(blocks, count):
    for number, block in enumerate(blocks):
        block.exact = number < count


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("highest")  # torch's own default: no TF32
    width, depth, rows = meter.pick((1024, 24, 16384), (64, 6, 256))
    blocks = [SafeBlock(width) for _ in range(depth)]
    model = nn.Sequential(*blocks, nn.Linear(width, width)).to(meter.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=meter.gpu)
    x = torch.randn(rows, width, device=meter.device)
    goal = torch.roll(x, 1, dims=1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with meter.autocast():
            loss = F.mse_loss(model(x).float(), goal)
        loss.backward()
        optimizer.step()

    healthy_s = meter.calibrate(step)
    make_exact(blocks, 1)
    extra_s = max(meter.timed_s(step) - healthy_s, 0.02 * healthy_s)
    exact = min(max(1, round(meter.added_s / extra_s)), depth)
    make_exact(blocks, exact if meter.sick else 0)
    while meter.going_on():
        step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
