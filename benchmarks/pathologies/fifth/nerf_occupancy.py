"""A radiance field with an occupancy grid, which marks in every step the cells where something was found.

The cells are chosen by a mask, and how many there are only the GPU knows: the host waits for it, and the rays
of the next step are made while the GPU has nothing to do. Doses 1 to 3 cost about 17, 33 and 46 %. A perfect
diagnosis names the hidden wait, marked below. Fix: all cells are written, by `scatter_reduce_`.
"""

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

SHARES, CELLS, BANDS = (0.0, 0.2, 0.5, 0.85), 64, 8


class Cameras:
    """Rays through random pixels, bent by each camera's lens in some rounds."""

    def __init__(self, rays, lens_rounds=0):
        self.rng, self.rays, self.lens_rounds = np.random.default_rng(0), rays, lens_rounds

    def shoot(self):
        pixels = self.rng.random((self.rays, 2), dtype=np.float32) - 0.5
        for _ in range(self.lens_rounds):
            radius = np.square(pixels).sum(1, keepdims=True)
            pixels = pixels * (1 + 0.001 * radius - 0.0005 * radius**2)
        depth = np.ones((self.rays, 1), np.float32)
        direction = np.concatenate([pixels, depth], 1)
        return torch.from_numpy(direction / np.linalg.norm(direction, axis=1, keepdims=True))


class OccupancyGrid:
    def __init__(self, device):
        self.density = torch.zeros(CELLS**3, device=device)

    def cells(self, points):
        x, y, z = ((points * 0.5 + 0.5).clamp(0, 0.999) * CELLS).long().unbind(-1)
        return (x * CELLS + y) * CELLS + z

    def mark_found(self, cells, sigma):
        found = sigma > 0.01
        self.density[cells[found]] = sigma[found]  # planted

    def mark_all(self, cells, sigma):
        self.density.scatter_reduce_(0, cells, sigma, "amax")


class Field(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(6 * BANDS, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.leave = nn.Linear(width, 4)
        self.register_buffer("bands", 2.0 ** torch.arange(BANDS))

    def forward(self, points):
        waves = (points[..., None] * self.bands).flatten(-2)
        h = F.relu(self.enter(torch.cat([waves.sin(), waves.cos()], -1)))
        for layer in self.body:
            h = F.relu(layer(h), inplace=True)
        out = self.leave(h).float()
        return out[..., :3].sigmoid(), F.softplus(out[..., 3])


class Renderer:
    def __init__(self, meter):
        self.meter, (self.rays, self.samples) = meter, meter.pick((1024, 16), (16, 8))
        self.field = Field(*meter.pick((2048, 10), (48, 2))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.field.parameters(), 1e-5, fused=meter.gpu)
        self.grid = OccupancyGrid(meter.device)
        self.far = torch.linspace(0.1, 1.0, self.samples, device=meter.device)
        self.pixels = torch.rand(self.rays, 3, device=meter.device)

    def step(self, rays, mark):
        rays = (rays.pin_memory() if self.meter.gpu else rays).to(self.meter.device, non_blocking=True)
        points = (rays[:, None] * self.far[:, None]).flatten(0, 1)
        with self.meter.autocast():
            rgb, sigma = self.field(points)
        alpha = 1 - torch.exp(-sigma.view(-1, self.samples) / self.samples)
        clear = torch.cumprod(1 - alpha + 1e-6, 1)
        colour = ((alpha * clear)[..., None] * rgb.view(-1, self.samples, 3)).sum(1)
        self.optimizer.zero_grad(set_to_none=True)
        F.mse_loss(colour, self.pixels).backward()
        self.optimizer.step()
        mark(self.grid.cells(points), sigma.detach())


def main():
    meter = Meter(__doc__)
    renderer = Renderer(meter)
    cameras = Cameras(renderer.rays)
    meter.calibrate(lambda: renderer.step(cameras.shoot(), renderer.grid.mark_all))
    plain_s = meter.timed_s(cameras.shoot, calls=10)
    cameras.lens_rounds = 50
    round_s = (meter.timed_s(cameras.shoot, calls=10) - plain_s) / 50
    wanted_s = SHARES[meter.dose] * meter.healthy_s
    cameras.lens_rounds = max(0, round((wanted_s - plain_s) / round_s))
    mark = renderer.grid.mark_found if meter.sick else renderer.grid.mark_all
    while meter.going_on():
        renderer.step(cameras.shoot(), mark)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
