"""Birds by bilinear pooling: the root of the covariance comes from Newton-Schulz rounds in full fp32.

The products are a function of its own that asks for fp32 under autocast. How many rounds there are is the
dose. A perfect diagnosis: matrix products without tensor cores (marked below). Fix: ordinary products, under
autocast like the rest.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn
from torch.amp import custom_bwd, custom_fwd

BIRDS, FEATURES = 200, 128


class ExactProduct(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a @ b  # planted

    @staticmethod
    @custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad @ b.mT, a.mT @ grad


class RootPooling(nn.Module):
    def __init__(self, size, rounds, product):
        super().__init__()
        self.rounds, self.product = rounds, product
        self.register_buffer("unit", torch.eye(size))

    def covariance(self, features):
        features = features - features.mean(1, keepdim=True)
        return self.product(features.mT, features) / features.shape[1]

    def forward(self, features):
        cov = self.covariance(features).float()
        size = cov.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] + 1e-3
        root, inverse = cov / size, self.unit.expand_as(cov)
        for _ in range(self.rounds):
            step = 1.5 * self.unit - 0.5 * self.product(inverse, root).float()
            root, inverse = self.product(root, step).float(), self.product(step, inverse).float()
        return root * size.sqrt()


class Birds(nn.Module):
    def __init__(self, width, depth, pooled, product):
        super().__init__()
        self.enter = nn.Linear(FEATURES, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.narrow = nn.Linear(width, pooled)
        self.pool = RootPooling(pooled, 1, product)
        self.bird = nn.Linear(pooled, BIRDS)

    def forward(self, x):
        h = F.relu(self.enter(x))
        for layer in self.body:
            h = h + F.relu(layer(h))
        return self.bird(self.pool(self.narrow(h)).mean(1))


class Training:
    def __init__(self, meter):
        self.meter, (photos, places, width, depth, self.pooled) = (
            meter,
            meter.pick((32, 256, 4096, 5, 384), (2, 16, 48, 1, 16)),
        )
        self.model = Birds(width, depth, self.pooled, torch.matmul).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-5, fused=meter.gpu)
        self.photos = torch.randn(photos, places, FEATURES, device=meter.device)
        self.birds = torch.randint(BIRDS, (photos,), device=meter.device)

    def step(self):
        with self.meter.autocast():
            scores = self.model(self.photos)
        loss = F.cross_entropy(scores.float(), self.birds)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def round_s(training):
    """A round more in fp32, forward and backward."""
    count, size = len(training.photos), training.pooled
    features = torch.randn(count, size, size, device=training.meter.device, requires_grad=True)
    times = []
    for rounds in (1, 6):
        pool = RootPooling(size, rounds, ExactProduct.apply).to(training.meter.device)
        times.append(training.meter.timed_s(lambda p=pool: p(features).sum().backward(), calls=5))
    return max(1e-6, (times[1] - times[0]) / 5)


def main():
    meter = Meter(__doc__)
    training = Training(meter)
    meter.calibrate(training.step)
    if meter.dose:
        training.model.pool.rounds = 1 + max(1, round(1.1 * meter.added_s / round_s(training)))
    if meter.sick:
        training.model.pool.product = ExactProduct.apply
    while meter.going_on():
        training.step()
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
