"""The row and the file of a deep window, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.inside import wire
from stoker.inside.deep_trace import HEADER
from stoker.model.deep import Activity
from stoker.store.deep_files import read_note, read_trace

ROW = {
    "k": "deep",
    "state": "taken",
    "mode": "asked",
    "why": "",
    "t": 100.0,
    "end": 101.0,
    "ticks": 2,
    "events": 3,
    "dropped": 0,
    "details": True,
    "clock_us": 0.2,
    "stall_s": {"prepare": 0.5, "teardown": None},
    "cuda_graphs": False,
    "file": "12-0.deep.tsv",
    "names": ["gemm", "Memcpy HtoD (Pageable -> Device)"],
}
FILE = (
    f"{wire.COPY}\t500000000\t1000\t0\t7\t1\t4096\t-1\t-1\n"
    f"{wire.KERNEL}\t1000\t2000\t0\t7\t0\t-1\t330\t25\n"
    f"{wire.KERNEL}\t9000\t2000\t0\t7\t99\t-1\t-1\t-1\n"
    f"{wire.HOST}\t0\t1000000000\t-1\t-1\t{wire.BACKWARD}\t-1\t-1\t-1\n"
    f"{wire.TICK}\t0\t0\t-1\t-1\t-1\t-1\t-1\t-1\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "12-0.deep.tsv").write_text(HEADER + FILE)
    return tmp_path


def test_a_whole_one(folder: Path) -> None:
    trace = read_trace(folder, read_note(ROW))
    assert trace is not None
    gemm, unnamed, copy = trace.events
    assert (gemm.kind, gemm.name, gemm.blocks_per_sm, gemm.occupancy_pct) == (
        Activity.KERNEL,
        "gemm",
        0.33,
        25,
    )
    assert gemm.moved_bytes is None
    assert (gemm.start_s, gemm.end_s) == pytest.approx((1e-6, 3e-6))
    assert unnamed.name == "?"
    assert (copy.kind, copy.moved_bytes, copy.blocks_per_sm) == (Activity.COPY, 4096, None)
    assert [(span.phase, span.end_s) for span in trace.host] == [("backward", 1.0)]
    assert trace.ticks_s == (0.0,)
    assert trace.note.stall_s == {"prepare": 0.5, "teardown": None}


def test_torn_and_foreign_lines_are_passed_over(folder: Path) -> None:
    path = folder / "inside" / "12-0.deep.tsv"
    path.write_text(HEADER + "1\t2\n77\t0\t0\t0\t0\t0\t0\t0\t0\n" + FILE + f"{wire.KERNEL}\t1\t")
    trace = read_trace(folder, read_note(ROW))
    assert trace is not None
    assert len(trace.events) == 3


def test_a_file_that_is_gone(folder: Path) -> None:
    (folder / "inside" / "12-0.deep.tsv").unlink()
    assert read_trace(folder, read_note(ROW)) is None


def test_a_file_of_another_folder_is_not_read(folder: Path) -> None:
    (folder / "12-0.deep.tsv").write_text(HEADER + FILE)
    note = read_note({**ROW, "file": "../12-0.deep.tsv"})
    assert note.file == "12-0.deep.tsv"


def test_one_that_was_not_taken(folder: Path) -> None:
    note = read_note({"state": "not taken", "mode": "auto", "why": "no CUDA"})
    assert (note.taken, note.why) == (False, "no CUDA")
    assert read_trace(folder, note) is None


@pytest.mark.parametrize("wrong", [{"state": "?"}, {"t": 101.0}, {"end": float("nan")}, {"ticks": "x"}])
def test_a_row_that_makes_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        read_note({**ROW, **wrong})
