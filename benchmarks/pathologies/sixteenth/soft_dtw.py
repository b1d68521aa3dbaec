"""How people move is taken over by a robot; a loss lets it be early or late: soft dynamic time warping.

The loss is an autograd function of the project's own, which fills its tables cell by cell in Python, when
it goes forward and when it goes back. How many motions are compared so is the dose. A perfect diagnosis:
hot lines of Python on the training thread (any line marked below). Fix: a diagonal of all tables at once.
"""

import math

import torch
from stopwatch import Meter, amount_taking
from torch import nn

POSE, JOINTS, FRAMES, BATCH, FAR = 24, 14, 12, 32, 1e6


def softmin(a, b, c):
    low = min(a, b, c)
    return low - math.log(math.exp(low - a) + math.exp(low - b) + math.exp(low - c))  # planted


def fill(costs):
    """A border of cells that nobody passes, and what each other cell costs at best."""
    table = [[FAR] * (FRAMES + 1) for _ in range(FRAMES + 1)]
    table[0][0] = 0.0
    for i, row in enumerate(costs):
        above, here = table[i], table[i + 1]
        for j, cost in enumerate(row):
            here[j + 1] = cost + softmin(above[j], above[j + 1], here[j])  # planted
    return table


def share(table, costs, i, j, di, dj):
    """How much of a later cell's best way comes from this one."""
    if i + di > FRAMES or j + dj > FRAMES:
        return 0.0
    return math.exp(min(0.0, table[i + di][j + dj] - costs[i + di - 1][j + dj - 1] - table[i][j]))  # planted


def passed(table, costs):
    shares = [[0.0] * (FRAMES + 2) for _ in range(FRAMES + 2)]
    shares[FRAMES][FRAMES] = 1.0
    for i in range(FRAMES, 0, -1):
        for j in range(FRAMES, 0, -1):
            for di, dj in ((1, 0), (0, 1), (1, 1)):
                shares[i][j] += share(table, costs, i, j, di, dj) * shares[i + di][j + dj]  # planted
    return [row[1:-1] for row in shares[1:-1]]


class SoftDTW(torch.autograd.Function):
    spent = None

    @staticmethod
    def forward(ctx, costs):
        with SoftDTW.spent():
            ctx.costs = costs.tolist()
            ctx.tables = [fill(rows) for rows in ctx.costs]
            return costs.new_tensor([table[-1][-1] for table in ctx.tables])

    @staticmethod
    def backward(ctx, slope):
        with SoftDTW.spent():
            ways = [passed(table, rows) for table, rows in zip(ctx.tables, ctx.costs, strict=True)]
            return slope[:, None, None] * slope.new_tensor(ways)


def dtw_by_diagonals(costs):
    last = costs.new_full((len(costs), FRAMES + 1), FAR)
    before = torch.cat([costs.new_zeros(len(costs), 1), last[:, 1:]], 1)
    flipped = costs.flip(2)
    edge = last[:, :1]
    for number in range(2 * FRAMES - 1):
        cost = flipped.diagonal(FRAMES - 1 - number, 1, 2)
        low, high = max(0, number - FRAMES + 1), min(number, FRAMES - 1)
        ways = torch.stack([before[:, low : high + 1], last[:, low : high + 1], last[:, low + 1 : high + 2]])
        new = cost - (-ways).logsumexp(0)
        before = last
        padding = [edge.expand(-1, low + 1), new, edge.expand(-1, FRAMES - 1 - high)]
        last = torch.cat(padding, 1)
    return last[:, FRAMES]


class Retarget(nn.Module):
    def __init__(self, size=112):
        super().__init__()
        self.enter, self.leave = nn.Conv1d(POSE, size, 3, padding=1), nn.Conv1d(size, JOINTS, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv1d(size, size, 3, padding=1) for _ in range(3))

    def forward(self, poses):
        h = self.enter(poses.transpose(1, 2))
        for block in self.blocks:
            h = h + nn.functional.silu(block(h))
        return self.leave(h).transpose(1, 2)


def main():
    meter = Meter(__doc__)
    net = Retarget().to(meter.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4)
    poses = torch.randn(12, BATCH, FRAMES, POSE, device=meter.device).cumsum(2) / 3
    shown = torch.randn(12, BATCH, FRAMES, JOINTS, device=meter.device).cumsum(2) / 3
    SoftDTW.spent = meter.injecting

    def step(warped, compared):
        number = meter.ticks % len(poses)
        made = net(poses[number])
        costs = torch.cdist(made[:compared], shown[number, :compared]).square() / JOINTS
        still = (made[:, 1:] - made[:, :-1]).square().mean()
        loss = (made - shown[number]).abs().mean() + 0.05 * warped(costs).mean() + 0.1 * still
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    compared, warped = 8, dtw_by_diagonals
    meter.calibrate(lambda: step(warped, compared))
    if meter.dose:

        def comparing(count):
            costs = torch.rand(count, FRAMES, FRAMES, requires_grad=True)
            return lambda: SoftDTW.apply(costs).sum().backward()

        compared = max(1, min(BATCH, amount_taking(meter, comparing, 2, 12, meter.added_s)))
    if meter.sick:
        warped = SoftDTW.apply
    meter.injected_s = 0.0
    while meter.going_on():
        step(warped, compared)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
