"""metrics.jsonl: the quick way and the careful way give the same; appended runs are told apart."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from stoker.ingest import metrics_jsonl, parts
from stoker.ingest.folder import collect
from stoker.ingest.source import open_source


def row(iteration, epoch=1, **more):
    return {
        "type": "iter",
        "rank": 0,
        "epoch": epoch,
        "iter": iteration,
        "lr": 1e-4,
        "data_time": iteration / 1000,
        "iter_time": 1.0,
        **more,
    }


def lines(rows):
    return "\n".join(json.dumps(each) for each in rows) + "\n"


def test_nested_and_flat_stage_times_are_the_same(read):
    nested = row(1, stage_times={"time_forward": 0.25, "time_backward": 0.5})
    flat = row(1, time_forward=0.25, time_backward=0.5)
    logs = [read(lines([one]))[1].items[0] for one in (nested, flat)]
    assert logs[0].stage_s == logs[1].stage_s == {"time_forward": 0.25, "time_backward": 0.5}


def test_iter_warn_and_epoch_rows(read):
    name, reading = read(
        lines(
            [
                row(10),
                {"type": "warn", "epoch": 1, "iter": 11, "message": "x"},
                row(20),
                {"type": "epoch", "epoch": 1},
                row(10, epoch=2),
            ]
        )
    )
    (log,) = reading.items
    assert name == "step rows"
    assert (list(log.iters), list(log.epochs), log.warnings, log.epochs_closed) == (
        [10, 20, 10],
        [1, 1, 2],
        1,
        1,
    )


def test_an_appended_run_is_a_session_of_its_own(read):
    _, reading = read(lines([row(10), row(20), row(10), row(20), row(30)]))
    assert [list(log.iters) for log in reading.items] == [[10, 20], [10, 20, 30]]
    assert [log.first_line for log in reading.items] == [1, 3]


def test_bad_rows_are_counted_and_the_rest_is_kept(read):
    _, reading = read(
        lines([row(1)])
        + '{"type": "iter", "epo\n[1]\n{"type": "iter", "iter": 2}\n{"type":"x"}\n'
        + lines([row(3)])
    )
    assert [bad.line for bad in reading.ledger.kept] == [2, 3, 4, 5]
    assert list(reading.items[0].iters) == [1, 3]


def test_a_missing_data_time_is_missing_not_zero(read):
    without = row(2)
    del without["data_time"]
    _, reading = read(lines([row(1), without]))
    assert reading.items[0].data_s[1] != reading.items[0].data_s[1]


@pytest.fixture
def careful(monkeypatch):
    def read_all_by_json(path):
        monkeypatch.setattr(metrics_jsonl, "_WORTH_A_PATTERN_BYTES", 10**12)
        return metrics_jsonl.read(open_source(path))

    return read_all_by_json


@pytest.fixture
def by_pattern(monkeypatch):
    monkeypatch.setattr(metrics_jsonl, "_WORTH_A_PATTERN_BYTES", 0)


BETWEEN = (
    '{"type": "epoch", "epoch": 1}',
    "garbage",
    '{"type": "iter", "iter',
    '{"type": "warn"}',
    "",
    json.dumps(row(7)),
    '{"iter": 5, "iter_time": 2.0, "data_time": 1e-05}',
)


def disturbed(rows, seed):
    """Rows with everything that can come between them."""
    draw = random.Random(seed)
    texts = [json.dumps(each) for each in rows]
    for _ in range(5):
        texts.insert(draw.randrange(len(texts)), draw.choice(BETWEEN))
    return "\n".join(texts) + "\n"


def many_rows(draw, *, epochs):
    for index in range(700):
        place = (index % 100 + 1, index // 100) if epochs else (index + 1, 1)
        data_s = draw.choice([draw.random(), 5.19e-05, 1, 0.0])
        yield row(*place, data_time=data_s, stage_times={"data_time": 99.0, "time_loss": 0.5})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["clean", "epochs", "disturbed"])
def test_the_pattern_and_json_agree(tmp_path: Path, by_pattern, careful, kind, seed):
    rows = list(many_rows(random.Random(seed), epochs=kind == "epochs"))
    path = tmp_path / "metrics"
    path.write_text(disturbed(rows, seed) if kind == "disturbed" else lines(rows))
    quick = metrics_jsonl.read(open_source(path))
    assert quick.notes  # it says that stage times come from rows drawn at random
    slow = careful(path)
    assert [(log.iters, log.epochs, log.step_s, log.first_line) for log in quick.items] == [
        (log.iters, log.epochs, log.step_s, log.first_line) for log in slow.items
    ]
    assert [list(map(str, log.data_s)) for log in quick.items] == [
        list(map(str, log.data_s)) for log in slow.items
    ]
    assert (quick.ledger.count, quick.ledger.kept) == (slow.ledger.count, slow.ledger.kept)
    longest = max(quick.items, key=lambda log: len(log.iters))
    assert longest.stage_s["time_loss"] == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["clean", "epochs", "disturbed"])
def test_parts_read_by_several_processes_are_one_file(tmp_path: Path, monkeypatch, by_pattern, kind):
    rows = list(many_rows(random.Random(3), epochs=kind == "epochs"))
    path = tmp_path / "metrics"
    path.write_text(disturbed(rows, 3) if kind == "disturbed" else lines(rows))
    whole = metrics_jsonl.read(open_source(path))
    monkeypatch.setattr(parts, "_SMALLEST_PART_BYTES", 20_000)
    monkeypatch.setattr(parts.os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert len(parts._bounds(path, path.stat().st_size)) == 4
    cut = metrics_jsonl.read(open_source(path))
    assert [
        (log.iters, log.epochs, log.step_s, log.first_line, log.warnings, log.epochs_closed)
        for log in cut.items
    ] == [
        (log.iters, log.epochs, log.step_s, log.first_line, log.warnings, log.epochs_closed)
        for log in whole.items
    ]
    assert (cut.ledger.count, cut.ledger.kept) == (whole.ledger.count, whole.ledger.kept)


def test_the_recorded_run_gives_what_its_rows_say(recordings: Path):
    (reading,) = collect([recordings / "lanemaster3d" / "starved_10workers_every_step.jsonl"]).files
    (log,) = reading.items
    assert (len(log.iters), log.epochs_closed, reading.bad_count) == (200, 1, 0)
    assert log.sample_s == pytest.approx(1.54, abs=0.01)
    assert set(log.sample_parts_s) == {"ann", "image", "lanes", "camera"}
