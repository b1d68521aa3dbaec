"""Is there any code that could read a setting? A name that no imported file holds, but where it is set or
declared, is read by nobody.

Every file of every package the training imported is looked at, the training's own and all others: a
configuration may be handed to a library as a whole, which then takes parts of it by their names. That is a
strong sign. It is a proof for a flag that argparse declares, in code that takes nothing by a name it makes up
(`getattr(args, f"{part}_gain")`, `vars(args)`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILES_MAX, BYTES_MAX = 60_000, 1_000_000_000
"""More is not read: then it cannot be told."""
_CODE = (".py", ".pyi", ".pyx")
_INSTALLED = ("site-packages", "dist-packages")
_BY_ANY_NAME = re.compile(
    rb"\bvars\(|\b__dict__\b|\bdest[ \t]*=|\b_get_kwargs\(|BooleanOptionalAction"
    rb"|[gs]etattr\([^,()]+,(?!\s*[\"'])"
)


@dataclass(frozen=True, slots=True)
class Unread:
    """No code names it."""

    files: int
    """That were read."""
    proven: bool


@functools.lru_cache(maxsize=64)
def unread(name: str, packages: tuple[str, ...]) -> Unread | None:
    """None where some code names it, or not all could be looked at."""
    flag = name.lstrip("-").rpartition(".")[2]
    word = flag.replace("-", "_").encode()
    if not re.fullmatch(rb"[A-Za-z]\w{2,}", word) or word.startswith(b"no_"):
        return None
    # `--word` declares a flag; a line that begins with `word = 3`, `"word": 3` or `word: float = 3` sets it.
    # Whoever reads it writes it once more.
    sets = re.compile(rb"""(?m)^[ \t]*["']?%s["']?[ \t]*(?::|=(?!=))""" % word)
    uses = re.compile(rb"(?<!--)(?<!\w)%s(?!\w)" % word)
    declares = re.compile(rb"add_argument\([^)]*[\"']--%s[\"']" % re.escape(flag.encode()))
    count = total = 0
    declared = by_any_name = False
    for path in _sources(packages):
        content = _content(path)
        if content is None:
            return None
        count, total = count + 1, total + len(content)
        named = word in content and uses.search(sets.sub(b"", content)) is not None
        if named or count > FILES_MAX or total > BYTES_MAX:
            return None
        if not any(part in _INSTALLED for part in path.parts):
            declared = declared or declares.search(content) is not None
            by_any_name = by_any_name or _BY_ANY_NAME.search(content) is not None
    return Unread(count, declared and not by_any_name) if count else None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.suffix in _CODE else None
    except OSError:
        return None


def _sources(packages: tuple[str, ...]) -> Iterator[Path]:
    for package in packages:
        if os.path.isdir(package):
            for folder, _, names in os.walk(package):
                yield from (Path(folder, name) for name in names if name.endswith(_CODE))
        elif not package.endswith(".so"):  # compiled: it has its names from Python code that calls it
            yield Path(package)
