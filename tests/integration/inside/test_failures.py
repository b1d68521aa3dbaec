"""How a script failed: the exception, the user's own line, its class. Nothing of how it fails changes."""

from __future__ import annotations

from pathlib import Path

import pytest

FAILURES = {
    "before torch": ("x = 1\nraise ValueError('early')", "ValueError", "exception", 2, "early"),
    "missing module": (
        "import nowhere_to_be_found",
        "ModuleNotFoundError",
        "exception",
        1,
        "No module named",
    ),
    "after torch": ("import torch\nraise KeyError('late')", "KeyError", "exception", 2, "late"),
    "in training": (
        "import stub_training\nstub_training.train(3)\n1 / 0",
        "ZeroDivisionError",
        "exception",
        3,
        "zero",
    ),
    "in a library": ("import json\njson.loads('{')", "JSONDecodeError", "exception", 2, "Expecting"),
    "out of memory": (
        "import torch\nclass OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('CUDA')",
        "OutOfMemoryError",
        "out of memory",
        3,
        "CUDA",
    ),
    "memory by its words": (
        "raise RuntimeError('CUDA out of memory. Tried')",
        "RuntimeError",
        "out of memory",
        1,
        "CUDA",
    ),
    "no memory": ("bytearray(1 << 62)", "MemoryError", "out of memory", 1, ""),
    "interrupted": ("raise KeyboardInterrupt", "KeyboardInterrupt", "interrupted", 1, ""),
    "interrupted in training": (
        "import stub_training\nstub_training.train(3)\nraise KeyboardInterrupt",
        "KeyboardInterrupt",
        "interrupted",
        3,
        "",
    ),
    "syntax": ("x = (", "SyntaxError", "exception", 1, "never closed"),
    "broken message": (
        "class Odd(Exception):\n    def __str__(self): raise Odd\nraise Odd()",
        "Odd",
        "exception",
        3,
        "",
    ),
    "own excepthook": (
        "import sys\nsys.excepthook = lambda *e: print('mine', e[0].__name__)\nraise OSError('x')",
        "OSError",
        "exception",
        3,
        "x",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure(name: str, watch, bare, tmp_path: Path, stub_env) -> None:
    code, kind, group, line, words = FAILURES[name]
    script = tmp_path / "fails.py"
    script.write_text(code + "\n")
    plain = bare("python", str(script), env=stub_env)
    done = watch("python", str(script), env=stub_env)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)
    assert done.code != 0
    raised = done.record.raised
    assert (raised.type, raised.kind) == (kind, group)
    assert (raised.file, raised.line) == (str(script), line)
    assert words in raised.message


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit(0)", "raise SystemExit(3)", "import os; os._exit(4)", "exit('no')"]
)
def test_leaving_is_no_failure(code: str, watch, bare, stub_env) -> None:
    text = f"import stub_training\nstub_training.train(2)\n{code}"
    plain = bare("python", "-c", text, env=stub_env)
    done = watch("python", "-c", text, env=stub_env)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)
    assert done.record.raised is None


def test_an_exception_that_was_caught_is_no_failure(watch, stub_env) -> None:
    text = "import stub_training\nstub_training.train(2)\ntry: 1 / 0\nexcept ZeroDivisionError: pass"
    assert watch("python", "-c", text, env=stub_env).record.raised is None


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_failure_of_a_rank(method: str, watch, tmp_path: Path, stub_env) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        "import multiprocessing, stub_training, sys\n"
        "def work(rank):\n    stub_training.train(2, rank, 2)\n    if rank: raise ValueError('rank')\n"
        "if __name__ == '__main__':\n"
        "    Process = multiprocessing.get_context(sys.argv[1]).Process\n"
        "    ps = [Process(target=work, args=(i,)) for i in range(2)]\n"
        "    [p.start() for p in ps]; [p.join() for p in ps]\n"
        "    assert not any(p.exitcode for p in ps), 'one died'\n"
    )
    done = watch("python", str(script), method, env=stub_env)
    assert done.code == 1
    by_rank = {process.rank: process for process in done.processes}
    assert by_rank[None].raised.type == "AssertionError"
    assert by_rank[0].raised is None
    assert (by_rank[1].raised.type, by_rank[1].raised.line) == ("ValueError", 4)
    assert {rank: by_rank[rank].last.ticks for rank in range(2)} == {0: 2, 1: 2}


def test_folder_gone_or_read_only_is_no_matter(watch, tmp_path: Path, stub_env) -> None:
    text = "import os, shutil; shutil.rmtree(os.environ['STOKER_FOLDER'] + '/inside')\n"
    text += "open(os.environ['STOKER_FOLDER'] + '/inside', 'w')\n"
    text += "import stub_training\nstub_training.train(2000)\nraise ValueError('on its own')"
    done = watch("python", "-c", text, env=stub_env)
    assert done.code == 1
    assert done.err.splitlines()[-1] == "ValueError: on its own"
    assert "stoker" not in done.err
