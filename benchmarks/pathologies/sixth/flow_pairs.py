"""Optical flow: pairs of whole frames are sent in every step, though the net learns from cuts of them.

How large the frames are is the dose. A perfect diagnosis: large blocking copies from pageable memory (marked
below), for which the GPU waits. Fix: pinned frames, copied ahead on another stream.
"""

import itertools
from collections import namedtuple

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

Pair = namedtuple("Pair", "first second flow")
CUT = 16


def frames_of(rows, pinned=False, kinds=3):
    """Rows of pixels, a few pairs of frames in turn."""
    yield from itertools.cycle([_pair(rows, n, pinned) for n in range(kinds)])


def _pair(rows, number, pinned):
    pair = Pair(
        *(torch.full((rows, CUT * CUT), 0.1 * number + part) for part in range(2)), torch.ones(rows, 2)
    )
    return Pair(*(t.pin_memory() for t in pair)) if pinned else pair


def sent(pairs, device):
    for pair in pairs:
        yield Pair._make(part.to(device) for part in pair)  # planted


def sent_ahead(pairs, device):
    side, ready = torch.cuda.Stream(), None
    for pair in pairs:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            coming = Pair._make(part.to(device, non_blocking=True) for part in pair)
        if ready is not None:
            yield ready
        torch.cuda.current_stream().wait_stream(side)
        for part in coming:
            part.record_stream(torch.cuda.current_stream())
        ready = coming


class FlowNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(2 * CUT * CUT, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.flow = nn.Linear(width, 2)

    def forward(self, first, second):
        h = self.enter(torch.cat([first, second], 1))
        for layer in self.body:
            h = h + F.leaky_relu(layer(h), 0.1)
        return self.flow(h).float()


def main():
    meter = Meter(__doc__)
    cuts = meter.pick(8192, 32)
    net = FlowNet(*meter.pick((4096, 5), (64, 1))).to(meter.device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-5, fused=meter.gpu)

    def learn(pair):
        rows = torch.randint(len(pair.flow), (cuts,), device=meter.device)
        with meter.autocast():
            guess = net(pair.first[rows], pair.second[rows])
        loss = (guess - pair.flow[rows]).abs().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    here = Pair._make(part.to(meter.device) for part in _pair(cuts, 0, False))
    meter.calibrate(lambda: learn(here))
    rows = cuts // 8
    if meter.dose:
        probe = _pair(cuts, 0, False).first
        once_s = meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5)
        rows = max(rows, round(cuts * meter.added_s / once_s / 2))
    ahead = meter.gpu and not meter.sick
    pairs = (sent_ahead if ahead else sent)(frames_of(rows, pinned=ahead), meter.device)
    while meter.going_on():
        learn(next(pairs))
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
