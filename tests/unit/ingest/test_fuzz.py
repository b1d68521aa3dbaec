"""No input crashes a reader: each is fed its own format, broken in every way that disks and users know."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.diagnose.analysis import Question, analyse
from stoker.ingest import metrics_jsonl
from stoker.ingest.folder import _read
from stoker.ingest.formats import FORMATS
from stoker.ingest.source import Source
from stoker.model.evidence import FileReading
from stoker.report import classify, classify_data, markdown, text

# The same examples each time, so that what passed passes again; STOKER_FUZZ=500 draws as many new ones.
settings.register_profile("same", derandomize=True, max_examples=40)
settings.register_profile("new", max_examples=int(os.environ.get("STOKER_FUZZ", "40")))
settings.load_profile("new" if "STOKER_FUZZ" in os.environ else "same")

RECORDED = Path(__file__).parents[2] / "recordings" / "classify"
BENCH = RECORDED / "mimickit_bench"
RUN = BENCH / "runs" / "deepmimic_humanoid_ppo_args" / "default_e16"
STEP = {
    "type": "iter",
    "epoch": 1,
    "iter": 1,
    "data_time": 0.1,
    "iter_time": 0.2,
    "stage_times": {"time_loss": 1},
}
STEPS = "\n".join(json.dumps(STEP | {"iter": index}) for index in range(1, 400))
SMI = "".join(f"2026/02/17 13:00:00.{gpu}, {gpu}, 57 %, 4225 MiB, 24564 MiB\n" for gpu in range(2))
DMON = "# gpu   sm  mem   fb\n# Idx    %    %   MB\n" + "    0   45   12 4225\n    1   46   12 4225\n" * 40
TABLE = "| NVIDIA-SMI 550 |\n|   0  NVIDIA RTX |\n| 30% 45C | 4225MiB /  24564MiB |  57%  Default |\n"
MONITOR = (
    "=== 2026-02-17 13:41:08 ===\n0, 57 %, 4225 MiB, 24564 MiB, 1 W\ncurrent_case_note a in_progress_long\n"
)

SAMPLES: dict[str, bytes] = {
    "allocation profile": (BENCH / "allocation_profile.tsv").read_bytes(),
    "case manifest": (BENCH / "case_manifest.tsv").read_bytes()[:900],
    "case table": (RECORDED / "mimickit_longcycle" / "best_by_case.tsv").read_bytes(),
    "attempts": (RECORDED / "mimickit_longcycle/runs/deepmimic_humanoid_ppo_args/attempts.json").read_bytes(),
    "loop profile": (RECORDED / "snake" / "prof1_ui5_1.json").read_bytes(),
    "progress": (BENCH / "progress.json").read_bytes(),
    "step rows": STEPS.encode(),
    "durations": b'{"mode": "train", "step": 400, "duration": 4.0}\n' * 3,
    "iteration log": (RUN / "log.txt").read_bytes(),
    "bench GPU samples": (RUN / "gpu.csv").read_bytes(),
    "monitor log": MONITOR.encode() * 5,
    "nvidia-smi CSV": SMI.encode() * 60,
    "nvidia-smi dmon": DMON.encode(),
    "nvidia-smi table": b"Mon Feb 17 13:41:00 2026\n" + TABLE.encode(),
    "window notes": (RECORDED / "typed" / "windows" / "plan.md").read_bytes(),
    "off-policy console": b"[Episode 00001] total_reward: 4.0 epsilon: 0.5\n a_loss 8.7 c_loss 19.2\n",
    "console": (RUN / "console.log").read_bytes()[:1600],
    "settings": (RECORDED / "snake" / "config.yaml").read_bytes(),
}

NASTY = st.sampled_from(
    [
        *(b"\0", b"\xff\xfe", b"\r", b"\n", b"\r\n", b"\xe2\x80\xa8", b"\x1b[31m", b"\\n"),
        *(b"\t", b"|", b",", b'"', b"{", b"[", b"%", b"="),
        *(b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"[N/A]", b"null", b"true", b"A" * 3000),
    ]
)


@st.composite
def broken(draw: st.DrawFn, sample: bytes) -> bytes:
    """Truncated, with pieces put in, taken out, or doubled, and newlines of another kind."""
    content = bytearray(sample[: draw(st.integers(0, len(sample)))] if draw(st.booleans()) else sample)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(content)))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            content[at:at] = draw(st.one_of(NASTY, st.binary(max_size=20)))
        elif kind == 1:
            del content[at : at + draw(st.integers(1, 40))]
        else:
            content[at:at] = content[max(0, at - draw(st.integers(1, 200))) : at]
    newline = draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))
    return bytes(content).replace(b"\n", newline)


def test_every_format_has_a_sample():
    assert set(SAMPLES) == {known.name for known in FORMATS}


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_each_sample_is_recognised_as_what_it_is(known, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(SAMPLES[known.name])
    reading = _read(path, tmp_path)
    assert reading is not None
    assert reading.format == known.name


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_no_broken_file_crashes_its_reader_or_the_page(known, data):
    content = data.draw(broken(SAMPLES[known.name]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        forced = _forced(path, known)
        hurried = _hurried(path, known)
        recognised = _read(path, Path(folder))
    for reading in (forced, hurried, recognised):
        if reading is not None:
            _judge(reading)


def _forced(path: Path, known) -> FileReading:
    """Read as this format even where breaking it has made it unrecognisable."""
    head = path.read_bytes()[:65536].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    reading = known.read(Source(path, head, "utf-8-sig"))
    return FileReading(
        path, path.parent, known.name, reading.items, reading.ledger.count, tuple(reading.ledger.kept)
    )


def _hurried(path: Path, known) -> FileReading:
    """The quick way through step rows, which small files do not take by themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_jsonl, "_WORTH_A_PATTERN_BYTES", 0)
        return _forced(path, known)


def _judge(reading: FileReading) -> None:
    analysis = analyse([reading], Question(given={"workers": 4, "batch": 8}))
    page = classify.page(analysis, "fuzz", every_detail=True)
    assert all("\x1b" not in line for line in text.plain(page).split("\n"))
    markdown.render(page)
    json.dumps(classify_data.as_data(analysis), allow_nan=False)
    rows = classify_data.as_tsv(analysis).split("\n")
    assert len(rows) == len(analysis.cases) + 2
    assert {row.count("\t") for row in rows[:-1]} == {len(classify_data.TSV_COLUMNS) - 1}


@settings(deadline=None)
@given(content=st.binary(max_size=4000))
def test_any_bytes_at_all(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        reading = _read(path, Path(folder))
    assert reading is None or reading.format in SAMPLES
    if reading is not None:
        _judge(reading)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_a_line_of_many_megabytes_is_survived(known, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(SAMPLES[known.name] + b"\n" + b"7," * 1_500_000 + b"\n")
    reading = _forced(path, known)
    assert reading.items or reading.bad_count  # what stands before it is kept, or the damage is told
    _judge(reading)
