"""Words read from strips of pixels, by a recurrent net in a Lightning module; a callback compares letters.

After every batch it makes strings of what was read, and counts by how many edits they differ from what
was written. Of how many strips is the dose. A perfect diagnosis: hot lines of Python on the training
thread (any line marked below). Fix: this happens every five hundred batches.
"""

import logging
import string
import warnings

import lightning
import torch
from stopwatch import Meter, amount_taking
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

COLUMNS, HEIGHT, LONGEST, BATCH = 32, 16, 10, 24
ALPHABET = string.ascii_lowercase + string.digits


class LetterReader(lightning.LightningModule):
    def __init__(self, size=96):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(HEIGHT, size, 5, padding=2), nn.ReLU())
        self.gru = nn.GRU(size, size, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(2 * size, len(ALPHABET))

    def forward(self, strips):
        states, _ = self.gru(self.conv(strips).transpose(1, 2))
        places = nn.functional.adaptive_avg_pool1d(states.transpose(1, 2), LONGEST)
        return self.letters(places.transpose(1, 2))

    def training_step(self, batch, number):
        strips, words = batch
        scores = self(strips)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten(), label_smoothing=0.1)
        return {"loss": loss, "read": scores.detach().argmax(2)}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def spell(indices):
    return "".join(ALPHABET[index] for index in indices)


def edits(one, other):
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            change = corner + (letter != wanted)  # planted
            corner, row[j] = row[j], min(change, row[j] + 1, row[j - 1] + 1)  # planted
    return row[-1]


class CharacterErrors(lightning.Callback):
    def __init__(self, meter, strips, every):
        self.meter, self.strips, self.every, self.rates = meter, strips, every, []

    def rate_of(self, read, words):
        wrong = total = 0
        for number in range(self.strips):
            row = number % len(words)
            said, meant = spell(read[row]), spell(words[row])
            wrong, total = wrong + edits(said, meant), total + len(meant)  # planted
        return wrong / max(1, total)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if (batch_idx + 1) % self.every == 0:
            with self.meter.injecting():
                rate = self.rate_of(outputs["read"].tolist(), batch[1].tolist())  # planted
                self.rates.append(rate)


class Clock(lightning.Callback):
    def __init__(self, meter):
        self.meter = meter

    def on_train_start(self, trainer, pl_module):
        self.meter.going_on()

    def on_train_batch_end(self, trainer, *rest):
        self.meter.ticked()
        trainer.should_stop = not self.meter.going_on()


def main():
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    meter, strips = Meter(__doc__), 4
    module = LetterReader()
    optimizer = module.configure_optimizers()
    pictures = torch.rand(40 * BATCH, HEIGHT, COLUMNS)
    words = torch.randint(len(ALPHABET), (40 * BATCH, LONGEST))

    def step():
        optimizer.zero_grad()
        module.training_step((pictures[:BATCH], words[:BATCH]), 0)["loss"].backward()
        optimizer.step()

    meter.calibrate(step)
    if meter.dose:
        read, written = torch.randint(len(ALPHABET), (BATCH, LONGEST)).tolist(), words[:BATCH].tolist()
        comparing = lambda count: lambda: CharacterErrors(meter, count, 1).rate_of(read, written)  # noqa: E731
        strips = amount_taking(meter, comparing, 4, 44, meter.added_s)
    callbacks = [CharacterErrors(meter, strips, 1 if meter.sick else 500), Clock(meter)]
    trainer = lightning.Trainer(
        accelerator="gpu" if meter.gpu else "cpu",
        devices=1,
        max_epochs=-1,
        callbacks=callbacks,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # A sample is a whole batch, and an epoch a great many.
    batches = TensorDataset(
        pictures.view(40, BATCH, HEIGHT, COLUMNS).repeat(40, 1, 1, 1),
        words.view(40, BATCH, LONGEST).repeat(40, 1, 1),
    )
    trainer.fit(module, DataLoader(batches, batch_size=None, num_workers=0))
    meter.report()


if __name__ == "__main__":
    main()
