"""An image classifier that runs its whole validation set every few training steps.

A perfect diagnosis: a large share of the time goes into evaluation, which starts at the line marked below;
too often. (The GPU may be busy in it; no training is done.) Fix: twenty times less often.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from meter import Meter
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.mixers = nn.ModuleList()
        for _ in range(depth):
            wide = nn.Conv2d(width, 4 * width, 1), nn.GELU(), nn.Conv2d(4 * width, width, 1)
            self.mixers.append(
                nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(1, width), *wide)
            )
        self.head = nn.Linear(width, 100)

    def forward(self, images):
        x = self.patches(images)
        for mixer in self.mixers:
            x = x + mixer(x)
        return self.head(x.mean(dim=(2, 3)))


@torch.no_grad()
def validate(model, loader, meter):
    model.eval()
    right = seen = 0
    for images, labels in loader:
        images, labels = images.to(meter.device), labels.to(meter.device)
        with meter.autocast():
            right += (model(images).argmax(1) == labels).sum().item()
        seen += len(labels)
    model.train()
    return right / seen


def main():
    meter = Meter(__doc__)
    side, batch = meter.pick((64, 256), (16, 32))
    model = Classifier(*meter.pick((384, 6), (16, 2))).to(meter.device, memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    images = torch.randn(4 * batch, 3, side, side, device=meter.device)
    labels = torch.randint(100, (4 * batch,), device=meter.device)
    held_out = TensorDataset(torch.randn(4 * batch, 3, side, side), torch.randint(100, (4 * batch,)))
    val_loader = DataLoader(held_out, batch_size=batch)

    def train_step():
        chosen = torch.randint(len(labels), (batch,), device=meter.device)
        with meter.autocast():
            loss = F.cross_entropy(model(images[chosen]), labels[chosen], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    healthy_s = meter.calibrate(train_step)
    validate_s = meter.timed_s(lambda: validate(model, val_loader, meter))
    every = max(1, round(validate_s / (meter.share * healthy_s))) if meter.dose else 1_000_000
    if meter.fixed:
        every *= 20
    while meter.going_on():
        loss = train_step()
        meter.ticked()
        if meter.ticks % every == 0:
            shown = f"step {meter.ticks}  loss {loss.item():.3f}"
            with meter.injecting():
                accuracy = validate(model, val_loader, meter)  # planted
            print(f"{shown}  accuracy {accuracy:.3f}", flush=True)
    meter.report()


if __name__ == "__main__":
    main()
