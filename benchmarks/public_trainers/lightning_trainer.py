"""Lightning's Trainer on a GPU for some seconds: a small vision transformer, AdamW, bf16.

    stoker run -- python benchmarks/public_trainers/lightning_trainer.py [--seconds 20] [--workers 4]

`Trainer.fit` with a train and a validation loader, a learning-rate schedule, `self.log`, and the progress bar
off; nothing is saved.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from datetime import timedelta
from types import ModuleType

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES, PICTURE, PATCH = 10, 64, 8


class Noise(Dataset):
    """Drawn and normalised for every sample, as augmentation would be."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, PICTURE, PICTURE, generator=generator)
        label = index % CLASSES
        picture[:, : label + 1] += 0.5  # something to learn
        return (picture - picture.mean()) / picture.std(), label


class Patches(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros((PICTURE // PATCH) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        tokens = self.embed(pictures).flatten(2).transpose(1, 2) + self.places
        return self.head(self.blocks(tokens).mean(dim=1))


def make_module(lightning: ModuleType, width: int, layers: int):
    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Patches(width, layers)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
            guesses = self.model(batch[0]).argmax(dim=1)
            self.log("accuracy", (guesses == batch[1]).float().mean())

        def configure_optimizers(self) -> dict:
            optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    return Classifier()


def find_lightning() -> ModuleType:
    """Under its new name or its old one."""
    try:
        return importlib.import_module("lightning")
    except ImportError:
        return importlib.import_module("pytorch_lightning")


def train(args: argparse.Namespace) -> None:
    lightning = find_lightning()

    def loader(count: int) -> DataLoader:
        workers = {"num_workers": args.workers, "persistent_workers": args.workers > 0}
        return DataLoader(Noise(count), args.batch_size, pin_memory=args.accelerator == "gpu", **workers)

    trainer = lightning.Trainer(
        max_time=timedelta(seconds=args.seconds),
        max_epochs=-1,
        accelerator=args.accelerator,
        devices=1,
        precision="bf16-mixed",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = make_module(lightning, args.width, args.layers)
    trainer.fit(module, loader(100 * args.batch_size), loader(args.batch_size))
    figures = {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}
    print(f"step {trainer.global_step}  {figures}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--accelerator", default="gpu", help="cpu tries the script out")
    args = parser.parse_args()
    if args.accelerator == "gpu" and not torch.cuda.is_available():
        print("lightning_trainer.py needs an NVIDIA GPU: torch finds none here", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    train(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
