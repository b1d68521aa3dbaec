"""Stoker in one environment, the training in another: bare venvs, old Pythons, Pythons that shut it out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.store.reading import load

STEPS = 25
CHECK_PHASES = ("data", "forward", "backward", "optim")


def interpreter(version: str) -> str | None:
    """A real interpreter of that version: on PATH, or where pyenv keeps them."""
    roots = [Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"]
    kept = [str(path) for root in roots for path in sorted(root.glob(f"{version}.*/bin/python{version}"))]
    for candidate in [*kept, shutil.which(f"python{version}") or ""]:
        if candidate and _answers(candidate, version):
            return candidate
    return None


def _answers(candidate: str, version: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def required(version: str) -> str:
    found = interpreter(version)
    if found is None:
        pytest.skip(f"no Python {version} on this machine")
    return found


@pytest.fixture(scope="session")
def other_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv with nothing in it, the stub torch put into its site-packages by a .pth file."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "stub.pth").write_text(f"{Path(__file__).parents[2] / 'stubs'}\n")
    return folder


def test_training_in_another_venv(other_venv: Path, watch, stubs: Path) -> None:
    python = str(other_venv / "bin" / "python")
    probe = "import importlib.util as u; print(u.find_spec('stoker'), u.find_spec('psutil'))"
    assert watch(python, "-c", probe).out == "None None\n"
    done = watch(python, str(stubs / "stub_training.py"), str(STEPS))
    assert (done.code, done.err) == (0, "")
    assert done.record.last.ticks == STEPS
    assert all(done.record.last.phase(name) > 0 for name in CHECK_PHASES)


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_python(version: str, watch, stubs: Path, stub_env) -> None:
    done = watch(required(version), str(stubs / "stub_training.py"), str(STEPS), env=stub_env)
    assert (done.code, done.err) == (0, "")
    assert done.record.python.startswith(version + ".")
    assert done.record.last.ticks == STEPS
    assert done.record.ended
    assert not done.record.hook_failures
    assert all(done.record.last.phase(name) > 0 for name in CHECK_PHASES)


@pytest.mark.parametrize("version", ["3.9", "3.13"])
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_other_python_with_children(version: str, method: str, watch, stubs: Path, stub_env) -> None:
    script = str(stubs / "started_by_multiprocessing.py")
    done = watch(required(version), script, method, str(STEPS), env=stub_env)
    assert (done.code, done.err) == (0, "")
    assert {(p.rank, p.last.ticks, p.ended) for p in done.processes} == {
        (None, 3, True),
        (0, STEPS, True),
        (1, STEPS, True),
    }


def test_python_3_6_is_left_alone(watch, tmp_path: Path) -> None:
    """The sitecustomize parses there, says nothing, and the one it hides still runs."""
    (tmp_path / "sitecustomize.py").write_text("print('the hidden one ran')\n")
    code = "import sys; print(sys.version_info[:2], any('inside' in p for p in sys.path), sys.meta_path[0])"
    done = watch(required("3.6"), "-c", code, env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the hidden one ran\n(3, 6) False <class '_frozen_importlib.BuiltinImporter'>")
    assert not done.processes


def stoker(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(__file__).parents[3] / "src")
    env = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "stoker", *words]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_python_that_shuts_stoker_out(flag: str, tmp_path: Path, stubs: Path) -> None:
    script = tmp_path / "train.py"
    wait = "import time; end = time.monotonic() + 1.0\nwhile time.monotonic() < end: sum(range(1000))\n"
    text = f"import sys; sys.path.insert(0, {str(stubs)!r})\nimport stub_training; stub_training.train(3)\n"
    script.write_text(text + wait)
    done = stoker(tmp_path, "run", "--", sys.executable, flag, str(script))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"Python was started with {flag}" in done.stderr
    told = json.loads(stoker(tmp_path, "why", "--json").stdout)
    assert (told["processes"], told["trainers"]) == ([], [])
    assert any(f"Python with {flag} cannot be seen from inside" in note for note in told["notes"])
    assert load(Path(told["folder"])).host.readings, "it is recorded from outside"
