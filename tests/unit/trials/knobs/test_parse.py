"""What people type about knobs, and what it means."""

from __future__ import annotations

import pytest

from stoker.errors import UsageError
from stoker.trials.knobs import RUNTIME, Channel, Kind, parse_settings

COMMAND = ["python", "train.py", "--envs", "{num_envs}"]


def told(text: str) -> list[tuple[str, str, str, str]]:
    found = parse_settings(text, COMMAND)
    return [(one.knob.channel.value, one.file, one.name, one.value) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("num_workers=8", [("runtime", "", "num_workers", "8")]),
        ("num_workers=08, bf16", [("runtime", "", "num_workers", "8"), ("runtime", "", "bf16", "on")]),
        ("bf16=False", [("runtime", "", "bf16", "off")]),
        ("compile", [("runtime", "", "compile", "inductor")]),
        ("compile=max-autotune", [("runtime", "", "compile", "max-autotune")]),
        ("num_envs=4096", [("placeholder", "", "num_envs", "4096")]),
        ("placeholder:num_envs=1", [("placeholder", "", "num_envs", "1")]),
        ("--batch-size=64", [("flag", "", "--batch-size", "64")]),
        ("flag:--amp", [("flag", "", "--amp", "")]),
        ("flag:--x=a=b:c", [("flag", "", "--x", "a=b:c")]),
        ("hydra:n.l=[64,64],tf32", [("hydra", "", "n.l", "[64,64]"), ("runtime", "", "tf32", "on")]),
        ("env:A='x,y'", [("env", "", "A", "'x,y'")]),
        ("cfg:a/t.yaml:optim.lr=3e-4", [("cfg", "a/t.yaml", "optim.lr", "3e-4")]),
        ("args:w.txt:num_envs=512", [("args", "w.txt", "num_envs", "512")]),
        ("runtime:threads=2", [("runtime", "", "threads", "2")]),
    ],
)
def test_grammar(text: str, expected: list[tuple[str, str, str, str]]) -> None:
    assert told(text) == expected


@pytest.mark.parametrize(
    "text",
    ["num_workers=8", "bf16=off", "flag:--amp", "flag:--x=1", "hydra:a.b=[1,2]", "cfg:t.yaml:a=1", "env:A="],
)
def test_a_setting_can_be_typed_again(text: str) -> None:
    (one,) = parse_settings(text, COMMAND)
    assert parse_settings(one.text, []) == (one,)


def test_a_typo_lists_the_known_ones_nearest_first() -> None:
    with pytest.raises(UsageError) as caught:
        parse_settings("num_worker=8", COMMAND)
    assert caught.value.exit_code == 2
    listed = caught.value.seen.partition(": ")[2].split(", ")
    assert listed[0] == "num_workers"
    assert set(listed) == {*(knob.name for knob in RUNTIME), "{num_envs}"}, "the command has that one"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("num_workers", "whole number"),
        ("num_workers=-1", "whole number"),
        ("prefetch_factor=0", "whole number"),
        ("threads=two", "whole number"),
        ("bf16=maybe", "on or off"),
        ("compile=fast", "inductor"),
        ("persistent_workers=off", "takes on"),
        ("fog:--x=1", "no way 'fog'"),
        ("flag:batch=1", "does not say"),
        ("env:A", "does not say"),
        ("cfg:t.yaml=1", "does not say"),
        ("bf16,bf16=off", "set twice"),
        ("num_env=1", "no knob called"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_settings(text, COMMAND)
    assert says in str(caught.value)


def test_kinds() -> None:
    texts = "flag:--num-workers=1,cfg:a.yaml:data.num_workers=2,flag:--batch-size=3,env:OMP_NUM_THREADS=1"
    kinds = [one.knob.kind for one in parse_settings(texts, COMMAND)]
    assert kinds == [Kind.DYNAMICS, Kind.DYNAMICS, Kind.DYNAMICS, Kind.NUMERIC], "of the script's own"
    exact = parse_settings("num_workers=1,flag:--pin-memory", COMMAND)
    assert [one.knob.kind for one in exact] == [Kind.EXACT] * 2
    assert {knob.channel for knob in RUNTIME} == {Channel.RUNTIME}
