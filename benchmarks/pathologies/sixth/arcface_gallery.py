"""Faces by angular margins: the product with the gallery of all persons leaves mixed precision.

How many persons there are is the dose. A perfect diagnosis: matrix products without tensor cores (marked
below). Fix: the product under autocast like the rest.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

FEATURES = 128


class ArcMargin(nn.Module):
    """Cosines to each person's direction, with a margin for the right one."""

    def __init__(self, size, persons, margin=0.3, scale=30.0, careful=False):
        super().__init__()
        self.gallery = nn.Parameter(torch.randn(persons, size))
        self.careful, self.scale = careful, scale
        self.cos, self.sin = math.cos(margin), math.sin(margin)

    def cosines(self, faces):
        if not self.careful:
            return F.linear(F.normalize(faces), F.normalize(self.gallery)).float()
        with torch.autocast(faces.device.type, enabled=False):
            faces, gallery = F.normalize(faces.float()), F.normalize(self.gallery)
            return faces @ gallery.T  # planted

    def forward(self, faces, persons):
        cosines = self.cosines(faces)
        right = cosines.gather(1, persons[:, None]).clamp(-0.99, 0.99)
        harder = right * self.cos - (1 - right.square()).sqrt() * self.sin
        return F.cross_entropy(self.scale * cosines.scatter(1, persons[:, None], harder), persons)


class FaceNet(nn.Module):
    def __init__(self, width, depth, size):
        super().__init__()
        self.enter, self.leave = nn.Linear(FEATURES, width), nn.Linear(width, size)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        h = self.enter(x)
        for layer in self.body:
            h = h + F.silu(layer(h))
        return self.leave(h)


class Enrolment:
    def __init__(self, meter):
        self.meter, (self.rows, self.size) = meter, meter.pick((8192, 2048), (32, 32))
        self.net = FaceNet(*meter.pick((4096, 5), (64, 1)), self.size).to(meter.device)
        self.faces = torch.randn(self.rows, FEATURES, device=meter.device)
        self.enrol(meter.pick(512, 64), careful=False)

    def enrol(self, persons, careful):
        self.margin = ArcMargin(self.size, persons, careful=careful).to(self.meter.device)
        self.persons = torch.randint(persons, (self.rows,), device=self.meter.device)
        weights = [*self.net.parameters(), *self.margin.parameters()]
        self.optimizer = torch.optim.SGD(weights, 1e-4, momentum=0.9, fused=self.meter.gpu)

    def step(self):
        with self.meter.autocast():
            loss = self.margin(self.net(self.faces), self.persons)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def person_s(enrolment, probe=512):
    """One person more, in fp32, forward and backward."""
    margin = ArcMargin(enrolment.size, probe, careful=True).to(enrolment.meter.device)
    faces = torch.randn(enrolment.rows, enrolment.size, device=enrolment.meter.device, requires_grad=True)
    persons = enrolment.persons % probe
    return enrolment.meter.timed_s(lambda: margin(faces, persons).backward(), calls=6) / probe


def main():
    meter = Meter(__doc__)
    torch.backends.cuda.matmul.allow_tf32 = False
    enrolment = Enrolment(meter)
    meter.calibrate(enrolment.step)
    if meter.dose:
        persons = max(64, round(meter.added_s / person_s(enrolment)))
        enrolment.enrol(persons, careful=meter.sick)
    while meter.going_on():
        enrolment.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
