"""The published 25 cases, several roots, stages, failures, policy, targets, comparison."""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.diagnose.checklist import NOT_HERE, checklist_of
from stoker.diagnose.classes import CaseClass
from stoker.diagnose.compare import changes
from stoker.diagnose.policy import Goal, actions_of
from stoker.diagnose.reruns import reruns_of
from stoker.diagnose.symptoms import symptoms_of
from stoker.diagnose.tallies import failure_rates, method_averages
from stoker.diagnose.targets import Target, TargetName, answers_of

HEAD = "case\tmethod\tstatus\tvariant\tnum_envs\tmin_avg_util\tsamples_per_s\tmax_mem0\tmax_mem1\telapsed_s\n"


def table(*rows):
    return HEAD + "".join("\t".join(map(str, row)) + "\n" for row in rows)


def by_name(board):
    return {case.name: case for case in board.cases}


@pytest.fixture
def published(recorded):
    return recorded("mimickit_published")


def test_25_rows_not_28_in_four_groups(published):
    counts = Counter(case.case_class for case in published.cases)
    assert counts == {
        CaseClass.VRAM_BOUND: 3,
        CaseClass.COMPUTE_HEAVY: 3,
        CaseClass.BALANCED: 12,
        CaseClass.THROUGHPUT_BOUND: 7,
    }
    assert {case.name for case in published.cases if case.case_class is CaseClass.COMPUTE_HEAVY} == {
        "ase_humanoid",
        "ase_humanoid_sword_shield",
        "amp_smpl",
    }


def test_method_averages_are_computed_and_memory_only_where_it_is_whole(published):
    rows = [
        (row.method, round(row.util_pct, 2), row.peak_mem_mib) for row in method_averages(published.cases)
    ]
    assert rows == [
        ("ase", 66.46, 5872.5),
        ("amp", 52.51, None),
        ("deepmimic", 45.58, None),
        ("vault", 42.17, None),
        ("add", 40.75, None),
    ]


def test_what_was_replaced_is_listed(published):
    replaced = {
        case.name: [trial.setting.label() for trial in case.replaced]
        for case in published.cases
        if case.replaced
    }
    assert replaced == {
        "add_pi_plus": ["default e256"],
        "amp_pi_plus": ["default e256"],
        "deepmimic_pi_plus_ppo": ["default e256"],
    }


def test_a_later_failure_does_not_replace_an_earlier_success(board):
    found = board(
        {
            "bench_20260101_000000/t.tsv": table(("a", "m", "ok", "v", 8, 50, 10, 1, 1, 60)),
            "bench_20260102_000000/t.tsv": table(("a", "m", "oom_or_nccl", "v", 16, 1, 0, 1, 1, 60)),
        }
    )
    (case,) = found.cases
    assert (case.case_class, case.chosen.setting.num_envs) == (CaseClass.BALANCED, 8)


def test_stamps_in_the_names_order_the_roots(board):
    found = board(
        {
            "z_20260101_000000/t.tsv": table(("a", "m", "ok", "v", 8, 50, 10, 1, 1, 60)),
            "a_20260102_0000/t.tsv": table(("a", "m", "ok", "v", 8, 70, 10, 1, 1, 60)),
        }
    )
    assert found.cases[0].chosen.util_pct == 70


def test_only_failures_are_unclassifiable_and_say_so(board):
    (case,) = board({"t.tsv": table(("a", "m", "timeout", "v", 8, 50, 10, 1, 1, 60))}).cases
    assert (case.case_class, case.judgement.why) == (
        CaseClass.UNCLASSIFIABLE,
        "every attempt failed: timeout",
    )
    assert set(actions_of(case).values()) == {"make it run first"}


MONITOR = "=== 2026-02-17 13:{m:02}:00 ===\n0, {u} %, 4225 MiB, 24564 MiB\n1, {u} %, 2057 MiB, 24564 MiB\n"


def monitor(util, note, minutes=range(12)):
    return "".join(
        MONITOR.format(m=m, u=util) + f"current_case_note a_x_args.txt {note}\n\n" for m in minutes
    )


def test_a_class_is_from_the_long_stage_even_if_a_probe_is_there(board):
    found = board(
        {
            "t.tsv": table(("a_x_args.txt", "a", "ok", "v", 8, 30, 10, 1, 1, 60)),
            "mon.log": monitor(50, "in_progress_long"),
        }
    )
    (case,) = found.cases
    assert (case.case_class, case.chosen.stage.value, case.stage_note) == (CaseClass.BALANCED, "long", "")


def test_a_test_stage_alone_is_no_class(board):
    (case,) = board({"mon.log": monitor(50, "in_progress_test")}).cases
    assert case.case_class is CaseClass.UNCLASSIFIABLE
    assert "only the test stage" in case.judgement.why


def test_a_probe_says_that_it_holds_evaluation_and_how_much(recorded, published):
    assert "how much of it is not in these files" in published.cases[0].stage_note
    assert "about 2% of its time is evaluation" in recorded("mimickit_bench").cases[0].stage_note


def test_the_share_of_evaluation_in_a_real_console(recorded):
    cases = by_name(recorded("mimickit_newton_cpu"))
    # Timed from inside, these runs spent 41.5 % and 30.5 % of their time in tests.
    assert cases["console_default"].chosen.evaluation_share_frac == pytest.approx(0.415, abs=0.03)
    assert cases["console_hiutil"].chosen.evaluation_share_frac == pytest.approx(0.305, abs=0.03)


