"""The user's own condition for when a window may begin: `iter >= 120 and data_time < 0.02 for 5`.

A small grammar, read by hand; nothing of it is ever executed.

    gate       = condition [ "for" COUNT [ "ticks" ] ]
    condition  = term { "or" term }
    term       = factor { "and" factor }
    factor     = "not" factor | "(" condition ")" | FIELD OPERATOR NUMBER [ "s" | "ms" | "us" | "%" ]

Where ticks are short, the phases of most are not told apart. One of those took from 0 to as long as the tick:
often enough to tell. Where it is not, nobody can: that tick counts neither for the condition nor against it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from stoker.errors import UsageError
from stoker.model.record import PHASES, Tick

DEPTH_MAX = 50
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)(?:\s*(ms|us|s|%))?(?![\w.])|([a-z_]\w*)|(<=|>=|==|!=|<|>|\(|\)))",
    re.I | re.A,
)
_UNITS = {None: 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "%": 0.01}
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class NumberedTick:
    number: int
    """As the training counts them, from 1 on."""
    time_s: float
    """Since the first tick, at its end."""
    tick: Tick


Value = Callable[[NumberedTick], tuple[float, float]]
"""It lies between these two."""
Condition = Callable[[NumberedTick], bool | None]
"""None where it cannot be told."""


def _known(value: Callable[[NumberedTick], float]) -> Value:
    return lambda one: (value(one), value(one))


def _phase_s(index: int) -> Value:
    def between(one: NumberedTick) -> tuple[float, float]:
        told = one.tick.phase_s
        return (0.0, one.tick.duration_s) if told is None else (told[index], told[index])

    return between


def _phase_frac(index: int) -> Value:
    seconds = _phase_s(index)

    def between(one: NumberedTick) -> tuple[float, float]:
        low, high = (
            spent / one.tick.duration_s if one.tick.duration_s > 0 else 0.0 for spent in seconds(one)
        )
        return low, high

    return between


FIELDS: dict[str, Value] = {
    "iter": _known(lambda one: one.number),
    "tick": _known(lambda one: one.number),
    "time_s": _known(lambda one: one.time_s),
    "tick_s": _known(lambda one: one.tick.duration_s),
    "data_time": _phase_s(PHASES.index("data")),
    "env_time": _phase_s(PHASES.index("env")),
    **{f"{name}_s": _phase_s(index) for index, name in enumerate(PHASES)},
    **{f"{name}_frac": _phase_frac(index) for index, name in enumerate(PHASES)},
}


@dataclass(frozen=True, slots=True)
class Gate:
    text: str
    condition: Condition
    lasting: int
    """As many ticks in a row must fulfil it."""

    def opens(self, ticks: Iterable[NumberedTick]) -> int | None:
        """How many ticks pass until it is open; None if it never opens."""
        return next((passed for passed, held in self._in_a_row(ticks) if held >= self.lasting), None)

    def longest(self, ticks: Iterable[NumberedTick]) -> int:
        """Most ticks in a row that fulfil it."""
        return max((held for _, held in self._in_a_row(ticks)), default=0)

    def told(self, ticks: Iterable[NumberedTick]) -> list[bool]:
        """Whether it holds, of the ticks of which that can be told."""
        return [holds for holds in map(self.condition, ticks) if holds is not None]

    def _in_a_row(self, ticks: Iterable[NumberedTick]) -> Iterator[tuple[int, int]]:
        """(how many ticks have passed, how many in a row have fulfilled it)."""
        held = 0
        for passed, one in enumerate(ticks, 1):
            holds = self.condition(one)
            if holds is not None:
                held = held + 1 if holds else 0
            yield passed, held


def parse_gate(text: str) -> Gate:
    reader = _Reader(text, _tokens(text))
    condition = reader.condition(0)
    return Gate(text, condition, reader.lasting())


def _tokens(text: str) -> list[tuple[str, float | str]]:
    found: list[tuple[str, float | str]] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise _error(text, f"cannot be read from here on: {text[at:].strip()!r}")
        number, unit, word, sign = match.groups()
        if number is not None:
            scale = _UNITS[unit.lower() if unit else None]
            found.append(("quantity" if unit else "number", float(number) * scale))
        else:
            found.append(("word", word.lower()) if word else ("sign", sign))
        at = match.end()
    return found


class _Reader:
    def __init__(self, text: str, tokens: Sequence[tuple[str, float | str]]) -> None:
        self.text = text
        self.tokens = list(tokens)

    def _next_is(self, *values: str) -> bool:
        return bool(self.tokens) and self.tokens[0][0] in ("word", "sign") and self.tokens[0][1] in values

    def _take(self) -> tuple[str, float | str]:
        if not self.tokens:
            raise _error(self.text, "ends too early")
        return self.tokens.pop(0)

    def condition(self, depth: int) -> Condition:
        parts = [self._term(depth)]
        while self._next_is("or"):
            self._take()
            parts.append(self._term(depth))
        return parts[0] if len(parts) == 1 else lambda one: _any(part(one) for part in parts)

    def _term(self, depth: int) -> Condition:
        parts = [self._factor(depth)]
        while self._next_is("and"):
            self._take()
            parts.append(self._factor(depth))
        return parts[0] if len(parts) == 1 else lambda one: _not(_any(_not(part(one)) for part in parts))

    def _factor(self, depth: int) -> Condition:
        if depth > DEPTH_MAX:
            raise _error(self.text, "too deeply nested")
        if self._next_is("not"):
            self._take()
            inner = self._factor(depth + 1)
            return lambda one: _not(inner(one))
        if self._next_is("("):
            self._take()
            inside = self.condition(depth + 1)
            if not self._next_is(")"):
                raise _error(self.text, "a bracket is not closed")
            self._take()
            return inside
        return self._comparison()

    def _comparison(self) -> Condition:
        kind, name = self._take()
        value = FIELDS.get(str(name)) if kind == "word" else None
        if value is None:
            raise _error(self.text, f"{name!s} is not a recorded field")
        _, sign = self._take()
        compare = _COMPARE.get(str(sign))
        if compare is None:
            raise _error(self.text, f"after {name} one of {' '.join(_COMPARE)} is expected, not {sign!s}")
        _, limit = self._take()
        if not isinstance(limit, float):
            raise _error(self.text, f"{name} is compared with a number, not with {limit!s}")
        return lambda one: _told(compare, *value(one), limit)

    def lasting(self) -> int:
        """What remains: nothing, or `for N`."""
        if not self.tokens:
            return 1
        if not self._next_is("for"):
            raise _error(self.text, f"expected and, or, for, not {self.tokens[0][1]!s}")
        self._take()
        kind, count = self._take()
        if kind != "number" or not isinstance(count, float) or count < 1 or count != int(count):
            raise _error(self.text, "after for a whole number of ticks is expected")
        if self._next_is("tick", "ticks", "iters"):
            self._take()
        if self.tokens:
            raise _error(self.text, f"nothing may follow the count: {self.tokens[0][1]!s}")
        return int(count)


def _told(compare: Callable[[float, float], bool], low: float, high: float, limit: float) -> bool | None:
    """Between the two every value is possible, so the limit itself is, too, where it lies there."""
    possible = {compare(low, limit), compare(high, limit)}
    if low < limit < high:
        possible.add(compare(limit, limit))
    return possible.pop() if len(possible) == 1 else None


def _not(holds: bool | None) -> bool | None:
    return None if holds is None else not holds


def _any(told: Iterable[bool | None]) -> bool | None:
    found = set(told)
    return True if True in found else None if None in found else False


def _error(text: str, seen: str) -> UsageError:
    return UsageError(
        f"the gate {text!r} cannot be understood",
        seen=seen,
        hint='"iter >= 120 and data_time < 0.02 for 5"; fields: ' + ", ".join(FIELDS),
    )
