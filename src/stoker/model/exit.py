"""How a command ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EndedBy(StrEnum):
    ITSELF = "itself"
    USER = "signal-from-user"
    """A signal that asks for an end (Ctrl-C, kill) was passed on before the command ended."""
    TIME_LIMIT = "time-limit"
    STOKER = "stoker"
    """Before its time: it hung, or one of its ranks was dead."""


@dataclass(frozen=True, slots=True)
class Exit:
    code: int | None
    """Exit code; None where a signal ended it."""
    signal: int | None
    ended_by: EndedBy

    @property
    def shell_code(self) -> int:
        """The code a shell would report: its own, or 128+n for signal n."""
        return 128 + self.signal if self.signal is not None else self.code or 0
