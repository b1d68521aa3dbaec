"""Each detector on data that has it, and on data that has not."""

from __future__ import annotations

import json

import pytest

from stoker.diagnose import missed
from stoker.diagnose.missed.loader_supply import supply_of

HEAD = "case\tmethod\tstatus\tvariant\tnum_envs\tmin_avg_util\tsamples_per_s\tmax_mem0\tmax_mem1\n"


def table(*rows):
    return HEAD + "".join("\t".join(map(str, row)) + "\n" for row in rows)


def texts(board, kind):
    return [observation.text for observation in missed.look(board) if observation.kind == kind]


def step_rows(count, interval, data_s, step_s, sample_s=None):
    probe = {} if sample_s is None else {"data_probe": {"sample_time_sample_total_mean": sample_s}}
    rows = [
        {"type": "iter", "epoch": 1, "iter": interval * n, "data_time": data_s, "iter_time": step_s, **probe}
        for n in range(1, count + 1)
    ]
    return "\n".join(map(json.dumps, rows)) + "\n"


CONFIG = "num_workers: {workers}\nbatch_size: {batch}\n"


def test_log_interval_that_shares_a_factor_with_the_workers(board):
    files = {
        "exp/logs/metrics.jsonl": step_rows(19, 10, 0.0006, 1.07),
        "exp/config.yaml": CONFIG.format(workers=10, batch=20),
    }
    (text,) = texts(board(files), "log-aliasing")
    assert "every 10 steps with 10 workers always meets one and the same worker" in text
    assert text.endswith("or every 11")


@pytest.mark.parametrize(("interval", "workers"), [(10, 7), (1, 10), (10, 1)])
def test_log_interval_without_a_common_factor(board, interval, workers):
    files = {
        "m.jsonl": step_rows(19, interval, 0.1, 1.0),
        "config.yaml": CONFIG.format(workers=workers, batch=20),
    }
    assert texts(board(files), "log-aliasing") == []


def test_a_common_factor_hides_some_workers(board):
    found = board({"m.jsonl": step_rows(19, 10, 0.1, 1.0)}, workers=4)
    assert "only 2 of 4 workers" in texts(found, "log-aliasing")[0]


def test_the_loader_starves_while_the_gate_passes(board):
    """exp078: 2.3713 s a sample, batch 20, 10 workers, against a step of 1.07 s."""
    files = {
        "exp078_probe1/logs/metrics.jsonl": step_rows(19, 10, 0.0006, 1.0735, 2.3713),
        "exp078_probe1/config.py": "CONFIG = {\n  'num_workers': 10,\n  'batch_size_per_gpu': 20,\n}\n",
    }
    found = board(files)
    (text,) = texts(found, "loader-supply")
    assert "needs 4.74 s per batch" in text
    assert "the logged step takes 1.07 s" in text
    assert "23% of the time" in text
    assert "your gate passed while the loader starves" in text
    assert supply_of(found.trials[0]).batch_s == pytest.approx(4.7426)


def test_the_typed_windows_say_the_same(recorded):
    assert len(texts(recorded("typed/windows"), "loader-supply")) == 2


def test_a_loader_that_keeps_up(recorded, board):
    assert texts(recorded("lanemaster3d", workers=2, batch=4), "loader-supply")[0].startswith(
        "starved_10workers"
    )
    assert len(texts(recorded("lanemaster3d", workers=2, batch=4), "loader-supply")) == 1
    assert (
        texts(
            board({"m.jsonl": step_rows(19, 10, 0.0006, 1.0735, 0.1)}, workers=10, batch=20), "loader-supply"
        )
        == []
    )


def test_without_workers_or_batch_the_supply_is_not_invented(board):
    assert texts(board({"m.jsonl": step_rows(19, 10, 0.0006, 1.0735, 2.3713)}), "loader-supply") == []


def test_the_rhythm_of_stalls_and_the_gate_in_a_recorded_starved_run(recorded):
    found = recorded("lanemaster3d")
    (rhythm,) = texts(found, "stall-rhythm")
    assert rhythm.startswith("starved_10workers_every_step: 30% of the step time is waiting for data")
    assert "one step in 10" in rhythm
    (gate,) = texts(found, "gate-too-kind")
    assert "passes at iter 120, and 31% of the step time after it" in gate


def test_active_and_idle_that_do_not_cover_the_window(recorded):
    (text,) = texts(recorded("typed/windows"), "window-gaps")
    assert "lm3d_exp078_probe2: active 32 + idle 25 = 57 of 60 s" in text
    assert "gives 26.52 %, not 26.93 %" in text


def test_a_monitor_with_a_pause(board):
    stamps = [*range(20), *range(40, 60)]
    rows = "".join(f"2026/02/17 13:00:{s:02}.0, 0, 50 %, 100 MiB, 24564 MiB\n" for s in stamps)
    head = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n"
    (text,) = texts(board({"g.csv": head + rows}), "window-gaps")
    assert "20 s (33%) between first and last sample have no sample" in text


def test_two_runs_of_one_configuration_that_disagree(recorded):
    (text,) = texts(recorded("typed/windows"), "repeats-disagree")
    assert "81.7 against 18.6" in text
    assert "do not rank" in text


