"""Inside DataLoader workers, however started: what was fetched, how long it took, by which worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.model.record import Worker

SAMPLES, BATCH, EPOCHS = 22, 4, 2
BATCHES = EPOCHS * 6


def assert_fetched(workers: list[Worker]) -> None:
    """Lower bounds only: the script sleeps 2 ms for a sample and 1 ms for a collate."""
    assert sum(worker.samples for worker in workers) == EPOCHS * SAMPLES
    assert sum(worker.batches for worker in workers) == BATCHES
    for worker in workers:
        assert worker.wall_s >= 0.002 * worker.samples + 0.001 * worker.batches
        assert worker.collate_s >= 0.001 * worker.batches
        assert worker.sample_max_s >= 0.002
        assert 0 < worker.cpu_s < worker.wall_s
        assert worker.wall_s <= worker.alive_s


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers(method: str, watch, scripts: Path) -> None:
    workers = 2 if method == "fork" else 1  # each imports torch anew with the others
    done = watch("python", str(scripts / "loaded.py"), method, str(workers))
    assert (done.code, done.err) == (0, "")
    truth = json.loads(done.out)
    record = done.main.record
    assert len(done.processes) == 1, "workers share a file, they are no trainers"
    assert (record.last.ticks, record.last.samples) == (truth["ticks"], truth["samples"])
    assert len(record.workers) == EPOCHS * workers, "they are started anew for each epoch"
    assert {worker.number for worker in record.workers} == set(range(workers))
    assert record.pid not in {worker.pid for worker in record.workers}
    assert_fetched(list(record.workers))
    (loader,) = record.loaders
    assert (loader.batches, loader.epochs, loader.length) == (BATCHES, EPOCHS, 6)
    assert loader.depth_mean is not None
    assert "DataLoader(" in line_of(loader.made)
    assert record.last.phase("data") > 0
    assert not record.hook_failures


def test_no_workers(forked, scripts: Path) -> None:
    done = forked(scripts / "loaded.py", "fork", "0")
    record = done.main.record
    assert record.last.samples == EPOCHS * SAMPLES
    (worker,) = record.workers
    assert (worker.number, worker.pid) == (None, record.pid)
    assert_fetched([worker])
    assert record.last.phase("data") >= worker.wall_s - 1e-4


def test_a_hook_that_fails_in_a_worker_is_listed(forked, scripts: Path) -> None:
    done = forked(scripts / "loaded.py", "fork", "2", env={"STOKER_FAULT": "fetch:3"})
    assert done.code == 0, done.err
    (failed,) = done.main.record.hook_failures
    assert (failed.name, failed.when) == ("fetch", "call, in a worker")
    assert done.main.record.last.samples == EPOCHS * SAMPLES


LOADERS = """
import threading, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(10, 4))
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step(batch):
    model(batch).mean().backward()
    optimizer.step()
"""


def recorded(forked, tmp_path: Path, code: str):
    script = tmp_path / "loaders.py"
    script.write_text(LOADERS + code)
    done = forked(script)
    assert done.code == 0, done.err
    return done.main.record


def line_of(place) -> str:
    path, number, _ = place.leaf
    return Path(path).read_text().splitlines()[number - 1].strip()


def test_the_line_that_makes_a_loader_is_told(forked, tmp_path: Path) -> None:
    """Also in a class of its own, and where many are made that are never read from."""
    code = """
class Mine(DataLoader):
    def __init__(self, data):
        super().__init__(data, 5)

def main():
    made = [Mine(data)]
    made.append(DataLoader(data, 2))  # made, too
    unused = [DataLoader(data, 1) for _ in range(100)]
    for loader in made:
        for (batch,) in loader: step(batch)

main()
"""
    record = recorded(forked, tmp_path, code)
    told = [(loader.batch_size, line_of(loader.made)) for loader in record.loaders]
    assert told == [
        (5, "made = [Mine(data)]"),
        (2, "made.append(DataLoader(data, 2))  # made, too"),
    ]
    assert not record.hook_failures


def test_a_loader_made_anew_each_epoch_is_one(forked, tmp_path: Path) -> None:
    code = "for epoch in range(5):\n    for (batch,) in DataLoader(data, 4): step(batch)\n"
    record = recorded(forked, tmp_path, code)
    assert [(loader.epochs, loader.batches) for loader in record.loaders] == [(5, 15)]
    assert record.last.samples == 50


def test_two_loaders_stay_two(forked, tmp_path: Path) -> None:
    code = "for epoch in range(3):\n    for (batch,) in DataLoader(data, 5): step(batch)\n"
    code += "    for (batch,) in DataLoader(data, 2): step(batch)\n"
    record = recorded(forked, tmp_path, code)
    assert [(loader.batch_size, loader.batches) for loader in record.loaders] == [(5, 6), (2, 15)]


def test_batches_of_a_sampler_count_their_rows(forked, tmp_path: Path) -> None:
    code = "batches = [[0, 1, 2], [3], (4, 5)]\n"
    code += "for (batch,) in DataLoader(data, batch_sampler=batches): step(batch)\n"
    record = recorded(forked, tmp_path, code)
    assert record.last.samples == 6
    assert sum(worker.samples for worker in record.workers) == 6


def test_a_thread_that_fetches_ahead_does_not_disturb(forked, tmp_path: Path) -> None:
    """Its fetching is no time of the training thread."""
    code = "import queue\nahead = queue.Queue(2)\nstep(torch.randn(2, 4))\n"
    code += "def fetch():\n    for (batch,) in DataLoader(data, 2): ahead.put(batch)\n    ahead.put(None)\n"
    code += "threading.Thread(target=fetch).start()\n"
    code += "for batch in iter(ahead.get, None): step(batch)\n"
    record = recorded(forked, tmp_path, code)
    assert record.last.ticks == 6
    assert record.last.phase("data") == 0
    assert sum(worker.batches for worker in record.workers) == 5
