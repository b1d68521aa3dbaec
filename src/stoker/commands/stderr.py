"""What is said on stderr besides pages: errors and remarks.

On a terminal they are wrapped between words; in a file every part stays one line, so that it can be searched
for. Untrusted text is shown, never obeyed.
"""

from __future__ import annotations

import shutil
import sys
import textwrap

from stoker.errors import StokerError
from stoker.report.escape import printable

_WIDEST = 100


def tell_error(error: StokerError) -> None:
    """What failed, what was seen, what to do."""
    tell(f"error: {error.message}", "       ")
    if error.seen:
        tell(f"  seen: {error.seen}", "        ")
    if error.hint:
        first, *more = error.hint.split("\n")  # may be a list of ours, one to a line
        tell(f"  try:  {first}", "        ")
        for line in more:
            tell(line, "        ")


def tell(text: str, below: str = "  ") -> None:
    """`below` stands before the second and later lines."""
    if sys.stderr is None:  # closed by whoever started us
        return
    for line in _wrapped(printable(text), below):
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _wrapped(text: str, below: str) -> list[str]:
    if not sys.stderr.isatty():
        return [text]
    indent = text[: len(text) - len(text.lstrip())]
    columns = min(shutil.get_terminal_size().columns, _WIDEST)
    # A path or a flag longer than a line stays whole: it may be copied.
    return textwrap.wrap(
        text.lstrip(),
        max(columns, 20),
        initial_indent=indent,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )
