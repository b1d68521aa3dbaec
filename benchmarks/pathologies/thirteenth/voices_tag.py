"""Voices are made alike by an adapter for the manner of speaking; it is compiled, and told who speaks.

Who speaks is given as a name, of which only the beginning counts; each new name is another program for the
compiler. How many steps a speaker lasts is the dose. The back end is `aot_eager`, which needs no compiler,
and limits on recompiling are lifted. A perfect diagnosis: torch compiles again and again, at the call
marked below. Fix: only what counts of the name is given.
"""

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

BANDS, SOME, SMALL = 80, 256, 32


class Adapter(nn.Module):
    """Guests are heard by fewer layers than hosts."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(SMALL, SMALL) for _ in range(6))

    def forward(self, h, speaker):
        layers = self.layers[:2] if speaker.startswith("guest") else self.layers
        for layer in layers:
            h = h + torch.tanh(layer(h)) * 0.5
        return h


class VoiceNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.adapter = torch.compile(Adapter(), backend="aot_eager", dynamic=False)
        self.enter, self.leave = nn.Linear(BANDS, width), nn.Linear(width, BANDS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.into, self.back = nn.Linear(width, SMALL), nn.Linear(SMALL, BANDS)

    def forward(self, bands, speaker):
        h = self.enter(bands)
        for layer in self.body:
            h = h + F.silu(layer(h))
        manner = self.adapter(self.into(h[:SOME]).float(), speaker)  # planted
        return self.leave(h).float() + self.back(manner).float().mean(0)


class Studio:
    def __init__(self, meter, whole_name):
        self.meter, rows = meter, meter.pick(8192, 96)
        self.net = VoiceNet(*meter.pick((4096, 5), (256, 5))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.bands = torch.rand(rows, BANDS, device=meter.device)
        self.whole_name, self.number, self.of_speakers = whole_name, 0, []

    def speaker(self):
        name = f"host-{self.number:05d}"
        return name if self.whole_name else name[:4]

    def step(self):
        with self.meter.autocast():
            guess = self.net(self.bands, self.speaker())
        loss = F.l1_loss(guess, self.bands)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def next_speaker(self, loss):
        self.of_speakers.append(loss.item())
        self.number += 1


def main():
    meter = Meter(__doc__)
    for limit in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, limit):
            setattr(torch._dynamo.config, limit, 50_000)
    studio, steps = Studio(meter, whole_name=False), 50
    meter.calibrate(studio.step)
    if meter.dose:
        studio.whole_name = True
        new_s = meter.timed_s(lambda: studio.next_speaker(studio.step()), calls=5) - meter.healthy_s
        steps = max(1, round(new_s / meter.added_s))
        studio.whole_name = meter.sick
    while meter.going_on():
        loss = studio.step()
        meter.ticked()
        if meter.ticks % steps == 0:
            studio.next_speaker(loss)
    meter.report(excess=True)


if __name__ == "__main__":
    main()
