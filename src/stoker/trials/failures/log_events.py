"""A log tail as what happened in it: exceptions with their messages, and single lines that tell something.

Ranks write into one log, each line perhaps with its own prefix; a traceback is followed per prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PREFIX = re.compile(
    r"^(?:\x1b\[[\d;]*m)*(?:\[?(?:rank\s?\d+|default\d*|trainer|worker\d*)\]?:?\s?|\(\w+ pid=\d+[^)]*\)\s?|"
    r"\d+:\s(?=Traceback| File|\s|\w+Error))",
    re.IGNORECASE,
)
_ANSI = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_EXCEPTION = re.compile(r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: (?P<message>.*))?$")
_KNOWN_END = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failed|Failure|Empty|NotFound|Full)$"
)
_WORKER_SAYS = re.compile(r"^(?:Original )?Traceback \(most recent call last\)")
_PROGRESS = re.compile(
    r"\b(?:step|iter|iteration|epoch|update|episode|batch|it|ep|timesteps?)s?\b\s*[=:#\[/]?\s*\d|"
    r"\b\d+(?:\.\d+)?\s?(?:it|steps?|samples?|fps)/s\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Event:
    text: str
    exception: str | None = None
    """The type's name without its module, where the line ends a traceback or reads like one's end."""
    frames: tuple[str, ...] = ()
    """The lines of its traceback."""


@dataclass
class _Open:
    frames: list[str] = field(default_factory=list)


def events(log_tail: str) -> list[Event]:
    found: list[Event] = []
    opened: dict[str, _Open] = {}
    for raw in log_tail.replace("\r", "\n").splitlines():
        line = _ANSI.sub("", raw).rstrip()
        prefix, text = _split(line)
        if _WORKER_SAYS.match(text.strip()):
            opened[prefix] = _Open()
        elif prefix in opened:
            if _is_frame(text):
                opened[prefix].frames.append(text.strip())
            elif text.strip():
                found.append(_ended(text.strip(), opened.pop(prefix)))
        elif text.strip():
            found.append(Event(text.strip(), _exception_name(text.strip())))
    return found


def _split(line: str) -> tuple[str, str]:
    match = _PREFIX.match(line)
    return (match[0].strip(), line[match.end() :]) if match else ("", line)


def _is_frame(text: str) -> bool:
    return text.startswith((" ", "\t")) or text.strip().startswith(("File ", "^", "~", "|", "+"))


def _ended(text: str, traceback: _Open) -> Event:
    match = _EXCEPTION.match(text)
    name = match["type"].rpartition(".")[2] if match else None
    return Event(text, name, tuple(traceback.frames))


def _exception_name(text: str) -> str | None:
    """A line such as `ValueError: …` outside a traceback: a tail may have lost its beginning."""
    match = _EXCEPTION.match(text)
    if match is None or match["message"] is None:
        return None
    name = match["type"].rpartition(".")[2]
    return name if _KNOWN_END.search(name) else None


def is_progress(event: Event) -> bool:
    return event.exception is None and _PROGRESS.search(event.text) is not None


def after_last_progress(found: list[Event]) -> list[Event]:
    """What was survived is not what killed it: a failure that was handled is followed by more steps."""
    places = [place for place, event in enumerate(found) if is_progress(event)]
    return found[places[-1] + 1 :] if places else found
