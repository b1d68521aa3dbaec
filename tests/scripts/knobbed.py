"""One training with all that runtime knobs touch: `knobbed.py KIND`, KIND says what is peculiar about it.

Prints one line of JSON: types the model returned, keys of its state_dict, whether its optimizer is fused, all
samples in order, and the last loss in hex.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, Sampler, TensorDataset

EPOCHS, SAMPLES = 3, 40


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self):  # type: ignore[no-untyped-def]
        for number in range(SAMPLES):
            yield torch.randn(3, 6, 6), torch.tensor([float(number)])


class Own(Sampler):  # type: ignore[type-arg]
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(range(SAMPLES))

    def __len__(self) -> int:
        return SAMPLES


class Fragile(TensorDataset):
    """Works in the process that made it, and nowhere else."""

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError("not in a worker")
        return super().__getitem__(index)


SHARED = torch.Generator().manual_seed(5)
"""Of a sampler and of the training itself."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(4, 1)

    def forward(self, images: torch.Tensor) -> dict[str, object]:
        hidden = self.conv(images).relu().mean((2, 3))
        return {"out": self.out(self.drop(hidden)).sigmoid(), "hidden": [hidden]}


def loader_of(kind: str) -> DataLoader:  # type: ignore[type-arg]
    numbers = torch.arange(float(SAMPLES))[:, None]
    data = (Fragile if kind == "fragile" else TensorDataset)(torch.randn(SAMPLES, 3, 6, 6), numbers)
    if kind == "iterable":
        return DataLoader(Stream(), 8)
    if kind == "sampler":
        return DataLoader(data, 8, sampler=Own())
    if kind == "generator":
        return DataLoader(data, 8, shuffle=True, generator=torch.Generator().manual_seed(3))
    if kind == "replacement":
        chosen = RandomSampler(data, replacement=True, num_samples=SAMPLES, generator=SHARED)
        return DataLoader(data, 8, sampler=chosen)
    return DataLoader(data, 8, shuffle=True, num_workers=2 if kind == "workers" else 0)


def main() -> None:
    kind = sys.argv[1]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = loader_of(kind)
    early = iter(loader) if kind == "early" else None  # before the model draws its weights
    model, judge = Net(), nn.BCELoss()  # BCELoss refuses autocast
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True if kind == "fused" else None)
    types, order, loss = set(), [], torch.zeros(())
    for epoch in range(EPOCHS):
        for images, number in early if early is not None and not epoch else loader:
            if kind == "replacement":
                images = images + 0.01 * torch.randn(images.shape, generator=SHARED)
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "autocast"):
                made = model(images)
            if kind == "autocast":
                made["out"] = made["out"].float()
            types |= {str(made["out"].dtype), str(made["hidden"][0].dtype)}
            loss = judge(made["out"], number / SAMPLES)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            order += number.flatten().int().tolist()
    told = {
        "types": sorted(types),
        "keys": list(model.state_dict()),
        "order": order,
        "loss": loss.item().hex(),
    }
    told["fused"] = optimizer.param_groups[0]["fused"]
    told["threads"] = torch.get_num_threads()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
