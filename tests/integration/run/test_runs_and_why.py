"""Recorded runs: listed, named, shown again, thrown away."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Any
Until = Callable[[Callable[[], Any], str], Any]


@pytest.fixture
def three(bench: Bench, stubs: Path) -> Bench:
    """Three runs: `stub_training` twice, and `true`, the latest."""
    for words in (["python", stubs / "stub_training.py", "60"],) * 2 + (["true"],):
        assert bench.stoker("run", "--quiet", "--", *words).code == 0
    return bench


def run_id(done: Any) -> str:
    assert (done.code, done.err) == (0, b"")
    found: str = done.json["run"]["id"]
    return found


def test_a_run_is_found_by_many_names(three: Bench) -> None:
    first, _, last = three.runs()
    assert run_id(three.stoker("why", "--json")) == last.name
    assert run_id(three.stoker("why", "latest", "--json")) == last.name
    assert run_id(three.stoker("why", first.name, "--json")) == first.name
    assert run_id(three.stoker("why", first.name[-6:], "--json")) == first.name
    assert run_id(three.stoker("why", first, "--json")) == first.name


def test_an_unclear_name_lists_what_there_is(three: Bench) -> None:
    first, second, last = three.runs()
    done = three.stoker("why", "stub_training")
    assert (done.code, done.out) == (2, b"")
    assert "2 runs match 'stub_training'" in done.page
    assert first.name in done.page
    assert second.name in done.page
    assert last.name not in done.page
    done = three.stoker("why", "no-such-run")
    assert (done.code, done.out) == (2, b"")
    assert "no run matches 'no-such-run'" in done.page
    assert all(run.name in done.page for run in three.runs())


def test_the_same_page_again(bench: Bench, stubs: Path) -> None:
    done = bench.stoker("run", "--", "python", stubs / "stub_training.py", "60")
    again = bench.stoker("why")
    assert (again.code, again.err) == (0, b"")
    assert done.page.strip() == again.out.decode().strip()
    assert all(len(line) <= 80 for line in again.out.decode().splitlines())
    markdown = bench.stoker("why", "--md")
    assert (markdown.code, markdown.err) == (0, b"")
    assert markdown.out.startswith("# stoker · python stub\\_training.py 60\n".encode())


def test_unreadable_runs_are_listed(three: Bench) -> None:
    first, second, _ = three.runs()
    (first / "run.json").write_text("[]")
    (second / "run.json").unlink()
    done = three.stoker("runs")
    assert (done.code, done.err) == (0, b"")
    assert done.out.decode().count("run.json unreadable") == 2
    entries = three.stoker("runs", "--json").json["runs"]
    assert [entry["readable"] for entry in entries].count(False) == 2
    assert all(entry["size_bytes"] > 0 for entry in entries)
    assert three.stoker("runs", "--md").out.startswith(b"# 3 runs\n")
    done = three.stoker("why", str(first))
    assert (done.code, done.out) == (2, b"")
    assert "is not a run that can be read" in done.page


def test_pruning_leaves_what_is_alive(three: Bench, stubs: Path, until: Until) -> None:
    first, second, third = three.runs()
    progress, stop = three.folder / "progress", three.folder / "stop"
    alive = three.start("run", "--quiet", "--", "python", stubs / "ticking.py", progress, stop)
    until(progress.exists, "the first tick")
    live = next(run for run in three.runs() if run not in (first, second, third))
    assert "alive" in three.stoker("runs").out.decode()
    done = three.stoker("runs", "--prune", "1")
    assert (done.code, done.err) == (0, b"")
    assert done.out.startswith(b"removed 2 runs (")
    assert done.out.endswith(b"kept 1; 1 run still going on, left alone\n")
    assert set(three.runs()) == {third, live}
    alive.kill()  # Stoker only: the training goes on, and it is still a live run
    alive.wait(60)
    assert three.stoker("runs", "--prune", "0").code == 0
    assert three.runs() == [live]
    stop.touch()
    until(lambda: not three.members(live), "the training to end")
    assert "no end" in three.stoker("runs").out.decode()
    pruned = three.stoker("runs", "--prune", "0", "--json")
    assert pruned.json["removed"] == [live.name]
    assert three.runs() == []
    assert json.loads(three.stoker("runs", "--json").out)["runs"] == []


def test_stoker_home_is_not_hidden_from_git(bench: Bench) -> None:
    """A folder of the user's own gets no `*` to ignore."""
    done = bench.stoker("run", "--quiet", "--", "true", env={"STOKER_HOME": str(bench.folder)})
    assert done.code == 0
    assert not (bench.folder / ".gitignore").exists()
    assert (bench.folder / "runs" / ".gitignore").read_text() == "*\n"


def test_doctor(bench: Bench) -> None:
    done = bench.stoker("doctor", "--json")
    assert (done.code, done.err) == (0, b"")
    assert done.json["schema"] == "stoker.doctor/1"
    for one in done.json["capabilities"]:
        assert one["available"] or one["reason"]
    page = bench.stoker("doctor")
    assert (page.code, page.err) == (0, b"")
    assert all(len(line) <= 80 for line in page.out.decode().splitlines())
    assert page.out.decode().splitlines()[-1] == "next: stoker run -- python train.py"
    assert bench.stoker("doctor", "--md").out.startswith(b"# stoker ")
    assert not bench.home.exists(), "asking leaves nothing behind"
