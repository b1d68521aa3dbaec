"""A small convolutional training on the GPU: `knobbed.py KIND`, KIND says what the script sets itself.

Prints one line of JSON: what the knobs are about, as the script finds it, and every loss in hex.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, SAMPLES, BATCH = 3, 256, 32


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Linear(16, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.second(self.first(images).relu()).relu()
        return self.out(hidden.mean((2, 3)))


def main() -> None:
    kind = sys.argv[1]
    torch.manual_seed(0)
    if kind == "sets_all":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    if kind == "deterministic":
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True, warn_only=True)
    images, numbers = torch.randn(SAMPLES, 3, 32, 32), torch.arange(float(SAMPLES))[:, None]
    loader = DataLoader(TensorDataset(images, numbers), BATCH, shuffle=True, pin_memory=kind == "sets_all")
    model = Net().cuda()
    fused = True if kind == "sets_all" else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    losses, order, pinned, types = [], [], set(), set()
    for _ in range(EPOCHS):
        for batch, number in loader:
            pinned.add(batch.is_pinned())
            order += number.flatten().int().tolist()
            given = {"non_blocking": True} if kind == "sets_all" else {}
            made = model(batch.to("cuda", **given))
            types.add(str(made.dtype))
            loss = nn.functional.mse_loss(made, number.cuda(**given) / SAMPLES)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    told = {
        "losses": losses,
        "order": order,
        "pinned": sorted(pinned),
        "types": sorted(types),
        "keys": list(model.state_dict()),
        "fused": optimizer.param_groups[0]["fused"],
        "precision": torch.get_float32_matmul_precision(),
        "benchmark": torch.backends.cudnn.benchmark,
        "channels_last": model.second.weight.is_contiguous(memory_format=torch.channels_last),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
