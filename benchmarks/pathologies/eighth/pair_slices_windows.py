"""Two faults: whole volumes are copied from ordinary memory, and a compiled step gets plain numbers.

Each takes three quarters of a dose; the back end is `aot_eager`, which needs no compiler, and limits on
recompiling are lifted. A perfect diagnosis names both: large blocking copies from pageable memory (first
marked line), and torch that compiles again and again (second). Fix: pinned volumes, copied ahead on another
stream, and a cut by a tensor of places.
"""

import torch
import torch._dynamo
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, CUT, LONG = 0.75, 256, 1024


class Scanner:
    """Volumes as rows of slices."""

    def __init__(self, volumes, device):
        self.volumes, self.device, self.turn = volumes, device, 0

    def next(self):
        self.turn += 1
        return self.volumes[self.turn % len(self.volumes)].to(self.device)  # planted


class ScannerAhead(Scanner):
    def __init__(self, volumes, device):
        super().__init__([volume.pin_memory() for volume in volumes], device)
        self.side = torch.cuda.Stream()
        self._send()

    def _send(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            volume = self.volumes[self.turn % len(self.volumes)]
            self.coming = volume.to(self.device, non_blocking=True)
        self.turn += 1

    def next(self):
        torch.cuda.current_stream().wait_stream(self.side)
        volume = self.coming
        volume.record_stream(torch.cuda.current_stream())
        self._send()
        return volume


def cut_by_number(rows, first):
    piece = rows[:, first : first + CUT]
    return (piece - piece.mean(1, keepdim=True)) * 0.5


def cut_by_places(rows, places):
    piece = rows[:, places]
    return (piece - piece.mean(1, keepdim=True)) * 0.5


class Segmenter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(CUT, width), nn.Linear(width, CUT)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, pieces):
        h = self.enter(pieces)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h).float()


class Ward:
    def __init__(self, meter):
        self.meter, self.rows = meter, meter.pick(8192, 64)
        self.net = Segmenter(*meter.pick((4096, 5), (64, 2))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.organ = torch.rand(self.rows, CUT, device=meter.device)
        kind = cut_by_number if meter.sick else cut_by_places
        self.cut = torch.compile(kind, backend="aot_eager", dynamic=False)
        self.offset, self.first = torch.arange(CUT, device=meter.device), 0

    def move_window(self):
        self.first = (self.first + 1) % (LONG - CUT)

    def pieces(self, volume):
        rows = volume[: self.rows]
        if self.meter.sick:
            return self.cut(rows, self.first)  # planted
        return self.cut(rows, self.offset + self.first)

    def step(self, volume):
        pieces = self.pieces(volume)
        with self.meter.autocast():
            organ = self.net(pieces)
        loss = F.mse_loss(organ, self.organ)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def volumes_of(rows):
    return [torch.full((rows, LONG), 0.1 * n) for n in range(2)]


def rows_taking(meter, wanted_s):
    count = meter.pick(8192, 512)
    probe = volumes_of(count)[0]
    return round(count * wanted_s / meter.timed_s(lambda: probe.to(meter.device, copy=True), calls=5))


def lift_limits():
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit"):
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, 50_000)


def main():
    meter = Meter(__doc__)
    lift_limits()
    ward = Ward(meter)
    here = volumes_of(ward.rows)[0].to(meter.device)
    meter.calibrate(lambda: ward.step(here))
    part_s, rows, every = PART * meter.added_s, ward.rows, 50
    if meter.dose:
        rows = max(rows, rows_taking(meter, part_s))
    if meter.sick:
        again_s = meter.timed_s(lambda: (ward.move_window(), ward.step(here)), calls=6) - meter.healthy_s
        every = max(1, round(again_s / part_s))
    ahead = meter.gpu and not meter.sick
    scanner = (ScannerAhead if ahead else Scanner)(volumes_of(rows), meter.device)
    while meter.going_on():
        if meter.ticks % every == 0:
            ward.move_window()
        ward.step(scanner.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
