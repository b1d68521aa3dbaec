"""Whole pages of runs that never happened, compared with texts under tests/golden."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stoker.diagnose.chosen import choose, parse_bounds
from stoker.diagnose.gate import parse_gate
from stoker.diagnose.summary import summarise
from stoker.model.finding import Finding, Fix, Outcome, Severity, Verdict
from stoker.model.host import HostRecord, IsolatedPython, MissingField
from stoker.model.record import HookFailure, Mark, ProcessRecord, Raised
from stoker.model.run import Run, RunFailure
from stoker.report import markdown, run_json, run_page, text
from stoker.report.cause_blocks import cause_blocks
from stoker.report.page import Table

Make = Any
Golden = Callable[[str, str], None]

SUPERVISED = {"data": 0.45, "forward": 0.2, "loss": 0.01, "backward": 0.28, "optim": 0.04, "other": 0.02}
ACTING = {"env": 0.42, "infer": 0.22, "forward": 0.08, "backward": 0.15, "optim": 0.08, "other": 0.05}
PYTHON = {"other": 0.46, "env": 0.12, "forward": 0.1, "backward": 0.2, "optim": 0.1, "infer": 0.02}
BUSY = {"forward": 0.4, "backward": 0.5, "optim": 0.06, "data": 0.03, "other": 0.01}


def data_bound(make: Make) -> Run:
    lines = {("data", "train.py:40 main"): 300, ("backward", "train.py:44 main"): 180}
    record = make.training(
        SUPERVISED,
        loaders=(make.loader(), make.loader(id=1, batches=40, length=10)),
        workers=(make.worker(0), make.worker(1)),
        sampled=make.looks(lines),
    )
    return make.run(
        record,
        command=("python", "train.py", "--epochs", "90"),
        ended_by="time-limit",
        exit_code=None,
        exit_signal=2,
    )


def env_bound(make: Make) -> Run:
    record = make.training(
        ACTING,
        env_steps_per_tick=8.0,
        acting=0.21,
        optimizers=("Adam",),
        sequence=tuple((event, count) for _ in range(40) for event, count in (("e", 2048), (0, 320))),
        sampled=make.looks({("env", "sim.py:7 Sim.step"): 200}),
    )
    return make.run(record, total="5e6 env_steps")


def python_bound(make: Make) -> Run:
    lines = {
        ("other", "replay_buffer.py:22 get_batches"): 320,
        ("other", "numpy/core.py:9 concatenate < train.py:50 collect"): 80,
        ("backward", "train.py:61 update"): 200,
        ("env", "train.py:30 collect"): 100,
    }
    record = make.training(
        PYTHON,
        env_steps_per_tick=1.0,
        optimizers=("Adam", "Adam"),
        sequence=(("e", 1000), *(((0, 1), (1, 1), ("e", 1)) * 300)),
        sampled=make.looks(lines),
    )
    return make.run(record)


def two_ranks(make: Make) -> Run:
    ranks = [make.training(SUPERVISED, pid=100 + n, rank=n, world=2, torch="2.13.0+cu126") for n in (1, 0)]
    return make.run(*ranks, command=("torchrun", "--nproc_per_node=2", "/long/way/to/train.py"))


def outside_only(make: Make) -> Run:
    return make.run(attached_pid=4312, exit_code=None, ended_by="watching ended")


def no_torch(make: Make) -> Run:
    return make.run(host=make.host(0))


def isolated(make: Make) -> Run:
    return make.run(host=make.host(isolated=(IsolatedPython(4312, "-I"),)))


def failed(make: Make) -> Run:
    raised = Raised(
        "RuntimeError", "shapes [3] and [4]\nsecond line", "exception", "/home/me/project/net.py", 9
    )
    failure = RunFailure(
        "exception", "exit code 1", "", raised.type, raised.message, raised.file, raised.line, 4312
    )
    record = make.training(SUPERVISED, seconds=12, raised=raised, sampled=make.looks({}))
    return make.run(record, exit_code=1, failure=failure)


def failed_hook(make: Make) -> Run:
    hooks = (HookFailure("envs", "AttributeError(\"no attribute 'step_async'\")", "install"),)
    missing = tuple(MissingField(name, f"/proc/{name} cannot be read") for name in ("a", "b", "c", "d", "e"))
    record = make.training(BUSY, hook_failures=hooks, lost_rows=3, unreadable_rows=1, ended=False)
    return make.run(record, host=make.host(missing=missing), notes=("the host watcher ended with code 1",))


def too_short(make: Make) -> Run:
    record = make.training(BUSY, seconds=2, ticks_per_s=4.0)
    return make.run(record, ended_by="time-limit", exit_code=None, exit_signal=2, host=HostRecord())


def unsteady(make: Make) -> Run:
    speeds = [1.0] * 30 + [0.5] * 30
    return make.run(make.training(BUSY, speeds=speeds, sampled=make.looks({("data", "a.py:1 f"): 50})))


def killed(make: Make) -> Run:
    failure = RunFailure("signal", "ended by SIGKILL", "somebody sent it")
    record = make.training(SUPERVISED, loaders=(make.loader(num_workers=0),), workers=(make.worker(None),))
    return make.run(replace(record, ended=False), exit_code=None, exit_signal=9, failure=failure)


def interrupted(make: Make) -> Run:
    raised = Raised("KeyboardInterrupt", "", "interrupted", "/home/me/project/train.py", 40)
    text = "ended by SIGINT after the user asked for it"
    failure = RunFailure("interrupted", text, "", raised.type, "", raised.file, raised.line, 4312)
    record = make.training(BUSY, raised=raised, sampled=make.looks({("forward", "train.py:41 main"): 99}))
    return make.run(
        record,
        exit_code=None,
        exit_signal=2,
        ended_by="signal-from-user",
        failure=failure,
        total="12000 ticks",
    )


def alive(make: Make) -> Run:
    return make.run(make.training(BUSY, ended=False), ended_s=None, exit_code=None, ended_by=None)


def evaluating(make: Make) -> Run:
    """Half of the run is evaluation, and saving takes an eighth."""
    record = make.training({**BUSY, "forward": 0.15, "save": 0.25})
    rows = [row.sums for row in record.seconds]
    return make.run(replace(record, marks=(*record.marks, Mark("eval", rows[20]), Mark("train", rows[50]))))


RUNS = [
    data_bound, env_bound, python_bound, two_ranks, outside_only, no_torch, isolated, failed, failed_hook,
    too_short, unsteady, killed, interrupted, alive, evaluating,
]  # fmt: skip


@pytest.mark.parametrize("build", RUNS)
def test_page(make: Make, build: Callable[[Make], Run], golden: Golden) -> None:
    page = text.plain(run_page.build(summarise(build(make))))
    assert max(map(len, page.splitlines())) <= 80
    assert page.splitlines()[-1].startswith("next: ")
    golden(f"{build.__name__}.txt", page)


def test_markdown(make: Make, golden: Golden) -> None:
    golden("data_bound.md", markdown.render(run_page.build(summarise(data_bound(make)))))


def test_the_users_own_window(make: Make, golden: Golden) -> None:
    record = make.training(SUPERVISED, speeds=[0.5] * 20 + [1.0] * 40)
    summary = summarise(make.run(record))
    gate, bounds = parse_gate("iter >= 120 and tick_s < 60ms for 5"), parse_bounds("30s")
    chosen = choose(record, summary.trainers[0].window, record.ticks, gate, bounds)
    shown = replace(summary, chosen=chosen)
    golden("your_window.txt", text.plain(run_page.build(shown)))
    assert "| your window | gate iter >= 120 and" in markdown.render(run_page.build(shown)).replace("\\", "")
    data = json.loads(run_json.render(shown))["chosen"]
    assert data["gate"] == "iter >= 120 and tick_s < 60ms for 5"
    assert data["quoted"]["ticks"] == 600


@pytest.mark.parametrize("build", RUNS)
def test_json(make: Make, build: Callable[[Make], Run]) -> None:
    run = build(make)
    shown = json.loads(run_json.render(summarise(run)))
    assert set(shown) == {
        "schema", "run", "folder", "sentence", "whole_training", "trainers", "processes", "host", "notes",
        "chosen", "over_time", "gpu_watcher", "verdict", "not_worth_trying", "ranks", "settings", "class",
        "gpus_together",
    }  # fmt: skip
    assert shown["schema"] == "stoker.why/1"
    assert shown["run"]["id"] == run.info.id
    assert [process["pid"] for process in shown["processes"]] == [process.pid for process in run.processes]
    for trainer in shown["trainers"]:
        assert abs(sum(trainer["phase_pct"].values()) - 100) < 0.1
        assert trainer["window"]["seconds"] > 0
    page = text.plain(run_page.build(summarise(run)))
    first = shown["verdict"]["findings"][:1] if shown["verdict"]["outcome"] == "causes" else []
    assert all(finding["code"] in page and finding["evidence"] for finding in first)
    assert " ".join(shown["sentence"].split()) in " ".join(page.split())


def test_shares_of_a_page_add_up(make: Make) -> None:
    main = summarise(data_bound(make)).main
    assert main is not None
    assert sum(main.phase_pct.values()) == pytest.approx(100)
    assert {name: round(pct) for name, pct in main.phase_pct.items() if pct} == {
        name: round(100 * share) for name, share in SUPERVISED.items()
    }


def test_text_from_outside_is_shown_and_not_obeyed(make: Make) -> None:
    nasty = "\x1b[2J[bold]x[/bold] </script>\u202e"
    raised = Raised(nasty, nasty, "exception", nasty, 3)
    record: ProcessRecord = make.training(
        BUSY, raised=raised, hook_failures=(HookFailure(nasty, nasty, nasty),)
    )
    failure = RunFailure("exception", nasty, nasty, nasty, nasty, nasty, 3, 1)
    summary = summarise(make.run(record, command=(nasty, nasty), notes=(nasty,), failure=failure))
    page = run_page.build(summary)
    for shown in (text.plain(page), markdown.render(page), run_json.render(summary)):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "[bold]x[/bold]" in text.plain(page)
    assert "</script>" not in markdown.render(page)


@pytest.mark.parametrize(("in_use_pct", "crowded"), [(99.0, True), (60.0, False)])
def test_a_crowded_machine_is_said(make: Make, in_use_pct: float, crowded: bool) -> None:
    """This run uses 2.5 of 8 cores."""
    host = make.host()
    rows = tuple(replace(row, allowed_cpu_pct=in_use_pct) for row in host.readings)
    run = make.run(make.training({"forward": 1.0}), host=replace(host, readings=rows))
    page = " ".join(text.plain(run_page.build(summarise(run))).split())
    said = "the 8 cores it may use were in use 99 % of the time, 2.5 of them by this run: others slow it down"
    assert (said in page) is crowded


def test_trainers_without_ranks_are_told_by_their_pid(make: Make) -> None:
    both = [make.training({"forward": 1.0}, pid=pid, ticks_per_s=2000.0) for pid in (71, 72)]
    page = text.plain(run_page.build(summarise(make.run(*both))))
    assert "(pid 71, 120,000 ticks in 60.0 s)" in page
    assert "rank None" not in page
    assert "2,000" in page
    assert "e+03" not in page


@pytest.mark.parametrize(
    ("forward", "is_said"),
    [(0.0, True), (0.008, True), (0.036, False), (0.2, False)],
    ids=["none", "the loss is a module", "a rank that waits in backward", "a model"],
)
def test_a_model_made_of_functions_is_said_to_be_in_other(make: Make, forward: float, is_said: bool) -> None:
    shares = {"forward": forward, "backward": 0.4, "other": 0.6 - forward}
    page = " ".join(text.plain(run_page.build(summarise(make.run(make.training(shares))))).split())
    assert ("was called with gradients" in page) == is_said


@pytest.mark.parametrize(("steps", "is_said"), [((4, 1200), True), ((1200, 600), False), ((600, 600), False)])
def test_a_step_that_is_a_graph_is_said_to_be_one_phase(make: Make, steps: Any, is_said: bool) -> None:
    """Not where another optimizer ticks, and graphs are replayed beside it."""
    shares = {"optim": 0.9, "other": 0.1}
    trained = make.training(shares, optimizers=("Adam", "CUDAGraph"), optimizer_steps=steps)
    page = " ".join(text.plain(run_page.build(summarise(make.run(trained)))).split())
    assert ("is the replay of a CUDA graph" in page) == is_said


def test_lines_of_the_model_leave_room_for_those_one_can_change(make: Make) -> None:
    looks = {("forward", f"net.py:{number} forward"): 50 - number for number in range(1, 9)}
    looks |= {("other", f"train.py:{number} step"): 20 + number for number in range(60, 64)}
    shares = {"forward": 0.8, "other": 0.2}
    page = run_page.build(summarise(make.run(make.training(shares, sampled=make.looks(looks)))))
    (table,) = [block for block in page.blocks if isinstance(block, Table) and "Lines" in block.heading]
    assert [row[1] for row in table.rows] == ["forward"] * 3 + ["other"] * 3
    assert [row[0] for row in table.rows] == sorted(
        (row[0] for row in table.rows), key=by_figure, reverse=True
    )


def by_figure(text: str) -> float:
    return float(text.removesuffix(" %"))


def test_a_loader_that_a_library_makes_is_told_with_the_line_that_led_there(make: Make) -> None:
    made = make.place("lightning/x.py:7 wrapper < /home/me/project/train.py:31 build")
    run = data_bound(make)
    (record,) = run.processes
    record = replace(record, loaders=tuple(replace(one, made=made) for one in record.loaders))
    page = run_page.build(summarise(replace(run, processes=(record,))))
    shown = " ".join(text.plain(page).split())
    assert "made at lightning/x.py:7 wrapper < " in shown
    assert "train.py:31 build" in shown
    assert "change " not in shown


def test_a_fix_of_several_lines_is_one_that_python_reads(make: Make) -> None:
    loop = "for at in order.split(256):\n    x, y = xs[at], ys[at]\n    step(x, y)"
    one = Finding("SK101", "x", "x", Severity.NOTE, 0.1, "x", (), "x", (Fix("do", after=loop),))
    (block,) = cause_blocks(Verdict(Outcome.CAUSES, "x", (one,)), "")
    assert ("fix", "do: for at in order.split(256): x, y = xs[at], ys[at]; step(x, y)") in block.rows
