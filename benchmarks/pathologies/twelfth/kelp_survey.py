"""Kelp and what lives in it, told apart by an MLP-Mixer; settings, files and net are modules of a package.

The settings' number of workers is still that of a laptop: none. How large the photographs are is the dose. A
perfect diagnosis: PNG files are decoded by the training thread, which makes its batches itself (at the loader
or the line that asks it, both marked). Fix: workers.
"""

import tempfile
from dataclasses import asdict, replace
from functools import partial

import torch
import torch.nn.functional as F
from kelp.mixer import Mixer
from kelp.photos import Photos, write_photos
from kelp.settings import CARD, LAPTOP
from stopwatch import Meter, amount_taking, blanks
from torch.utils.data import DataLoader


class Survey:
    def __init__(self, meter, settings):
        self.meter, self.settings, self.net = meter, settings, Mixer(settings).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), settings.rate, fused=meter.gpu)

    def step(self, photos, species):
        photos, species = (part.to(self.meter.device, non_blocking=True) for part in (photos, species))
        with self.meter.autocast():
            scores = self.net(photos)
        loss = F.cross_entropy(scores.float(), species)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def batches(meter, dataset, settings):
    loader = DataLoader(dataset, **asdict(settings.loader))  # planted
    stream = iter(loader)
    while True:
        with meter.injecting():
            batch = next(stream)  # planted
        yield batch


def main():
    meter = Meter(__doc__)
    settings = meter.pick(CARD, LAPTOP)
    survey, size = Survey(meter, settings), settings.loader.batch_size
    photos = torch.zeros(size, 3, settings.side, settings.side, dtype=torch.uint8)
    meter.calibrate(partial(survey.step, *blanks(meter, photos, torch.zeros(size, dtype=torch.long))))
    if not meter.sick:
        settings = replace(settings, loader=replace(settings.loader, num_workers=meter.pick(12, 1)))
    with tempfile.TemporaryDirectory() as folder:

        def reading(rows):
            return partial(Photos(write_photos(folder, rows), settings.side).__getitem__, 5)

        rows = amount_taking(meter, reading, 16, 256, meter.host_s / size) if meter.dose else 16
        stream = batches(meter, Photos(write_photos(folder, rows), settings.side), settings)
        survey.step(*next(stream))
        meter.injected_s = 0.0
        while meter.going_on():
            survey.step(*next(stream))
            meter.ticked()
        meter.report(excess=meter.gpu)
        stream.close()


if __name__ == "__main__":
    main()
