"""From settings to a command: what is replaced, what is added, what is copied, and what is left alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from stoker.errors import UsageError
from stoker.trials.knobs import Prepared, parse_settings, prepare

YAML = """\
# the training
name: "a: b"   # not a key
optim:
  lr: 1e-3  # rate
  'betas': [0.9, 0.999]
steps:
  - lr: 5
    optim:
      lr: 7
text: |
  lr: no
data: {lr: 2}
model:
    optim:
        lr: 9
"""


def made(text: str, command: list[str], folder: Path, env: dict[str, str] | None = None) -> Prepared:
    return prepare(parse_settings(text, command), command, env or {}, folder)


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("flag:--bs=64", "t.py --bs 8 --x", "t.py --bs 64 --x"),
        ("flag:--bs=64", "t.py --bs=8", "t.py --bs=64"),
        ("flag:--bs=64", "t.py --bs 8 --bs=9", "t.py --bs 64 --bs=64"),
        ("flag:--bs=64", "t.py --bsz 8", "t.py --bsz 8 --bs 64"),
        ("flag:--lr=2", "t.py --lr -1.5 go", "t.py --lr 2 go"),
        ("flag:--lr=2", "t.py --lr --x", "t.py --lr 2 --x"),
        ("flag:--amp", "t.py", "t.py --amp"),
        ("flag:--amp", "t.py --amp", "t.py --amp"),
        ("hydra:a.b=1", "t.py a.b=3 a.bc=4 +a.b=5", "t.py a.bc=4 a.b=1"),
        ("n=4,bf16", "t.py --n={n} {n}x {m}", "t.py --n=4 4x {m}"),
    ],
)
def test_command(text: str, command: str, expected: str, tmp_path: Path) -> None:
    assert made(text, command.split(), tmp_path).command == tuple(expected.split())
    assert list(tmp_path.iterdir()) == []


def test_environment(tmp_path: Path) -> None:
    env = {"A": "old", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64", "STOKER_KNOBS": "of another"}
    found = made("env:A=new,allocator,nccl,num_workers=2", ["t.py"], tmp_path, env)
    assert found.env["A"] == "new"
    assert found.env["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:64,expandable_segments:True"
    assert found.env["NCCL_P2P_DISABLE"] == "1"
    told = json.loads(found.env["STOKER_KNOBS"])
    assert told["knobs"] == {"allocator": "expandable", "nccl": "safe", "num_workers": "2"}
    assert {"A", "NCCL_IB_DISABLE"} <= set(told["variables"])
    assert env["A"] == "old"


def test_a_placeholder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \{num_envs\}"):
        made("placeholder:num_envs=1", ["t.py", "{n_envs}"], tmp_path)


def edited(name: str, content: str, key: str, folder: Path) -> str:
    source = folder / name
    source.write_text(content)
    text = f"cfg:{source}:{key}"
    found = made(text, ["t.py", f"--config={source}"], folder / "run")
    assert source.read_text() == content, "the user's own file was touched"
    copy = found.files[str(source)]
    assert copy.is_relative_to(folder / "run")
    assert copy.name == name
    assert found.command == ("t.py", f"--config={copy}")
    return copy.read_text()


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("optim.lr=3e-4", "  lr: 1e-3  # rate", "  lr: 3e-4  # rate"),
        ("optim.betas=[0,1]", "  'betas': [0.9, 0.999]", "  'betas': [0,1]"),
        ("name=x", 'name: "a: b"   # not a key', "name: x   # not a key"),
        ("model.optim.lr=1", "        lr: 9", "        lr: 1"),
    ],
)
def test_yaml(key: str, old: str, new: str, tmp_path: Path) -> None:
    assert edited("t.yaml", YAML, key, tmp_path) == YAML.replace(old, new, 1)


@pytest.mark.parametrize(
    "key", ["optim.lrr=1", "lr=1", "text=1", "text.lr=1", "steps.lr=1", "steps.optim.lr=1"]
)
def test_a_yaml_key_that_is_not_there_lists_the_nearest(key: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        edited("t.yaml", YAML, key, tmp_path)
    assert "optim.lr" in caught.value.seen


@pytest.mark.parametrize("name", ["t.json", "t.yaml"])
def test_json(name: str, tmp_path: Path) -> None:
    found = edited(name, '{"a": {"b": 1, "c": "x"}}', "a.b=[2, 3]", tmp_path)
    assert json.loads(found) == {"a": {"b": [2, 3], "c": "x"}}
    with pytest.raises(UsageError, match=r"no key a\.d"):
        edited("t.json", '{"a": {"b": 1}}', "a.d=1", tmp_path)


def test_toml(tmp_path: Path) -> None:
    text = "x = 1\n[a.b]\nc = 2 \n[[t]]\nc = 3\n[d]\nc = 4\nlong = [\n 1,\n]\n"
    found = tomllib.loads(edited("t.toml", text, "a.b.c=word", tmp_path))
    assert found == {**tomllib.loads(text), "a": {"b": {"c": "word"}}}
    with pytest.raises(UsageError, match="long cannot be changed"):
        edited("t.toml", text, "d.long=1", tmp_path)
    with pytest.raises(UsageError, match=r"no key t\.c"):
        edited("t.toml", text, "t.c=1", tmp_path)


def test_python_module(tmp_path: Path) -> None:
    text = "import copy\nBASE = {'optim': {'lr': 1}}\nCONFIG = copy.deepcopy(BASE)\n"
    found = edited("c.py", text, "CONFIG.optim.lr=__import__('os')", tmp_path)
    names: dict[str, object] = {}
    exec(found, names)
    assert names["CONFIG"] == {"optim": {"lr": "__import__('os')"}}
    assert names["BASE"] == {"optim": {"lr": 1}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A = 1", "defines no CONFIG"),
        ("from . import CONFIG", "its own package"),
        ("CONFIG = __file__", "__file__"),
    ],
)
def test_a_python_module_that_cannot_be_copied(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        edited("c.py", text, "CONFIG.lr=1", tmp_path)
    assert says in str(caught.value)


def test_args_file(tmp_path: Path) -> None:
    source = tmp_path / "walk.txt"
    source.write_text("# --num_envs 1\n--num_envs 256 --mode train\n--seed 3")
    found = made(
        f"args:{source}:num_envs=8,args:{source}:new=1", ["t.py", "--arg_file", str(source)], tmp_path / "r"
    )
    copy = found.files[str(source)]
    assert copy.read_text() == "# --num_envs 1\n--num_envs 8 --mode train\n--seed 3\n--new 1\n"
    assert found.command == ("t.py", "--arg_file", str(copy))


def test_a_file_the_command_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("a: 1\n")
    with pytest.raises(UsageError, match="does not name"):
        made(f"cfg:{tmp_path}/t.yaml:a=2", ["t.py"], tmp_path / "run")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        made(f"cfg:{tmp_path}/t.yaml:a=2", ["t.py", f"{tmp_path}/t.yaml"], tmp_path / "run")
