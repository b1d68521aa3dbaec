"""Every call of NVML goes through here: what is absent or refused is an answer, not an exception."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from stoker.outside.gpu.seam import Refused


class Calls:
    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self._working: dict[tuple[str, ...], int] = {}

    def ask(self, name: str, *args: object) -> Any:
        """The answer, or `Refused`."""
        call = getattr(self._nvml, name, None)
        if call is None:
            return Refused(f"{name} is not in this nvidia-ml-py")
        try:
            return call(*args)
        except Exception as error:  # NVMLError, and whatever a binding of another version raises
            return Refused(f"{name}: {error}")

    def first(self, *forms: tuple[Any, ...]) -> Any:
        """The first form of a question that is answered; from then on only that one is asked."""
        names = tuple(form[0] for form in forms)
        place = self._working.get(names)
        if place is not None:
            return self.ask(*forms[place])
        answers = []
        for place, form in enumerate(forms):
            answers.append(self.ask(*form))
            if not isinstance(answers[-1], Refused):
                self._working[names] = place
                return answers[-1]
        return answers[0]

    def number(self, name: str, *args: object) -> Any:
        """A whole number, or `Refused`."""
        return whole(self.ask(name, *args), name)

    def text(self, name: str, *args: object) -> str | Refused:
        """Older bindings answer in bytes."""
        answer = self.ask(name, *args)
        if isinstance(answer, Refused):
            return answer
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)


def whole(answer: object, name: str) -> int | Refused:
    if isinstance(answer, Refused):
        return answer
    try:
        return int(answer)  # type: ignore[call-overload,no-any-return]
    except (TypeError, ValueError):
        return Refused(f"{name}: gave {answer!r}")


def part(answer: object, attribute: str, name: str) -> int | Refused:
    """A field of a structure."""
    if isinstance(answer, Refused):
        return answer
    return whole(getattr(answer, attribute, None), name)
