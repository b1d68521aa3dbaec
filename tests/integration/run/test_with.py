"""`stoker run --with`: what is refused before anything runs, and what the page says after."""

from __future__ import annotations

from typing import Any

SCRIPT = """
import os, sys, torch
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(20):
    torch.autograd.backward(model([1]))
    optimizer.step()
print(sys.argv[1:], os.environ.get("GREETING"))
"""


def test_a_typo_runs_nothing(bench: Any) -> None:
    done = bench.stoker("run", "--with", "num_worker=2", "--", "python", bench.script(SCRIPT))
    assert done.code == 2
    assert done.out == b""
    assert "no knob called 'num_worker'" in done.page
    assert "nearest first: num_workers" in done.page
    assert not bench.home.exists()


def test_a_key_that_is_not_there_leaves_no_run(bench: Any) -> None:
    config = bench.folder / "c.yaml"
    config.write_text("lr: 1\n")
    done = bench.stoker("run", "--with", "cfg:c.yaml:rl=2", "--", "python", bench.script(SCRIPT), config)
    assert (done.code, done.out) == (2, b"")
    assert "nearest: lr" in done.page
    assert bench.runs() == []


def test_settings_reach_the_command_and_the_page(bench: Any) -> None:
    script = bench.script(SCRIPT)
    done = bench.stoker(
        "run", "--with", "steps=7,flag:--x=1", "--with", "env:GREETING=hello,num_workers=2",
        "--", "python", script, "--steps", "{steps}",
    )  # fmt: skip
    assert done.code == 0, done.page
    assert done.out.decode().strip() == "['--steps', '7', '--x', '1'] hello"
    page = " ".join(done.page.split())
    assert "placeholder:steps=7: set;" in page
    assert "num_workers=2: NOT in effect: no DataLoader was opened" in page
    info = bench.run_json()
    assert info["settings"] == ["placeholder:steps=7", "flag:--x=1", "env:GREETING=hello", "num_workers=2"]
    assert info["command"][-4:] == ["--steps", "7", "--x", "1"]
    found = bench.stoker("why", "--json").json
    assert [one["live"] for one in found["settings"]] == [None, None, None, False]


def test_without_it_the_knobs_of_a_stoker_around_do_not_come_in(bench: Any) -> None:
    env = {"STOKER_KNOBS": '{"knobs": {"num_workers": "2"}}'}
    done = bench.stoker("run", "--", "python", bench.script(SCRIPT), env=env)
    assert done.code == 0
    assert bench.stoker("why", "--json").json["trainers"][0]["knobs"] == []


def test_a_job_that_runs_already_cannot_be_changed(bench: Any) -> None:
    done = bench.stoker("run", "--with", "bf16", "--pid", "1")
    assert done.code == 2
    assert "--with" in done.page
