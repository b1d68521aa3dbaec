"""The loss or return a training prints, with how far it was: read from a trial's log.

By the user's pattern, else by the usual words. A line counts where it also says how far the training is
(samples, env steps, a step or an iteration): without that two runs cannot be compared at equal samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from stoker.errors import UsageError

LINE_MAX = 2_000
POINTS_MAX = 400
PRINTS_MIN = 5
"""Fewer lines are no curve."""
CLOSE = 0.25
"""A printed step is a tick where the last one is as near to the ticks that were seen."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)(?:inity)?\b"
_VALUE = r"(?<![\w/])(?:train[_/ ])?({names})[\"']?\s*[:=]?\s*({number})"
_FAR = re.compile(
    r"(?<![\w/])(samples|env[_ ]?steps|timesteps|global[_ ]step|steps?|iteration|iter|it|updates?|epoch)"
    r"[\"']?\s*[:=#]?\s*\[?\s*(\d[\d_]*)",
    re.IGNORECASE,
)
_ORDER = ("samples", "envsteps", "timesteps", "globalstep", "step", "steps", "iteration", "iter", "it")
_SAMPLES, _ENV_STEPS = ("samples",), ("envsteps", "timesteps")
_LEARNING, _ACTING = ("loss", "return", "reward"), ("return", "reward", "loss")


@dataclass(frozen=True, slots=True)
class Far:
    """What is known of a run's own length, to make samples of a printed step."""

    ticks: float
    samples: float
    env_steps: float


@dataclass(frozen=True, slots=True)
class Metric:
    name: str = ""
    points: tuple[tuple[float, float], ...] = ()
    by: str = ""
    unit: float = 0.0
    """Of the last digit printed."""
    missing: str = ""


def checked_pattern(text: str) -> re.Pattern[str]:
    """A pattern of the user's: one group for the value, others by name (`samples`, `step`)."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is no regular expression", seen=str(error)) from error
    if pattern.groups < 1:
        raise UsageError(
            f"{text!r} has no group for the value", hint="put it in brackets: --metric 'loss: ([0-9.]+)'"
        )
    return pattern


def read_metric(lines: Iterable[str], far: Far, pattern: str = "") -> Metric:
    kept = [line[:LINE_MAX] for line in lines]
    names = _ACTING if far.env_steps else _LEARNING
    if pattern:
        found = _matches(kept, checked_pattern(pattern))
        return _measured(_name_of(pattern), found, far, f"nothing in the log matches {pattern!r}")
    for name in names:
        usual = re.compile(_VALUE.format(names=name, number=_NUMBER), re.IGNORECASE)
        if found := _matches(kept, usual):
            return _measured(name, found, far, "")
    missing = "the log shows no loss and no return; --metric 'loss: ([0-9.]+)' says what to look for"
    return Metric(missing=missing)


_Found = tuple[str, float, float, float]


def _matches(lines: Sequence[str], pattern: re.Pattern[str]) -> list[_Found | None]:
    """What it counts, how far, the value and its last digit; None where the line does not say how far."""
    group = _value_group(pattern)
    found: list[_Found | None] = []
    for line in lines:
        match = pattern.search(line)
        value = _number(match[group]) if match else None
        if match is None or value is None:
            continue
        place = _how_far(line, match)
        found.append((*place, value, _last_digit(match[group])) if place else None)
    return found


def _value_group(pattern: re.Pattern[str]) -> int:
    """`(?P<value>…)`, else the last group without a name."""
    named = pattern.groupindex
    unnamed = [number for number in range(1, pattern.groups + 1) if number not in named.values()]
    return named.get("value") or (unnamed or [1])[-1]


def _how_far(line: str, match: re.Match[str]) -> tuple[str, float] | None:
    given = match.groupdict()
    for name in ("samples", "step"):
        if (value := _number(given.get(name))) is not None:
            return name, value
    places = [(found[1].lower().replace(" ", "").replace("_", ""), found[2]) for found in _FAR.finditer(line)]
    places.sort(key=lambda place: _ORDER.index(place[0]) if place[0] in _ORDER else len(_ORDER))
    return (places[0][0], float(places[0][1].replace("_", ""))) if places else None


def _measured(name: str, found: Sequence[_Found | None], far: Far, missing: str) -> Metric:
    told = [one for one in found if one is not None]
    if not found:
        return Metric(name, missing=missing)
    if not told:
        return Metric(name, missing=f"the lines with {name} do not say how far the training is")
    kind = told[-1][0]
    told = [one for one in told if one[0] == kind]
    if len(told) < PRINTS_MIN:
        few = f"{name} is printed {len(told)} times in a trial, {PRINTS_MIN} are needed"
        return Metric(name, missing=few)
    scale, by = _scale(kind, told[-1][1], far)
    points = tuple((x * scale, y) for _, x, y, _ in told)
    step = -(-len(points) // POINTS_MAX)
    return Metric(name, points[::-1][::step][::-1], by, median(unit for *_, unit in told))


def _scale(kind: str, last: float, far: Far) -> tuple[float, str]:
    """From the printed count to samples, or to env steps where there are any."""
    total, by = (far.env_steps, "env steps") if far.env_steps else (far.samples, "samples")
    if kind in _SAMPLES or kind in _ENV_STEPS or last <= 0:
        return 1.0, by if kind in _ENV_STEPS else "samples"
    if far.env_steps and abs(last / far.env_steps - 1) <= CLOSE:
        return 1.0, "env steps"
    if far.ticks and abs(last / far.ticks - 1) <= CLOSE:
        return total / far.ticks if total else 1.0, by if total else "ticks"
    return (total / last, by) if total else (1.0, kind)


def _number(text: str | None) -> float | None:
    try:
        return float(text.replace("_", "")) if text else None
    except ValueError:
        return None


def _last_digit(text: str) -> float:
    """1.250 is known to 0.001, 3e-4 to 0.0001."""
    digits, _, power = text.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(power or 0) - decimals) if digits.strip("+-")[:1].isdigit() or decimals else 0.0


def _name_of(pattern: str) -> str:
    """The words before the value."""
    before = pattern[: pattern.find("(?P<value>")] if "(?P<value>" in pattern else _before_last_group(pattern)
    plain = re.sub(r"\(\?P<\w+>|\\[a-zA-Z]|\[[^]]*\]", " ", before)
    words = re.findall(r"[A-Za-z](?:[A-Za-z_ ]*[A-Za-z])?", plain)
    return words[-1].strip() if words else "metric"


def _before_last_group(pattern: str) -> str:
    groups = [found.start() for found in re.finditer(r"(?<!\\)\((?!\?)", pattern)]
    return pattern[: groups[-1]] if groups else pattern
