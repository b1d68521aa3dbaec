"""Consoles, iteration logs, durations, profiles, notes and settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.ingest.failure_words import Failure, failure_in, failure_of_status
from stoker.ingest.folder import collect
from stoker.model.evidence import EvaluationText, FailureText, IterationLog, RunSettings, Stage, WindowSummary


def test_console_tables_of_any_width(read):
    table = "|  Iteration | {i} |\n| Wall_Time | {w} |\n| More_Than_Twenty_Letters | 1 |\n| Samples | {s} |\n"
    name, reading = read(
        table.format(i=0, w=0.001, s=100) + table.format(i=1, w=0.002, s=200) + "| Loss | nan |\n"
    )
    (log,) = reading.items
    assert name == "console"
    assert (list(log.samples), log.wall_s[1], log.complete) == ([100, 200], pytest.approx(7.2), True)
    assert reading.ledger.count == 1


def test_the_console_of_a_real_run_knows_when_it_evaluated(recordings: Path):
    (reading,) = collect([recordings / "mimickit_newton_cpu" / "console_default.log"]).files
    (log,) = reading.items
    assert isinstance(log, IterationLog)
    assert [index for index, evaluated in enumerate(log.evaluated) if evaluated] == [0, 7]
    assert log.envs_built == 8


def test_log_txt_with_carriage_returns_only(recordings: Path):
    path = recordings / "mimickit_bench" / "runs" / "deepmimic_humanoid_ppo_args" / "hiutil_e16" / "log.txt"
    assert b"\n" not in path.read_bytes()
    (reading,) = collect([path]).files
    (log,) = reading.items
    assert (reading.format, list(log.iterations), list(log.samples)) == (
        "iteration log",
        [0, 3],
        [1024, 4096],
    )


def test_a_truncated_log_txt_counts_its_last_row(read):
    _, reading = read("Iteration   Wall_Time   Samples  \r0   0.1   10   \r3   0.2")
    assert (len(reading.items[0].iterations), reading.ledger.count) == (1, 1)


def test_a_console_that_died_says_why_and_the_nccl_warning_is_no_reason(recordings: Path):
    folder = recordings / "mimickit_bench" / "runs" / "deepmimic_pi_plus_ppo_args" / "default_e32"
    (reading,) = collect([folder / "console.log"]).files
    (death,) = reading.items
    assert isinstance(death, FailureText)
    assert (death.kind, death.line) == (Failure.OOM.value, 2)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried", Failure.OOM),
        ("RuntimeError: Failed to allocate 12 bytes on device 'cuda:0'", Failure.OOM),
        ("ValueError: Array shapes must be non-negative, got -2", Failure.OVERFLOW),
        ("DistNetworkError: EADDRINUSE", Failure.PORT),
        ("torch.distributed.DistBackendError: NCCL error: unhandled", Failure.NCCL),
        ("KeyError: 'x'", Failure.ERROR),
        ("NCCL version 2.21.5+cuda12.4", None),
        ("WARNING: destroy_process_group() was not called (ProcessGroupNCCL.cpp)", None),
        ("a run that used much memory", None),
    ],
)
def test_failure_words(line, kind):
    assert failure_in(line) is kind


def test_statuses_have_a_class():
    assert failure_of_status("long_oom") is Failure.OOM
    assert failure_of_status("oom_or_nccl") is Failure.OOM_OR_NCCL
    assert failure_of_status("probe_negative_shape") is Failure.OVERFLOW
    assert failure_of_status("long_budget_incomplete") is Failure.BUDGET
    assert failure_of_status("fail") is Failure.ERROR


def test_stages_of_the_long_cycle_come_from_their_logs(recordings: Path):
    folder = recordings / "mimickit_longcycle" / "runs" / "deepmimic_humanoid_ppo_args" / "default_e32"
    files = {reading.path.name: reading for reading in collect([folder]).files}
    assert files["probe_train.log"].items[0].stage is Stage.PROBE
    assert files["long_train.log"].items[0].kind == Failure.NCCL.value
    assert isinstance(files["test.log"].items[0], EvaluationText)


def test_durations_per_mode(read):
    rows = [
        {"mode": "train", "step": 400 * n, "duration": 4.0, "logbook_timestamp": "x"} for n in range(1, 4)
    ]
    name, reading = read(
        "\n".join(map(json.dumps, [*rows, {"mode": "eval", "step": 1200, "duration": 9}])) + "\n{\n"
    )
    assert name == "durations"
    assert [(log.mode, list(log.duration_s)) for log in reading.items] == [
        ("train", [4, 4, 4]),
        ("eval", [9]),
    ]
    assert reading.ledger.count == 1


def test_the_off_policy_console(read):
    text = (
        "[Episode 00001] total_reward: 4.0 epsilon: 0.50\n\t\tsnake_1: 0.0\n\t\ta_loss 8.7 c_loss 19.2\n"
        "[Episode xx\nTraining: 100%|####| 6/6 [00:29<00:00,  4.93s/it]\n"
    )
    name, reading = read(text)
    (log,) = reading.items
    assert (name, log.episodes, log.seconds_per_episode, log.updates_seen) == (
        "off-policy console",
        1,
        4.93,
        True,
    )
    assert reading.ledger.count == 1


def test_a_loop_profile(recordings: Path):
    (reading,) = collect([recordings / "snake" / "prof1_ui10_2.json"]).files
    (profile,) = reading.items
    assert (profile.update_interval, profile.env_steps, profile.updates, profile.steps_per_s) == (
        10,
        1200,
        1200,
        40.53,
    )
    assert "update.get_batches" not in {name.strip() for name in profile.phase_s}


def test_windows_that_somebody_wrote_down(recordings: Path):
    (reading,) = collect([recordings / "typed" / "windows"]).files
    windows = {window.name: window for window in reading.items if isinstance(window, WindowSummary)}
    experiments = ("exp076_run1", "exp076_run2", "exp077_run1", "exp078_probe1", "exp078_probe2")
    assert list(windows) == ["exp074", *(f"lm3d_{name}" for name in experiments)]
    probe = windows["lm3d_exp078_probe1"]
    assert probe.gpu_avg_pct == (9.3, 49.28)
    assert (probe.active_s, probe.idle_s, probe.window_s) == (31, 29, 60)
    assert (probe.data_mean_s, probe.step_mean_s, probe.sample_s) == (0.0006, 1.0735, 2.3713)
    assert probe.settings == {"workers": 10, "batch": 20}
    assert windows["exp074"].both_p50_pct is None


def test_notes_may_say_mean_and_maximum_in_chinese(read):
    _, reading = read(
        "- 实验 `exp9_run1`：`gpu0_avg=1.0`，`gpu1_avg=2.0`，`both_avg=1.5`\n"
        "- `data_time`：平均 `0.5s`，最大 `0.9s`\n"
    )
    assert (reading.items[0].name, reading.items[0].data_mean_s, reading.items[0].data_max_s) == (
        "exp9_run1",
        0.5,
        0.9,
    )


@pytest.mark.parametrize(
    "text",
    [
        "batch_size: 64\nnum_workers: 10\nseed: 1\nalgo: ddpg\n",
        "CONFIG = {\n  'data': {\n    'batch_size_per_gpu': 64,\n    'num_workers': 10,  # each\n  },\n}\n",
    ],
)
def test_settings_are_read_as_text(read, text):
    name, reading = read(text)
    (settings,) = reading.items
    assert name == "settings"
    assert isinstance(settings, RunSettings)
    assert settings.values == {"batch": 64, "workers": 10}


def test_a_setting_with_two_values_is_not_used(read):
    _, reading = read("train:\n  batch_size: 64\n  num_workers: 4\ntest:\n  batch_size: 1\n")
    assert reading.items[0].values == {"workers": 4}
    assert "batch_size" in reading.notes[0]
