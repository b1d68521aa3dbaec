"""The verb: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.commands import main
from stoker.ingest.formats import FORMATS


def run(capsys, *arguments):
    code = main(["classify", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_the_page_goes_to_stdout_and_ends_with_the_next_command(capsys, recordings: Path):
    code, out, err = run(capsys, recordings / "mimickit_published")
    assert (code, err) == (0, "")
    assert "3 VRAM-bound, 3 compute-heavy, 12 balanced and 7 throughput/env-bound" in out
    assert out.rstrip().split("\n")[-1].startswith("next: stoker run -- ")


FORMS = {
    "--json": '"schema": "stoker.classify/1"',
    "--tsv": "case\tmethod\tclass",
    "--md": "# stoker classify",
    "--details": "Checklist: deepmimic_humanoid_ppo",
}


@pytest.mark.parametrize("flag", FORMS)
def test_other_forms(capsys, recordings: Path, flag):
    code, out, _ = run(capsys, recordings / "mimickit_bench", flag)
    assert code == 0
    assert FORMS[flag] in out


def test_a_folder_with_nothing_readable_says_what_was_looked_for(capsys, tmp_path):
    (tmp_path / "thesis.txt").write_text("prose\n")
    code, out, err = run(capsys, tmp_path)
    assert (code, out) == (2, "")
    assert "thesis.txt" in err
    assert all(known.name in err for known in FORMATS)


@pytest.mark.parametrize("content", [None, b"", b"\0\0\0"])
def test_empty_missing_and_binary(capsys, tmp_path, content):
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    code, _, err = run(capsys, path)
    assert code == 2
    assert err.startswith("error: nothing that can be judged")
    assert ("does not exist" in err) is (content is None)


def test_compare(capsys, recordings: Path):
    before, after = sorted((recordings / "mimickit_published").iterdir())
    code, out, _ = run(capsys, "--compare", before, after)
    assert code == 0
    assert "3 came back to work, 22 only before" in out
    data = json.loads(run(capsys, "--compare", before, after, "--json")[1])
    assert data["schema"] == "stoker.classify.compare/1"
    assert sum(case["works"] == "works now" for case in data["cases"]) == 3
    assert run(capsys, "--compare", before, after, "--tsv")[1].count("\n") == 26
    assert run(capsys, "--compare", before, after, "--md")[1].startswith("# ")


def test_what_the_user_knows_completes_the_sum(capsys, recordings: Path):
    path = recordings / "lanemaster3d"
    assert "0.62 s per batch" not in run(capsys, path)[1]
    assert "0.62 s per batch" in run(capsys, path, "--given", "workers=10", "--given", "batch=4")[1]


def test_limits_and_targets(capsys, recordings: Path):
    path = recordings / "mimickit_published"
    assert "19 balanced" in run(capsys, path, "--limit", "util_low_pct=20")[1]
    assert "not met" in run(capsys, path, "--target", "util=80")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--target", "speed=9", "x"],
        ["--target", "util=fast", "x"],
        ["--target", "util=nan", "x"],
        ["--limit", "util_low_pct=99", "x"],
        ["--given", "workers", "x"],
        ["x", "--compare", "a", "b"],
        ["--json", "--md", "x"],
    ],
)
def test_bad_usage_is_exit_2_without_a_traceback(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_it_writes_nothing(capsys, tmp_path, recordings: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(capsys, recordings / "mimickit_bench", "--md")
    assert list(tmp_path.iterdir()) == []
