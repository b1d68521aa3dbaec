"""lightning's Trainer with a train and a validation loader; nothing is logged, nothing is saved.

Tick: an optimizer step; validation every 40 of them. `--steps` counts optimizer steps.
"""

import logging
import warnings

import lightning
import torch
from tiny_job import Losses, arguments, report
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self, losses: Losses) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        self.losses = losses

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.losses.add(loss.item())
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        nn.functional.mse_loss(self.model(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def loader(rows: int, shuffle: bool) -> DataLoader:
    inputs = torch.randn(rows, 16)
    return DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=16, shuffle=shuffle)


def main() -> None:
    args = arguments(__doc__, steps=120)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    torch.set_num_threads(1)
    lightning.seed_everything(0, verbose=False)
    trainer = lightning.Trainer(
        max_steps=args.steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(Losses(args.losses)), loader(640, shuffle=True), loader(64, shuffle=False))
    report(ticks=trainer.global_step, env_steps=0)


if __name__ == "__main__":
    main()
