"""The page on the recordings, to the letter; and what must hold on any page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.diagnose.analysis import Question, analyse
from stoker.diagnose.compare import changes
from stoker.diagnose.targets import Target, TargetName
from stoker.ingest.folder import collect
from stoker.report import classify, classify_data, compare_page, markdown, text

FOLDERS = (
    "mimickit_published",
    "mimickit_bench",
    "mimickit_longcycle",
    "mimickit_newton_cpu",
    "lanemaster3d",
    "snake",
    "typed/windows",
    "typed/sweep",
    "typed/monitor",
)


def analysis_of(recordings: Path, *folders: str, **question):
    return analyse(collect([recordings / folder for folder in folders]).files, Question(**question))


@pytest.mark.parametrize("folder", FOLDERS)
def test_page_of_80_columns(folder, recordings, golden):
    shown = text.plain(classify.page(analysis_of(recordings, folder), f"stoker classify {folder}"))
    assert max(map(len, shown.split("\n"))) <= 80
    golden(f"classify_{folder.replace('/', '_')}.txt", shown)


def test_markdown_report(recordings, golden):
    page = classify.page(analysis_of(recordings, "mimickit_published"), "Classes", every_detail=True)
    golden("classify_mimickit_published.md", markdown.render(page))


def test_tsv(recordings, golden):
    golden(
        "classify_mimickit_published.tsv", classify_data.as_tsv(analysis_of(recordings, "mimickit_published"))
    )


def test_targets_on_the_page(recordings):
    targets = (Target(TargetName.UTIL, 60),)
    shown = text.plain(classify.page(analysis_of(recordings, "mimickit_published", targets=targets), "t"))
    rows = [line.split() for line in shown.split("\n")]
    assert "Targets: util 60 met by 3 of 25" in shown
    assert ["ase_humanoid", "met", "66.9"] in rows
    assert ["add_go2", "not", "met", "27.4"] in rows


def test_json_has_a_schema_and_every_case_with_its_actions(recordings):
    data = json.loads(json.dumps(classify_data.as_data(analysis_of(recordings, *FOLDERS)), allow_nan=False))
    assert data["schema"] == "stoker.classify/1"
    assert all(set(case["actions"]) == {"machine", "job", "stable"} for case in data["cases"])
    assert all(len(case["checklist"]) == 5 for case in data["cases"])
    assert sum(data["classes"].values()) == len(data["cases"])


def test_bad_lines_are_shown_with_file_and_number(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("case\tmin_avg_util\tsamples_per_s\na\t50\t1\nb\thigh\t1\n")
    shown = text.plain(classify.page(analyse(collect([path]).files, Question()), "t"))
    assert "t.tsv:3: min_avg_util is not a number: high" in shown


def test_hostile_names_are_escaped(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("case\tmin_avg_util\n\x1b[31m|<script>`x`\t50\n")
    page = classify.page(analyse(collect([path]).files, Question()), "t")
    assert "\x1b" not in text.plain(page)
    assert "<script>" not in markdown.render(page)


def test_comparison_page(tmp_path, golden):
    head = "case\tmethod\tstatus\tvariant\tnum_envs\tmin_avg_util\tsamples_per_s\telapsed_s\n"
    sides = {
        "before": "a\tm\tok\tv\t8\t30\t100\t60\nb\tm\tok\tv\t8\t50\t100\t60\nc\tm\tok\tv\t8\t50\t100\t60\n",
        "after": "a\tm\tok\tv\t8\t50\t150\t60\nb\tm\toom\tv\t8\t1\t0\t60\nd\tm\tok\tw\t8\t50\t100\t60\n",
    }
    for side, rows in sides.items():
        (tmp_path / side).write_text(head + rows)
    cases = [analyse(collect([tmp_path / side]).files, Question()).cases for side in sides]
    shown = text.plain(compare_page.page(changes(*cases), "before", "after"))
    assert max(map(len, shown.split("\n"))) <= 80
    golden("classify_compare.txt", shown)