def test_statistics_per_case_from_the_monitor(recorded):
    (case,) = recorded("typed/monitor").cases
    first, second = case.chosen.gpus
    assert (first.n, round(first.mean_pct, 2), round(second.mean_pct, 2)) == (86, 46.05, 49.43)
    assert (first.peak_pct, second.peak_pct, first.mem_peak_mib, second.mem_peak_mib) == (66, 65, 4248, 2094)
    assert first.active_s + first.idle_s == 86 * 180


def test_failures_per_setting(recorded, published):
    rows = {row.setting: (row.attempts, row.failures, row.kinds) for row in failure_rates(published.trials)}
    assert rows["default e256"] == (3, 3, (("out of memory or NCCL", 3),))
    assert rows["hiutil e1024"] == (22, 0, ())
    bench = {
        row.setting: (row.attempts, row.failures, row.kinds)
        for row in failure_rates(recorded("mimickit_bench").trials)
    }
    assert bench["default e32"] == (2, 1, (("out of memory", 1),))


def test_actions_know_the_cliff_and_the_room(published):
    cases = by_name(published)
    assert "runs at e40, fails at e256" in actions_of(cases["add_pi_plus"])[Goal.STABLE]
    assert "memory unknown" in actions_of(cases["add_g1"])[Goal.MACHINE]
    assert "memory unknown" not in actions_of(cases["vault_g1"])[Goal.MACHINE]


def test_targets_met_missed_and_unknown(recorded, published):
    targets = [Target(TargetName.UTIL, 60), Target(TargetName.MEMORY, 10)]
    answers = {(answer.case, answer.target.name): answer for answer in answers_of(published.cases, targets)}
    assert answers["ase_humanoid", TargetName.UTIL].met is True
    assert answers["add_go2", TargetName.UTIL].met is False
    assert answers["ase_humanoid", TargetName.MEMORY].why_unknown == "card size not in these files"
    assert answers["add_g1", TargetName.MEMORY].why_unknown == "no memory in these files"
    bench = answers_of(recorded("mimickit_bench").cases, targets)
    assert [answer.met for answer in bench] == [False, False, True, True]


def test_the_checklist_is_answered_from_data_or_not_at_all(published):
    answers = {
        answer.question: answer for answer in checklist_of(by_name(published)["add_go2"], published.cases)
    }
    assert list(answers) == [
        "env or data cost",
        "algorithm cost",
        "agent strength",
        "multi-GPU sync",
        "stage",
    ]
    assert answers["env or data cost"].answer.startswith("1.56x the time per sample of add_humanoid")
    assert "deepmimic_go2_ppo, same robot" in answers["algorithm cost"].answer
    assert (answers["agent strength"].answer, answers["agent strength"].from_data) == (NOT_HERE, False)


def test_the_checklist_measures_the_agent_where_both_were_run(recorded):
    cases = recorded("mimickit_bench").cases
    answers = {answer.question: answer.answer for answer in checklist_of(cases[0], cases)}
    assert "3 493 405 parameters; 1 394 205 in default" in answers["agent strength"]
    assert "11.09x the samples/s with default e16" in answers["agent strength"]


def test_symptoms_yes_no_and_cannot_be_told(published):
    rows = symptoms_of(published.cases)
    assert [len(row.cases) for row in rows] == [3, 3, 3, 0, 0]
    assert rows[3].not_told == 25


def test_swinging_utilisation_with_high_throughput_is_judged_by_throughput(board):
    head = HEAD.strip() + "\tavg_util0\tmax_util0\n"
    rows = [
        ("a", "m", "ok", "v", 8, 40, 900, 100, 100, 60, 40, 90),
        ("b", "m", "ok", "v", 8, 40, 100, 100, 100, 60, 40, 90),
    ]
    found = board({"t.tsv": head + "".join("\t".join(map(str, row)) + "\n" for row in rows)})
    swing = symptoms_of(found.cases)[3]
    assert swing.cases == ("a",)
    assert "samples/s" in swing.action


def test_frequent_failures_are_a_symptom(board):
    rows = [("a", "m", "oom_or_nccl", "v", 8 * n, 1, 0, 1, 1, 60) for n in (2, 3)] + [
        ("a", "m", "ok", "v", 8, 50, 9, 1, 1, 60)
    ]
    assert symptoms_of(board({"t.tsv": table(*rows)}).cases)[4].cases == ("a",)


def row(name, status="ok", variant="v", util=30, speed=100):
    return (name, "m", status, variant, 8, util, speed, 1, 1, 60)


def test_comparison_of_two_roots(board):
    before = board({"t.tsv": table(row("a"), row("b"), row("c", "fail", util=1, speed=0), row("d"))})
    after = board(
        {
            "t.tsv": table(
                row("a", util=50, speed=150), row("b", "timeout"), row("c", variant="w", util=50), row("e")
            )
        }
    )
    found = {change.case: change for change in changes(before.cases, after.cases)}
    assert (found["a"].class_changed, found["a"].speed_ratio) == (True, 1.5)
    assert (found["b"].works, found["b"].class_changed, found["b"].speed_ratio) == (
        "stopped working",
        False,
        None,
    )
    assert (found["c"].works, found["c"].like_for_like) == ("works now", False)
    assert found["d"].after is None
    assert found["e"].before is None


def test_repeats_with_their_spread(recorded):
    board = recorded("snake")
    rows = {row.configuration: row for row in reruns_of(board.trials, board.profiles)}
    assert rows["update_interval=5"].reproducible
    assert rows["update_interval=5"].ratio == pytest.approx(1.048, abs=0.001)
