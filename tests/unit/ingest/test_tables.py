"""Case tables in their four schemas, profiles, manifests, attempts and progress."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.ingest.folder import collect
from stoker.model.evidence import CaseRow, Manifest, Progress, Stage

V1 = """case method status variant num_envs elapsed_s iteration samples samples_per_s avg_util0 avg_util1
min_avg_util max_util0 max_util1 max_mem0 max_mem1 max_power0 max_power1 agent_config base_agent out_dir"""
E2E = """case method case_type variant agent_config num_envs train_rc train_timeout train_ok test_rc test_ok
viz_rc viz_ok final_ok note out_dir train_out_dir train_log test_log viz_log"""
V1, E2E = V1.split(), E2E.split()
V2 = [*V1[:-1], "objective", "selection_reason", "score", "out_dir"]


def tsv(columns, *rows):
    lines = ["\t".join(columns)]
    lines += ["\t".join(str(row.get(column, "")) for column in columns) for row in rows]
    return "\n".join(lines) + "\n"


def test_the_published_table_has_blanks_and_they_stay_unknown(recordings: Path):
    folder = recordings / "mimickit_published" / "case_gpu_bench_20260212_002319"
    (reading,) = collect([folder]).files
    rows = {row.case: row for row in reading.items if isinstance(row, CaseRow)}
    assert (len(rows), reading.bad_count) == (25, 0)
    assert rows["add_g1_args.txt"].peak_mem_mib == ()
    assert rows["add_g1_args.txt"].min_avg_util_pct == 35.66
    assert rows["add_go2_args.txt"].peak_mem_mib == (3873.0, 7412.0)
    assert rows["add_pi_plus_args.txt"].ok is False


@pytest.mark.parametrize(("columns", "count"), [(V1, 21), (V2, 24), (E2E, 20)])
def test_schemas_are_read_by_column_name(read, columns, count):
    assert len(columns) == count
    row = {
        "case": "a_args.txt",
        "status": "ok",
        "final_ok": 1,
        "train_ok": 1,
        "num_envs": 64,
        "min_avg_util": "50.5",
    }
    name, reading = read(tsv(columns, row))
    (found,) = reading.items
    assert name == "case table"
    assert (found.ok, found.setting.num_envs, found.stage) == (True, 64, Stage.PROBE)
    assert found.min_avg_util_pct == (50.5 if "min_avg_util" in columns else None)


def test_the_long_cycle_has_43_columns_a_budget_and_no_utilisation(recordings: Path):
    (reading,) = collect([recordings / "mimickit_longcycle" / "best_by_case.tsv"]).files
    (row,) = reading.items
    assert (
        len((recordings / "mimickit_longcycle" / "best_by_case.tsv").read_text().split("\n")[0].split("\t"))
        == 43
    )
    assert (row.stage, row.min_avg_util_pct) == (Stage.LONG, None)
    assert (row.budget.target_s, row.budget.elapsed_s, row.budget.exit_code) == (86400, 23.03, 1)


def test_bad_rows_are_counted_with_their_line(read):
    content = (
        tsv(V1, {"case": "a", "status": "ok", "min_avg_util": "high"})
        + "b\tadd\tok\n"
        + "\t".join("x" * 30)
        + "\n"
    )
    _, reading = read(content)
    assert [bad.line for bad in reading.ledger.kept] == [2, 3, 4]
    assert reading.ledger.count == 3
    assert [row.case for row in reading.items] == ["a", "b"]
    assert reading.items[0].min_avg_util_pct is None


def test_a_markdown_summary_is_a_table_too(read):
    content = (
        "# summary\n\n| case | method | status | variant | num_envs | min_avg_util | samples/s | out_dir |\n"
        "|---|---|---|---|---|---|---|---|\n"
        "| `a_args.txt` | add | ok | hiutil | 40 | 45.35 | 193.21 | x |\n\nprose | here\n"
    )
    name, reading = read(content)
    (row,) = reading.items
    assert (name, row.case, row.samples_per_s) == ("case table", "a_args.txt", 193.21)


def test_an_allocation_profile_is_known_to_repeat_a_table(recordings: Path):
    (reading,) = collect([recordings / "mimickit_bench" / "allocation_profile.tsv"]).files
    assert reading.format == "allocation profile"
    assert all(row.repeats_a_better_row for row in reading.items)


def test_manifest_and_progress(recordings: Path):
    files = {reading.format: reading for reading in collect([recordings / "mimickit_longcycle"]).files}
    (manifest,) = files["case manifest"].items
    assert isinstance(manifest, Manifest)
    assert sum(trains for _, _, trains in manifest.cases) == 25
    assert files["progress"].items == (Progress(1, 1, "deepmimic_humanoid_ppo_args.txt", "completed_case"),)


def test_attempts_that_were_cut_off_keep_the_whole_ones(read):
    whole = json.dumps(
        [{"case": "a", "variant": "default", "num_envs": 32, "final_ok": 0, "note": "probe_oom"}] * 2
    )
    name, reading = read(whole[: len(whole) - 20])
    assert (name, len(reading.items), reading.ledger.count) == ("attempts", 1, 1)
    assert reading.items[0].ok is False
