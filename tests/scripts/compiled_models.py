"""One small training of a model that is easy or hard to compile: `compiled_models.py KIND [DEVICE]`.

Prints one line of JSON: keys of its state_dict and the last loss in hex.
"""

import json
import sys

import torch
from torch import nn


class Broken(nn.Module):
    """What follows the break is never compiled; with `everything`, nothing is."""

    def __init__(self, everything: bool) -> None:
        super().__init__()
        self.one, self.two, self.everything = nn.Linear(4, 4), nn.Linear(4, 1), everything

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.everything:
            return self.not_compiled(rows)
        return self.not_compiled(self.one(rows).relu()) * 2

    @torch._dynamo.disable
    def not_compiled(self, rows: torch.Tensor) -> torch.Tensor:
        return self.two(rows)  # type: ignore[no-any-return]


def model_of(kind: str) -> nn.Module:
    if kind in ("sequential", "compiled"):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
        return torch.compile(model, backend="eager") if kind == "compiled" else model
    return Broken(everything=kind == "nothing")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    model = model_of(sys.argv[1]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.zeros(())
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4, device=device)).square().mean()
        loss.backward()
        optimizer.step()
    sys.stdout.write(json.dumps({"keys": list(model.state_dict()), "loss": loss.item().hex()}) + "\n")


if __name__ == "__main__":
    main()
