"""examples/demo.sh chooses the right environment; the interpreters here are stubs that note their calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Plays `python3` and, copied by its own `-m venv`, the python of .venv-demo.
# $LACKS names what cannot be imported.
STUB_PYTHON = """#!/bin/sh
echo "$*" >>calls.txt
case "$*" in
  *version_info*) [ "${OLD:-}" = "" ]; exit ;;
  *"-m venv"*) mkdir -p .venv-demo/bin
    cp "$0" .venv-demo/bin/python
    cp stub-stoker .venv-demo/bin/stoker ;;
esac
for name in $LACKS; do
  case "$*" in *"import $name"*) exit 1 ;; esac
done
"""
STUB_STOKER = '#!/bin/sh\necho "stoker $*"\nexit "${STOKER_EXIT:-0}"\n'
STUB_MAKE = '#!/bin/sh\necho "make $*"\nmkdir -p .venv/bin\ncp stub-stoker .venv/bin/stoker\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "demo.sh", tmp_path / "examples")
    (tmp_path / "pyproject.toml").write_text("")
    for name, text in {
        "stub-python": STUB_PYTHON,
        "stub-stoker": STUB_STOKER,
        "stub-make": STUB_MAKE,
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def demo(clone: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    stubs = {"PYTHON": str(clone / "stub-python"), "MAKE": str(clone / "stub-make"), "LACKS": ""}
    environment = {**os.environ, **stubs, **settings}
    (clone / "calls.txt").write_text("")
    return subprocess.run(
        ["sh", "examples/demo.sh"], cwd=clone, env=environment, capture_output=True, text=True, timeout=240
    )


def pip_calls(clone: Path) -> list[str]:
    return [line for line in (clone / "calls.txt").read_text().splitlines() if "pip install" in line]


def test_a_torch_that_is_there_is_not_downloaded(clone: Path) -> None:
    done = demo(clone)
    assert done.returncode == 0, done.stderr
    assert "\nstoker run -- python examples/vision.py" in done.stdout
    assert "\nstoker ab --b num_workers=4" in done.stdout
    [pip] = pip_calls(clone)
    assert pip.endswith("--editable .")


def test_only_what_is_missing_is_installed(clone: Path) -> None:
    assert demo(clone, LACKS="PIL").returncode == 0
    [pip] = pip_calls(clone)
    assert pip.split()[-2:] == [".", "pillow"]


def test_the_second_time_nothing_is_installed(clone: Path) -> None:
    demo(clone)
    again = demo(clone)
    assert again.returncode == 0
    assert pip_calls(clone) == []


def test_without_torch_the_development_environment_is_made(clone: Path) -> None:
    done = demo(clone, LACKS="torch")
    assert done.returncode == 0, done.stderr
    assert "make --no-print-directory .venv/.ready" in done.stdout
    assert not (clone / ".venv-demo").exists()


def test_an_old_python_is_refused(clone: Path) -> None:
    done = demo(clone, OLD="yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs 3.11" in done.stderr
    assert "make demo PYTHON=" in done.stderr


def test_a_missing_python_is_refused(clone: Path) -> None:
    done = demo(clone, PYTHON="python-nobody-has")
    assert done.returncode == 2
    assert "python-nobody-has was not found" in done.stderr


def test_the_exit_code_of_the_run_is_passed_on(clone: Path) -> None:
    done = demo(clone, STOKER_EXIT="3")
    assert done.returncode == 3
    assert "Try next" not in done.stdout
