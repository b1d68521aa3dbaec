"""Healthy control: which instrument plays, by a Lightning module; one worker cuts sound to pieces.

Tempting: a single worker, epochs that end every hundred batches, and a value logged in each; but the
worker stays, and is ready before the step is. A perfect diagnosis: healthy, nothing to mend. The dose is
taken and does nothing; there is no planted line.
"""

import logging
import warnings

import lightning
import numpy as np
import torch
from stopwatch import Meter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SAMPLES, INSTRUMENTS, BATCH, EPOCH = 1024, 11, 24, 100


class Pieces(Dataset):
    def __init__(self):
        self.sound = np.random.default_rng(0).normal(size=400_000).astype(np.float32)

    def __len__(self):
        return EPOCH * BATCH

    def __getitem__(self, index):
        begin = index * 157 % (len(self.sound) - SAMPLES)
        piece = self.sound[begin : begin + SAMPLES]
        return piece / (np.abs(piece).max() + 1e-6), index % INSTRUMENTS


class InstrumentModule(lightning.LightningModule):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 16, 4),
            nn.ReLU(),
            nn.Conv1d(width, 2 * width, 8, 2),
            nn.ReLU(),
            nn.Conv1d(2 * width, 2 * width, 8, 2),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(4),
            nn.Flatten(),
            nn.Linear(8 * width, INSTRUMENTS),
        )
        self.smoothed = 0.0

    def training_step(self, batch, number):
        pieces, instruments = batch
        loss = nn.functional.cross_entropy(self.net(pieces[:, None]), instruments)
        self.smoothed = 0.99 * self.smoothed + 0.01 * loss.item()
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 10)]


class MeterCallback(lightning.Callback):
    def __init__(self, meter):
        self.meter = meter

    def on_train_batch_end(self, trainer, *rest):
        self.meter.ticked()
        trainer.should_stop = not self.meter.going_on()


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    meter, module = Meter(__doc__), InstrumentModule()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    batch = torch.rand(BATCH, SAMPLES), torch.zeros(BATCH, dtype=torch.long)

    def step():
        loss = module.training_step(batch, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    meter.calibrate(step)
    trainer = lightning.Trainer(
        accelerator="gpu" if meter.gpu else "cpu",
        devices=1,
        max_epochs=-1,
        callbacks=[MeterCallback(meter)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(Pieces(), BATCH, shuffle=True, num_workers=1, persistent_workers=True)
    meter.going_on()
    trainer.fit(module, loader)
    meter.report()


if __name__ == "__main__":
    main()