def test_runs_that_agree_or_have_other_settings(recorded, board):
    assert texts(recorded("snake"), "repeats-disagree") == []
    windows = "".join(
        f"## exp1_run{run}\n- num_workers={8 * run} gpu0_avg={80 / run} both_avg={80 / run}\n"
        for run in (1, 2)
    )
    assert texts(board({"n.md": windows}), "repeats-disagree") == []


def test_utilisation_rises_while_throughput_falls(recorded):
    (text,) = texts(recorded("typed/sweep"), "utilisation-not-speed")
    assert "x1.75" in text
    assert "/3.4" in text
    assert "a loss" in text


def test_utilisation_and_throughput_that_rise_together(board):
    rows = [("a", "m", "ok", "default", 64, 40, 100, 1, 1), ("a", "m", "ok", "hiutil", 64, 60, 150, 1, 1)]
    assert texts(board({"t.tsv": table(*rows)}), "utilisation-not-speed") == []


def test_the_bench_that_chose_the_slower_setting(recorded):
    found = texts(recorded("mimickit_bench"), "utilisation-not-speed")
    assert len(found) == 2
    assert all("the setting the bench chose" in text for text in found)


def test_a_gpu_pair_that_differs(recorded):
    assert texts(recorded("mimickit_published"), "gpu-pair-memory")[0].startswith(
        "add_go2: peak memory 3873 / 7412"
    )
    assert "9.3 / 49.3" in texts(recorded("typed/windows"), "gpu-pair-utilisation")[1]


def test_a_gpu_pair_that_is_alike(recorded, board):
    assert texts(recorded("mimickit_bench"), "gpu-pair-memory") == []
    assert texts(board({"t.tsv": table(("a", "m", "ok", "v", 8, 50, 9, 300, 700))}), "gpu-pair-memory") == []


def test_ok_where_the_budget_was_not_run(recorded):
    (text,) = texts(recorded("mimickit_longcycle"), "budget-not-run")
    assert "deepmimic_humanoid_ppo default e32: marked ok after 23 of 86400 s, exit code 1" in text


def test_a_budget_that_was_run(board):
    attempt = {
        "case": "a",
        "num_envs": 16,
        "long_mode": "time_budget",
        "long_ok": 1,
        "long_budget_target_sec": 22,
        "long_budget_elapsed_sec": 23.1,
        "long_budget_reached": 1,
        "long_rc": -2,
        "final_ok": 1,
        "note": "ok",
    }
    assert texts(board({"attempts.json": json.dumps([attempt])}), "budget-not-run") == []
    attempt["long_budget_elapsed_sec"] = 3
    assert len(texts(board({"attempts.json": json.dumps([attempt])}), "budget-not-run")) == 1


def test_memory_per_env_a_hundred_times_the_neighbours(recorded):
    (text,) = texts(recorded("mimickit_published"), "memory-per-env")
    assert text.startswith("add_pi_plus, amp_pi_plus, deepmimic_pi_plus_ppo: 602-635 MiB per env")
    assert "simulator problem" in text


def test_memory_per_env_like_the_neighbours_or_only_few_envs(board):
    alike = [(name, "m", "ok", "v", 1024, 50, 9, 5000, 5000) for name in "abcd"]
    few_envs = ("e", "m", "ok", "v", 16, 50, 9, 4000, 4000)
    assert texts(board({"t.tsv": table(*alike, few_envs)}), "memory-per-env") == []


def test_update_every_n_with_unchanged_updates(recorded):
    (text,) = texts(recorded("snake"), "update-interval")
    assert "update_interval 1/5/10/20: 1.00 updates per env step" in text


def profile(interval, updates):
    return json.dumps(
        {"argv": ["--update_interval", str(interval)], "env_steps": 1200, "updates": updates, "wall_s": 30}
    )


def test_update_every_n_that_does_update_less(board):
    assert texts(board({"a.json": profile(1, 1200), "b.json": profile(10, 120)}), "update-interval") == []


def test_a_probe_and_a_long_run_in_different_classes(recorded):
    (text,) = texts(recorded("typed/monitor", "mimickit_published"), "probe-against-long")
    assert "add_go2: the probe says 27.4 % (throughput/env-bound), the long run 46.0 % (balanced)" in text
    assert texts(recorded("typed/monitor"), "probe-against-long") == []


def test_one_variant_only(recorded, board):
    assert "all 25 cases that passed ran hiutil" in texts(recorded("mimickit_published"), "one-variant")[0]
    rows = [
        (name, "m", "ok", variant, 8, 50, 9, 1, 1) for name in "abcd" for variant in ("default", "hiutil")
    ]
    assert texts(board({"t.tsv": table(*rows)}), "one-variant") == []


def test_slow_cases_that_wait_and_slow_cases_that_compute(recorded, board):
    (text,) = texts(recorded("mimickit_published"), "idle-per-sample")
    assert "amp_go2 x1.80 of amp_humanoid, all of the difference idle GPU" in text
    rows = [("m_a", "m", "ok", "v", 8, 30, 200, 1, 1), ("m_b", "m", "ok", "v", 8, 90, 100, 1, 1)]
    assert texts(board({"t.tsv": table(*rows)}), "idle-per-sample") == []


def test_a_healthy_table_gives_no_observation(board):
    rows = [
        (f"m_{name}", "m", "ok", "v", 1024, 70, 5000 + index, 5000, 5100)
        for index, name in enumerate("abcdef")
    ]
    assert missed.look(board({"t.tsv": table(*rows)})) == ()
