"""Names nobody would choose, in command lines, paths and exceptions: shown, never interpreted."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

Bench = Any

TRAINING = """
import torch
model, optimizer = torch.nn.Linear(), torch.optim.SGD()
for _ in range(60):
    torch.autograd.backward(model([1]))
    optimizer.step()
raise ValueError("\\x1b[31mred\\x1b[0m [bold]x[/bold] </script> | `a` \\u202e" + "long " * 200)
"""
NAMES = [
    b"a'; echo foo",
    b"$(touch broken)`touch broken`",
    b"\x1b[31mred\x1b]0;title\x07",
    b"</script><script>alert(1)</script>".replace(b"/", b"_"),
    b"[bold red]x[_bold red][link=http:__x]y",
    b"| a | b |\n# heading\r\n- item",
    b"\xff\xfe not utf-8 \xe9",
    b"-" + b"n" * 240,
    "\u202egnp.exe\u2066 \u200b".encode(),
    "訓練".encode() * 30,
]


def forms(bench: Bench) -> dict[str, bytes]:
    found = {}
    for form in ([], ["--json"], ["--md"]):
        done = bench.stoker("why", *form)
        assert (done.code, done.err) == (0, b"")
        found["".join(form)] = done.out
    return found


def assert_harmless(output: bytes) -> None:
    text = output.decode("utf-8")
    bad = [char for char in text if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
    assert not bad, f"control characters {bad!r} in {text!r}"
    assert not set(text) & set("\u202e\u2066\u200b\u2028")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_odd_names(bench: Bench, name: bytes) -> None:
    script = os.fsencode(bench.folder) + b"/" + name
    with open(script, "w") as handle:
        handle.write(TRAINING)
    done = bench.stoker("run", "--", "python", script, name)
    assert (done.code, done.out) == (1, b"")
    page = done.err[done.err.index(b"\nstoker \xc2\xb7 ") :]  # after the script's own traceback
    assert_harmless(page)
    assert "failed  ValueError at" in page.decode()
    shown = forms(bench)
    assert all(len(line) <= 80 for line in shown[""].decode().splitlines())
    for output in shown.values():
        assert_harmless(output)
    assert json.loads(shown["--json"])["run"]["command"][2] == os.fsdecode(name)
    assert b"</script>" not in shown["--md"]
    assert b"<script>" not in shown["--md"]
    listing = bench.stoker("runs")
    assert listing.code == 0
    assert_harmless(listing.out)
    assert not (bench.folder / "broken").exists()
    assert sorted(path.name for path in bench.home.iterdir()) == [".gitignore", "runs"]


def test_an_error_shows_control_characters_and_does_not_send_them(bench: Bench) -> None:
    for words in (["run", "--", "\x1b[31mx"], ["why", "\x1b[31mx"], ["\x1b[31mx"], ["why", "x" * 5000]):
        done = bench.stoker(*words)
        assert done.code in (2, 127)
        assert_harmless(done.err)
        assert b"Traceback" not in done.err


def test_the_folders_own_name_is_odd(bench: Bench) -> None:
    odd = bench.folder / "a'; echo foo \x1b[31m"
    odd.mkdir()
    bench.folder = odd
    bench.home = odd / ".stoker"
    bench.script("import torch\ntorch.optim.SGD().step()\n")
    done = bench.stoker("run", "--", "python", "train.py")
    assert (done.code, done.out) == (0, b"")
    assert_harmless(done.err)
    assert len(bench.runs()) == 1
