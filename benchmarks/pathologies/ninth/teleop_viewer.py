"""Imitation of a teleoperated arm; a thread encodes whole episodes as JSON for a viewer in a browser.

How long the thread rests between two episodes is the dose. A perfect diagnosis: another Python thread holds
the interpreter, and the training cannot launch (marked below). Fix: an episode now and then.
"""

import json
import threading

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

JOINTS, SEEN, RARELY_S = 14, 64, 2.0
RESTS_S = tuple(0.05 * 0.75**n for n in range(26))


class Viewer(threading.Thread):
    """Sends the last episode, over and over; nobody is connected, so its length is all that is left."""

    def __init__(self, rest_s):
        super().__init__(daemon=True)
        self.rest_s, self.over, self.sent = rest_s, threading.Event(), 0
        self.episode = [
            {"t": 0.02 * n, "joints": [0.01 * n * joint for joint in range(JOINTS)]} for n in range(400)
        ]

    def run(self):
        while not self.over.is_set():
            self.sent += len(json.dumps(self.episode))  # planted
            self.over.wait(self.rest_s)

    def close(self):
        self.over.set()
        self.join()


class ArmPolicy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.joints = nn.Linear(SEEN, width), nn.Linear(width, JOINTS)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, seen):
        h = self.enter(seen)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.joints(h).float()


def rest_that_costs(meter, viewer, tick, wanted_s):
    """The longest rest with which a tick takes as long as wanted."""
    for rest_s in RESTS_S:
        viewer.rest_s = rest_s
        if meter.timed_s(tick, calls=8) >= wanted_s:
            break
    return viewer.rest_s


def main():
    meter = Meter(__doc__)
    rows = meter.pick(8192, 64)
    policy = ArmPolicy(*meter.pick((4096, 5), (320, 6))).to(meter.device)
    optimizer = torch.optim.AdamW(policy.parameters(), 1e-5, fused=meter.gpu)
    seen = torch.randn(rows, SEEN, device=meter.device)
    shown = torch.randn(rows, JOINTS, device=meter.device)

    def tick():
        with meter.autocast():
            joints = policy(seen)
        loss = F.l1_loss(joints, shown)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    healthy_s = meter.calibrate(tick)
    viewer = Viewer(RESTS_S[0] if meter.sick else RARELY_S)
    viewer.start()
    if meter.sick:
        viewer.rest_s = rest_that_costs(meter, viewer, tick, (1 + meter.share) * healthy_s)
    while meter.going_on():
        tick()
        meter.ticked()
    meter.report(excess=True)
    viewer.close()


if __name__ == "__main__":
    main()
