"""Rain of a month, region by region, from fields of pressure; the net is plain functions of a dict.

How well each region is foretold is measured after every so many steps. How many is the dose. A perfect
diagnosis: evaluation takes too large a part of the time (any line marked below). Fix: every few thousand.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter

LATITUDES, LONGITUDES, REGIONS, BATCH, RARELY = 16, 24, 10, 36, 5000


def init(generator, width=24, hidden=256):
    def normal(*shape, fan):
        return torch.randn(*shape, generator=generator) * fan**-0.5

    flat = 2 * width * (LATITUDES // 4) * (LONGITUDES // 4)
    return {
        "conv1": normal(width, 2, 3, 3, fan=18),
        "conv2": normal(2 * width, width, 3, 3, fan=9 * width),
        "dense": normal(hidden, flat, fan=flat),
        "rain": normal(REGIONS, hidden, fan=hidden),
        "bias": torch.zeros(REGIONS),
    }


def apply(weights, fields):
    x = F.max_pool2d(F.relu(F.conv2d(fields, weights["conv1"], padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, weights["conv2"], padding=1)), 2)
    x = F.relu(F.linear(x.flatten(1), weights["dense"]))
    return F.softplus(F.linear(x, weights["rain"], weights["bias"]))


def make_update(weights, lr=0.01, momentum=0.9):
    """Nesterov's, by hand."""
    speed = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    def update(fields, rain):
        loss = F.mse_loss(apply(weights, fields).log1p(), rain.log1p())
        slopes = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for (name, weight), slope in zip(weights.items(), slopes, strict=True):
                speed[name].mul_(momentum).add_(slope)
                weight.sub_(lr * (slope + momentum * speed[name]))
        return loss.detach()

    return update


def make_skill(weights, years):
    """Per region: one less the error's share of the variance."""

    @torch.no_grad()
    def skill():
        guesses, truths = [], []
        for fields, rain in years:
            guesses.append(apply(weights, fields))  # planted
            truths.append(rain)
        guess, truth = torch.cat(guesses), torch.cat(truths)
        error = (guess - truth).square().mean(0)
        return (1 - error / truth.var(0)).tolist()

    return skill


def main():
    meter = Meter(__doc__)
    generator = torch.Generator().manual_seed(11)
    weights = {name: weight.to(meter.device).requires_grad_() for name, weight in init(generator).items()}
    years = [
        (
            torch.randn(BATCH, 2, LATITUDES, LONGITUDES, generator=generator).to(meter.device),
            torch.rand(BATCH, REGIONS, generator=generator).to(meter.device),
        )
        for _ in range(14)
    ]
    train_years, test_years = years[:6], years[6:]
    update, skill = make_update(weights), make_skill(weights, test_years)
    meter.calibrate(lambda: update(*train_years[0]))
    test_every, best = RARELY, float("-inf")
    if meter.sick:
        test_every = max(1, round(meter.timed_s(skill) / meter.added_s))
    while meter.going_on():
        update(*train_years[meter.ticks % len(train_years)])
        meter.ticked()
        if meter.ticks % test_every == 0:
            with meter.injecting():
                regions = skill()  # planted
            best = max(best, sum(regions) / REGIONS)
    meter.report()


if __name__ == "__main__":
    main()
