"""Healthy control: CTC on the GPU, with utterances in three buckets of length.

Tempting: shapes change from step to step, and the loss sends small tables to the GPU, for which the host
waits a moment. A perfect diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no
planted line.
"""

import itertools

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIECES, MELS, TRANSCRIPT = 128, 80, 10


class Conformerish(nn.Module):
    """Wide layers with a look at the neighbours before each."""

    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.pieces = nn.Linear(MELS, width), nn.Linear(width, PIECES)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, mels):
        h = self.enter(mels)
        for layer in self.layers:
            h = h + F.silu(layer(h + 0.1 * h.roll(1, 0)))
        return self.pieces(h).float().log_softmax(-1)


class Bucket:
    def __init__(self, frames, utterances, device):
        self.mels = torch.randn(frames, utterances, MELS, device=device)
        self.transcripts = torch.randint(1, PIECES, (utterances, TRANSCRIPT), device=device)
        # Lengths stay on the host: the loss would fetch them from the GPU.
        self.lengths = torch.full((utterances,), frames), torch.full((utterances,), TRANSCRIPT)


class Recogniser:
    def __init__(self, meter):
        self.meter, rows = meter, meter.pick(8192, 64)
        self.model = Conformerish(*meter.pick((4096, 6), (128, 3))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5, fused=meter.gpu)
        lengths = meter.pick((32, 64, 128), (16, 32))
        self.buckets = itertools.cycle([Bucket(n, rows // n, meter.device) for n in lengths])

    def step(self):
        bucket = next(self.buckets)
        with self.meter.autocast():
            likely = self.model(bucket.mels)
        loss = F.ctc_loss(likely, bucket.transcripts, *bucket.lengths, zero_infinity=True)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def main():
    meter = Meter(__doc__)
    recogniser = Recogniser(meter)
    meter.calibrate(recogniser.step)
    while meter.going_on():
        recogniser.step()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
