"""A robot arm learns from pixels, off-policy; the replay hands out whole windows, and one frame is used.

How long a window is is the dose. A perfect diagnosis: large blocking copies to the GPU from pageable memory
(marked below). Fix: pinned windows, copied ahead on another stream.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SIDE, JOINTS = 64, 7


class Windows:
    """Two batches of windows in turn, as a replay hands them out: bytes, on the host."""

    def __init__(self, batch, frames):
        self.frames = [
            torch.full((batch, frames, 3, SIDE, SIDE), 60 + n, dtype=torch.uint8) for n in range(2)
        ]
        self.turn = 0

    def sample(self):
        self.turn += 1
        return self.frames[self.turn % 2]


class Replay:
    def __init__(self, windows, device):
        self.windows, self.device = windows, device

    def next(self):
        return self.windows.sample().to(self.device)  # planted


class ReplayAhead:
    """The next window travels while this one is learned."""

    def __init__(self, windows, device):
        windows.frames = [frames.pin_memory() for frames in windows.frames]
        self.windows, self.device, self.side = windows, device, torch.cuda.Stream()
        self._send()

    def _send(self):
        with torch.cuda.stream(self.side):
            self.coming = self.windows.sample().to(self.device, non_blocking=True)

    def next(self):
        here = torch.cuda.current_stream()
        here.wait_stream(self.side)
        frames = self.coming
        frames.record_stream(here)
        self._send()
        return frames


class PixelCritic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.value = nn.Linear(width + JOINTS, 1)

    def forward(self, picture, action):
        h = self.stem(picture)
        for conv in self.body:
            h = h + F.relu(conv(h))
        return self.value(torch.cat([h.mean((2, 3)), action], 1)).float()[:, 0]


class Arm:
    def __init__(self, meter):
        self.meter, self.batch = meter, meter.pick(256, 4)
        channels = {"memory_format": torch.channels_last}
        self.critic = PixelCritic(*meter.pick((384, 7), (16, 2))).to(meter.device, **channels)
        self.optimizer = torch.optim.AdamW(self.critic.parameters(), 1e-5, fused=meter.gpu)
        self.action = torch.randn(self.batch, JOINTS, device=meter.device)
        self.reward = torch.rand(self.batch, device=meter.device)

    def learn(self, frames):
        picture = frames[:, -1].float().div_(255).contiguous(memory_format=torch.channels_last)
        with self.meter.autocast():
            value = self.critic(picture, self.action)
        loss = F.smooth_l1_loss(value, self.reward)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def frame_s(arm):
    """One frame more for the whole batch, from ordinary memory."""
    probe = Windows(arm.batch, 16).sample()
    return arm.meter.timed_s(lambda: probe.to(arm.meter.device, copy=True), calls=5) / 16


def main():
    meter = Meter(__doc__)
    arm, frames = Arm(meter), 1
    here = Windows(arm.batch, 1).sample().to(meter.device)
    meter.calibrate(lambda: arm.learn(here))
    if meter.dose:
        frames = max(1, round(meter.added_s / frame_s(arm)))
    ahead = meter.gpu and not meter.sick
    replay = (ReplayAhead if ahead else Replay)(Windows(arm.batch, frames), meter.device)
    while meter.going_on():
        arm.learn(replay.next())
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
