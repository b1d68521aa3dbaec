"""An emulator of the ocean, with a mixing of modes whose backward was written by hand; it casts to fp32.

How many modes there are is the dose. A perfect diagnosis: matrix products without tensor cores (marked
below). Fix: it casts to bfloat16.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

LEVELS = 64


def mixing(device_type, dtype):
    """The function, with its inputs cast as wished."""

    class Mix(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device_type, cast_inputs=dtype)
        def forward(ctx, fields, modes):
            ctx.save_for_backward(fields, modes)
            return fields @ modes  # planted

        @staticmethod
        @torch.amp.custom_bwd(device_type=device_type)
        def backward(ctx, grad):
            fields, modes = ctx.saved_tensors
            grad = grad.to(modes.dtype)
            return grad @ modes.T, fields.T @ grad

    return Mix.apply


class Mixing(nn.Module):
    def __init__(self, size, modes, mix):
        super().__init__()
        self.there = nn.Parameter(torch.randn(size, modes) / size**0.5)
        self.back = nn.Parameter(torch.randn(modes, size) / modes**0.5)
        self.mix = mix

    def forward(self, fields):
        mixed = self.mix(torch.tanh(self.mix(fields, self.there)), self.back)
        return fields + mixed.to(fields.dtype)


class Ocean(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(LEVELS, width), nn.Linear(width, LEVELS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, fields, mixed):
        h = mixed(self.enter(fields))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return fields + self.leave(h).float()


class Emulation:
    def __init__(self, meter):
        self.meter, (self.rows, self.width, depth) = meter, meter.pick((8192, 4096, 5), (32, 64, 1))
        self.ocean = Ocean(self.width, depth).to(meter.device)
        self.fields = torch.randn(self.rows, LEVELS, device=meter.device)
        self.mixed_by(meter.pick(64, 8), careful=False)

    def mixed_by(self, modes, careful):
        kind = self.meter.device.type
        mix = mixing(kind, torch.float32 if careful or not self.meter.gpu else torch.bfloat16)
        self.mixed = Mixing(self.width, modes, mix).to(self.meter.device)
        weights = [*self.ocean.parameters(), *self.mixed.parameters()]
        self.optimizer = torch.optim.AdamW(weights, 1e-5, fused=self.meter.gpu)

    def step(self):
        with self.meter.autocast():
            ahead = self.ocean(self.fields, self.mixed)
        loss = F.mse_loss(ahead, self.fields.roll(1, 0))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def mode_s(emulation, probe=512):
    """One mode more, in fp32, forward and backward."""
    meter, mix = emulation.meter, mixing(emulation.meter.device.type, torch.float32)
    mixed = Mixing(emulation.width, probe, mix).to(meter.device)
    fields = torch.randn(emulation.rows, emulation.width, device=meter.device, requires_grad=True)

    def forth_and_back():
        with meter.autocast():
            mixed(fields).sum().backward()

    return meter.timed_s(forth_and_back, calls=6) / probe


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    emulation = Emulation(meter)
    meter.calibrate(emulation.step)
    if meter.dose:
        modes = max(8, round(meter.added_s / mode_s(emulation)))
        emulation.mixed_by(modes, careful=meter.sick)
    while meter.going_on():
        emulation.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
