"""The injected sitecustomize hides nobody, changes nothing that a script can see, and leaves no trace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STATE = """
import json, sys, os
names = sorted(n for n in sys.modules if "stoker" in n)
print(json.dumps({"argv": sys.argv, "path": sys.path, "stoker": names, "flags": list(sys.flags),
    "hook": sys.excepthook is sys.__excepthook__, "interval": sys.getswitchinterval(),
    "hidden": getattr(sys.modules.get("sitecustomize"), "MARK", None)}))
"""


def state_of(text: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(text.splitlines()[-1])
    return found


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "look.py"
    path.write_text(STATE)
    return str(path)


def test_a_script_sees_no_difference(watch, bare, script: str) -> None:
    done = watch("python", script, "a", "--b")
    assert state_of(done.out) == state_of(bare("python", script, "a", "--b").stdout)
    assert done.err == ""


def test_path_of_the_user_is_kept(watch, bare, script: str, tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"{tmp_path / 'one'}:{tmp_path}:"}
    assert state_of(watch("python", script, env=env).out) == state_of(bare("python", script, env=env).stdout)
    code = ["python", "-c", STATE]
    assert state_of(watch(*code, env=env).out) == state_of(bare(*code, env=env).stdout)


def test_a_process_without_torch_leaves_no_trace(watch, script: str) -> None:
    done = watch("python", script)
    assert state_of(done.out)["stoker"] == []
    assert list((done.folder / "inside").iterdir()) == []


def test_a_process_that_only_imports_torch_leaves_no_trace(watch, stub_env) -> None:
    done = watch("python", "-c", "import torch, threading; print(threading.active_count())", env=stub_env)
    assert (done.code, done.out) == (0, "1\n")
    assert list((done.folder / "inside").iterdir()) == []


def test_hidden_sitecustomize_on_the_path(watch, bare, script: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; MARK = sys.path[0] and 'ran'\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done = watch("python", script, env=env)
    assert state_of(done.out)["hidden"] == "ran"
    assert state_of(done.out) == state_of(bare("python", script, env=env).stdout)


def test_hidden_sitecustomize_of_a_venv(watch, bare, script: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    packages = next((tmp_path / "v").glob("lib/python*/site-packages"))
    (packages / "sitecustomize.py").write_text("MARK = __file__ and __spec__.name\n")
    python = str(tmp_path / "v" / "bin" / "python")
    done = watch(python, script)
    assert state_of(done.out)["hidden"] == "sitecustomize"
    assert state_of(done.out) == state_of(bare(python, script).stdout)


@pytest.mark.parametrize("text", ["raise ValueError('mine')", "import not_there", "raise ImportError"])
def test_hidden_sitecustomize_that_raises(
    text: str, watch, bare, tmp_path: Path, stub_env, stubs: Path
) -> None:
    """The interpreter's own complaint is the same, and the training is seen all the same."""
    (tmp_path / "sitecustomize.py").write_text(text + "\n")
    env = {"PYTHONPATH": f"{tmp_path}:{stub_env['PYTHONPATH']}"}
    command = ["python", str(stubs / "stub_training.py"), "5"]
    done, plain = watch(*command, env=env), bare(*command, env=env)
    assert (done.code, done.out, done.err) == (plain.returncode, plain.stdout, plain.stderr)
    assert done.record.last.ticks == 5


def test_absent_torch_is_absent_all_the_same(watch, tmp_path: Path) -> None:
    code = "import importlib.util as u, gymless\n"
    (tmp_path / "gymless.py").write_text(
        "try:\n    import gym\nexcept ImportError as e:\n    print(e, e.name)\n"
    )
    code += "print(u.find_spec('stable_baselines3.nothing_here') is None)"
    done = watch("python", "-c", code, env={"PYTHONPATH": str(tmp_path)})
    assert done.out.startswith("No module named 'gym' gym\n"), done.err


@pytest.mark.parametrize(("place", "seen"), [(0, False), (1, True)])
def test_own_import_hooks_stay_in_charge(place: int, seen: bool, watch, tmp_path: Path, stubs: Path) -> None:
    """A finder of the script's own that serves torch is asked, and its loader is used. In front of ours it
    answers alone: the training goes unseen, and unharmed."""
    path = tmp_path / "own.py"
    path.write_text(
        "import importlib.util, sys\n"
        "class Mine:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        f"            folder = {str(stubs / 'torch')!r}\n"
        "            return importlib.util.spec_from_file_location(name, folder + '/__init__.py',\n"
        "                submodule_search_locations=[folder], loader=Loader(name, folder + '/__init__.py'))\n"
        "from importlib.machinery import SourceFileLoader\n"
        "class Loader(SourceFileLoader):\n"
        "    def exec_module(self, module):\n"
        "        super().exec_module(module); module.served = True\n"
        f"sys.meta_path.insert({place}, Mine())\n"
        f"import torch; assert torch.served; sys.path.append({str(stubs)!r})\n"
        "assert 'exec_module' not in vars(torch.__loader__)\n"
        "import stub_training; stub_training.train(4)\n"
    )
    done = watch("python", str(path))
    assert (done.code, done.err) == (0, "")
    assert [process.last.ticks for process in done.processes] == ([4] if seen else [])
