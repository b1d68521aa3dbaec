from __future__ import annotations

from typing import Any

import pytest

from stoker.diagnose.loading import demand_per_s, loader_views
from stoker.diagnose.places import call_site, line_shares, shown
from stoker.diagnose.window import training_window
from stoker.model.record import Blocking, Place, Sampled

Make = Any


def test_a_phases_share_is_split_by_the_looks(make: Make) -> None:
    looks = {("other", "a.py:1 f"): 30, ("other", "a.py:2 f"): 10, ("data", "a.py:9 g"): 100}
    record = make.training({"other": 0.4, "data": 0.2, "forward": 0.4}, sampled=make.looks(looks))
    found = line_shares(record, training_window(record).content)
    assert [(line.phase, line.place.leaf[1], round(line.pct, 3)) for line in found if line.place.leaf] == [
        ("other", 1, 30.0),
        ("data", 9, 20.0),
        ("other", 2, 10.0),
    ]


def test_a_few_looks_say_nothing(make: Make) -> None:
    record = make.training({"other": 1.0}, sampled=make.looks({("other", "a.py:1 f"): 4}))
    assert line_shares(record, training_window(record).content) == []


def test_device_waits_carry_their_own_time(make: Make) -> None:
    """Their lines are timed: looks into the same phase are not needed, and not counted twice."""
    waits = (
        Blocking("sync", make.place("a.py:5 f"), 90, 9.0),
        Blocking("sync", make.place("a.py:6 f"), 10, 3.0),
    )
    record = make.training(
        {"sync": 0.4, "forward": 0.6}, blocking=waits, sampled=make.looks({("sync", "a.py:5 f"): 50})
    )
    found = line_shares(record, training_window(record).content)
    assert [(line.exact, round(line.pct), line.count) for line in found] == [(True, 30, 90), (True, 10, 10)]


def test_a_model_is_called_from_the_line_outside_of_its_forward(make: Make) -> None:
    looks = [
        look(
            12,
            "net.py:24 Block.forward",
            "net.py:31 Net.forward",
            "train.py:41 Agent.act",
            "train.py:90 main",
        ),
        look(3, "net.py:32 Net.forward", "train.py:41 Agent.act", "train.py:90 main"),
        look(1, "train.py:41 Agent.act", "train.py:90 main"),
        look(2, "net.py:32 Net.forward", "train.py:58 Agent.learn", "train.py:92 main"),
    ]
    record = make.training({"infer": 1.0}, sampled=tuple(looks))
    found = call_site(record, "infer")
    assert found is not None
    assert found.leaf == ("train.py", 41, "Agent.act")
    assert call_site(record, "forward") is None


def look(count: int, leaf: str, *callers: str) -> Sampled:
    line, *above = (_line(text) for text in (leaf, *callers))
    return Sampled("infer", "train", Place(line, line), count, tuple(above))


def _line(text: str) -> tuple[str, int, str]:
    where, function = text.split()
    path, number = where.split(":")
    return path, int(number), function


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("buffers.py:120 Buffer.sample", "buffers.py:120 Buffer.sample"),
        ("pkg/a.py:3 outer.<locals>.inner", "pkg/a.py:3 inner"),
        ("numpy/core.py:9 f < train.py:5 main", "numpy/core.py:9 f < train.py:5 main"),
    ],
)
def test_how_a_line_is_shown(make: Make, place: str, text: str) -> None:
    assert shown(make.place(place), "/home/me/project") == text


@pytest.mark.parametrize(
    ("room", "text"),
    [
        (80, "gym/wrappers/record.py:88 RecordVideo.step < train.py:7 main"),
        (50, "record.py:88 RecordVideo.step < train.py:7 main"),
        (37, "record.py:88 Recor… < train.py:7 main"),
        (5, "… < train.py:7 main"),
    ],
)
def test_where_room_is_scarce_the_users_line_stays(room: int, text: str) -> None:
    library = ("/env/lib/python3.11/site-packages/gym/wrappers/record.py", 88, "RecordVideo.step")
    assert shown(Place(library, ("/home/me/train.py", 7, "main")), "/home/me", room) == text


def test_lines_elsewhere_are_shown_by_their_file() -> None:
    line = ("/opt/elsewhere/sim.py", 4, "step")
    assert shown(Place(line, line), "/home/me/project") == "sim.py:4 step"
    assert shown(Place(None, None)) == "outside Python code"


def test_what_the_workers_deliver(make: Make) -> None:
    workers = (
        make.worker(0, wall_s=50.0, cpu_s=40.0, collate_s=2.0),
        make.worker(1, wall_s=70.0, cpu_s=50.0),
    )
    record = make.training(
        {"data": 0.5, "forward": 0.5}, loaders=(make.loader(id=1, batches=10), make.loader()), workers=workers
    )
    view, other = loader_views(record)
    assert (view.loader.id, other.loader.id) == (0, 1)
    assert view.fetch_ms == pytest.approx(100.0)
    assert view.supply_per_s == pytest.approx(20.0)
    assert view.sample_ms == pytest.approx(1000 * (120 - 3.2) / 38400)
    assert view.collate_ms == pytest.approx(1000 * 3.2 / 1200)
    assert view.cpu_frac == pytest.approx(0.75)
    assert view.busy_frac == pytest.approx(1.0)
    assert demand_per_s(training_window(record).content) == pytest.approx(40.0)


def test_a_loader_without_workers(make: Make) -> None:
    record = make.training(
        {"data": 1.0}, loaders=(make.loader(num_workers=0),), workers=(make.worker(None), make.worker(0))
    )
    (view,) = loader_views(record)
    assert (view.workers, view.busy_frac) == (0, None)
    assert view.fetch_ms == pytest.approx(95.0)


def test_nothing_is_known_of_workers_that_never_wrote(make: Make) -> None:
    (view,) = loader_views(make.training({"data": 1.0}, loaders=(make.loader(),)))
    assert (view.fetch_ms, view.sample_ms, view.supply_per_s, view.cpu_frac) == (None, None, None, None)
    assert loader_views(make.training({"data": 1.0}, loaders=(make.loader(batches=0),))) == []


def test_a_worker_outside_the_users_code_is_not_told(make: Make) -> None:
    reads = make.place("data.py:8 read").user
    workers = (make.worker(0, lines=((reads, reads, 30), (None, None, 300))),)
    record = make.training({"data": 1.0}, loaders=(make.loader(),), workers=workers)
    assert loader_views(record)[0].lines == [(reads, 1.0)]
