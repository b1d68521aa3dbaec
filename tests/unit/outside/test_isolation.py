from __future__ import annotations

import pytest

from stoker.outside.isolation import isolating_flags


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["python", "-I", "x.py"], "-I"),
        (["/usr/bin/python3.11", "-E", "-m", "pkg"], "-E"),
        (["python3", "-uSE", "x.py"], "-ES"),
        (["python3", "-W", "ignore", "-I", "x.py"], "-I"),
        (["python3", "-Wignore", "-S", "x.py"], "-S"),
        (["python3.13t", "-X", "dev", "-I"], "-I"),
        (["python3", "x.py", "-I"], None),
        (["python3", "-c", "pass", "-I"], None),
        (["python3", "-m", "pkg", "-E"], None),
        (["python3", "-uc", "pass", "-S"], None),
        (["python3", "-WI", "x.py"], None),
        (["python3", "--check-hash-based-pycs", "always", "-I", "x.py"], "-I"),
        (["python3", "-u", "-", "-I"], None),
        (["sh", "-I"], None),
        (["python-config", "-I"], None),
        ([""], None),
    ],
)
def test_flags_that_hide_a_python(words: list[str], flags: str | None) -> None:
    assert isolating_flags("\0".join([*words, ""]).encode()) == flags


def test_bytes_that_are_no_text() -> None:
    assert isolating_flags(b"\xff\xfe\0-I\0") is None
    assert isolating_flags(b"") is None
