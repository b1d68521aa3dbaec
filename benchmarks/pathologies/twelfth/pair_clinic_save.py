"""Two faults: who will come back to the clinic is read from SQLite, and every so often all is saved.

The loader has a batch size and `shuffle`, and nothing else. Each takes three quarters of a dose. A perfect
diagnosis names both: the training thread queries and parses for itself, as the loader has no workers (first
or last marked line), and checkpoints much too often (second). Fix: workers, each with a connection of its
own, and a checkpoint every few thousand steps.
"""

import json
import random
import sqlite3
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking, blanks
from torch import nn
from torch.utils.data import DataLoader, Dataset

MONTHS, FIELDS, PATIENTS, PART, RARELY = 24, 6, 60, 0.75, 5000


def write_clinic(path, visits):
    rng = random.Random(0)
    clinic = sqlite3.connect(path)
    clinic.execute("CREATE TABLE visits (patient INTEGER, month INTEGER, record TEXT)")
    for patient in range(PATIENTS):
        for _ in range(visits):
            record = {"values": [round(rng.random(), 4) for _ in range(FIELDS)], "ward": rng.randrange(9)}
            row = (patient, rng.randrange(MONTHS), json.dumps(record))
            clinic.execute("INSERT INTO visits VALUES (?, ?, ?)", row)
    clinic.execute("CREATE INDEX by_patient ON visits (patient)")
    clinic.commit()
    clinic.close()
    return path


class Patients(Dataset):
    def __init__(self, path):
        self.path, self.clinic = path, None

    def __len__(self):
        return 500_000

    def __getitem__(self, index):
        if self.clinic is None:
            self.clinic = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        months = torch.zeros(MONTHS, FIELDS)
        query = "SELECT month, record FROM visits WHERE patient = ?"
        for month, record in self.clinic.execute(query, (index % PATIENTS,)):
            months[month] += torch.tensor(json.loads(record)["values"])
        return months, float(index % 3 == 0)


class ReturnNet(nn.Module):
    """Looks at each patient several times, with other months left out."""

    def __init__(self, looks, width, depth):
        super().__init__()
        self.looks, self.enter, self.back = looks, nn.Linear(MONTHS * FIELDS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, months):
        months = months.log1p().repeat(self.looks, 1, 1)
        h = self.enter((months * (torch.rand_like(months[:, :, :1]) < 0.8)).flatten(1))
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.back(h).float().view(self.looks, -1).mean(0)


class Study:
    def __init__(self, meter, folder):
        self.meter, self.batch, self.path = meter, meter.pick(32, 16), Path(folder, "study.pt")
        self.net = ReturnNet(*meter.pick((256, 4096, 5), (6, 160, 4))).to(meter.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), 1e-5, fused=meter.gpu)

    def loader(self, patients, **options):
        return DataLoader(patients, self.batch, shuffle=True, pin_memory=self.meter.gpu, **options)  # planted

    def step(self, months, came):
        months, came = (part.to(self.meter.device, non_blocking=True) for part in (months, came))
        with self.meter.autocast():
            scores = self.net(months)
        loss = F.binary_cross_entropy_with_logits(scores, came.float())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def save(self):
        torch.save(self.net.state_dict(), self.path)  # planted


def visits_taking(meter, folder, batch):
    def reading(visits):
        patients = Patients(write_clinic(Path(folder, f"{visits}.db"), visits))
        return lambda: patients[7]

    wanted_s = meter.host_s - (1 - PART) * meter.added_s
    return amount_taking(meter, reading, 4, 54, max(1e-5, wanted_s / batch), calls=60)


def main():
    meter, visits, every = Meter(__doc__), 4, RARELY
    with tempfile.TemporaryDirectory() as folder:
        study = Study(meter, folder)
        blank = blanks(meter, torch.zeros(study.batch, MONTHS, FIELDS), torch.zeros(study.batch))
        meter.calibrate(lambda: study.step(*blank))
        if meter.dose:
            visits = visits_taking(meter, folder, study.batch)
        if meter.sick:
            every = max(1, round(meter.timed_s(study.save) / (PART * meter.added_s)))
        patients = Patients(write_clinic(Path(folder, "clinic.db"), visits))
        workers = {} if meter.sick else {"num_workers": meter.pick(10, 1)}
        stream = iter(study.loader(patients, **workers))
        study.step(*next(stream))
        while meter.going_on():
            with meter.injecting():
                months, came = next(stream)  # planted
            study.step(months, came)
            meter.ticked()
            if meter.ticks % every == 0:
                with meter.injecting():
                    study.save()
        meter.report(excess=meter.gpu)
        del stream


if __name__ == "__main__":
    main()
