"""Speech recognition with CTC; the criterion, with its prior of the pieces, was never moved to the GPU.

How many transcripts there are is the dose. A perfect diagnosis: a part of the model computes on the CPU in
every step, and the GPU waits for it (marked below). Fix: the criterion moves with the rest.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PIECES, LENGTH, MELS = 512, 12, 80


class PriorCTC(nn.Module):
    """Log-probabilities, less what is likely anyway, against the transcripts."""

    def __init__(self, frames):
        super().__init__()
        self.frames = frames
        self.register_buffer("prior", torch.linspace(-1, 1, PIECES).log_softmax(0))
        self.weight = nn.Parameter(torch.tensor(0.3), requires_grad=False)

    def forward(self, logits, transcripts):
        likely = (logits - self.weight * self.prior).log_softmax(-1)
        count = len(transcripts)
        lengths = torch.full((count,), self.frames), torch.full((count,), LENGTH)
        return F.ctc_loss(likely, transcripts, *lengths, zero_infinity=True)


class Acoustic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(3 * MELS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.pieces = nn.Linear(width, PIECES)

    def forward(self, mels):
        near = F.pad(mels, (0, 0, 0, 0, 1, 1))
        h = self.enter(torch.cat([near[:-2], near[1:-1], near[2:]], -1))
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.pieces(h)


class Recogniser:
    def __init__(self, meter):
        self.meter, (self.frames, self.spoken) = meter, meter.pick((64, 128), (24, 8))
        self.acoustic = Acoustic(*meter.pick((4096, 5), (64, 1))).to(meter.device)
        self.criterion = PriorCTC(self.frames).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.acoustic.parameters(), 1e-5, fused=meter.gpu)
        self.mels = torch.randn(self.frames, self.spoken, MELS, device=meter.device)
        self.transcribe(8)

    def transcribe(self, transcripts):
        home = self.criterion.prior.device
        self.transcripts = torch.randint(1, PIECES, (transcripts, LENGTH), device=home)
        self.which = torch.arange(transcripts, device=self.meter.device) % self.spoken

    def step(self):
        with self.meter.autocast():
            logits = self.acoustic(self.mels)
        heard = logits.float()[:, self.which]
        loss = self.criterion(heard.to(self.transcripts.device), self.transcripts)  # planted
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def transcript_s(meter, frames):
    """One transcript more on the CPU, there and back."""
    criterion, times = PriorCTC(frames), []
    for count in (8, 40):
        logits = torch.randn(frames, count, PIECES, device=meter.device, requires_grad=True)
        transcripts = torch.randint(1, PIECES, (count, LENGTH))
        times.append(meter.timed_s(lambda x=logits, y=transcripts: criterion(x.cpu(), y).backward(), calls=5))
    return max(1e-7, (times[1] - times[0]) / 32)


def main():
    meter = Meter(__doc__)
    recogniser = Recogniser(meter)
    meter.calibrate(recogniser.step)
    if meter.dose:
        count = max(8, round(meter.added_s / transcript_s(meter, recogniser.frames)))
        if meter.sick:
            recogniser.criterion = PriorCTC(recogniser.frames)
        recogniser.transcribe(count)
    while meter.going_on():
        recogniser.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
