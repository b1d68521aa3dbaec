"""What the user types about knobs, as settings. The grammar is in docs/knobs.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stoker.errors import UsageError
from stoker.trials.knobs.knob import Channel, Knob, Scope, Setting, ValueType
from stoker.trials.knobs.known import RUNTIME, kind_of, nearest_first, runtime_knob

_OPENING, _CLOSING = "([{", ")]}"
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_NUMBER = re.compile(r"\d{1,6}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SWITCHES = {"on": "on", "true": "on", "1": "on", "yes": "on", "off": "off", "false": "off", "0": "off"}
FORMS = {
    Channel.FLAG: "flag:--batch-size=64",
    Channel.HYDRA: "hydra:trainer.precision=bf16",
    Channel.ENVIRONMENT: "env:OMP_NUM_THREADS=4",
    Channel.PLACEHOLDER: "placeholder:num_envs=4096 with {num_envs} in the command",
    Channel.CONFIG: "cfg:train.yaml:optim.lr=3e-4",
    Channel.ARGS_FILE: "args:args/walk.txt:num_envs=512",
    Channel.RUNTIME: "num_workers=8",
}


def parse_settings(text: str, command: Sequence[str] | None) -> tuple[Setting, ...]:
    """Settings separated by commas; none for an empty text."""
    found = tuple(_one(part, command or ()) for part in split_settings(text) if part)
    names = [(setting.knob.channel, setting.file, setting.name) for setting in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name[2]} is set twice", seen=text, hint="give it once")
    return found


def placeholders(command: Sequence[str]) -> set[str]:
    return {name for word in command for name in _PLACEHOLDER.findall(word)}


def split_settings(text: str) -> list[str]:
    """At commas, but not inside brackets or quotes: `hydra:net.layers=[64,64],bf16` is two settings."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        if letter == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _one(text: str, command: Sequence[str]) -> Setting:
    if text.startswith("-"):
        return _flag(text)
    prefix, colon, rest = text.partition(":")
    channel = next((one for one in Channel if colon and one.value == prefix), None)
    match channel:
        case Channel.FLAG:
            return _flag(rest)
        case Channel.HYDRA | Channel.ENVIRONMENT | Channel.PLACEHOLDER:
            return _of_command(channel, rest, text)
        case Channel.CONFIG | Channel.ARGS_FILE:
            return _of_file(channel, rest, text)
        case Channel.RUNTIME:
            return _runtime(rest)
    if colon and "=" not in prefix:
        known = nearest_first(prefix, [one.value for one in Channel])
        raise UsageError(
            f"there is no way {prefix!r} to set something", seen=f"known: {', '.join(known)}", hint=_forms()
        )
    name = text.partition("=")[0]
    if name in placeholders(command):
        return _of_command(Channel.PLACEHOLDER, text, text)
    return _runtime(text, placeholders(command))


def _forms() -> str:
    return "\n".join(FORMS.values()).replace("\n", "\n        ")


def _flag(text: str) -> Setting:
    name, equals, value = text.partition("=")
    if not name.startswith("-") or not name.strip("-"):
        raise _unfit(Channel.FLAG, text)
    type = ValueType.TEXT if equals else ValueType.SWITCH
    return Setting(_own(name, Channel.FLAG, type), value)


def _of_command(channel: Channel, text: str, whole: str) -> Setting:
    name, equals, value = text.partition("=")
    if not name or not equals or (channel is not Channel.HYDRA and not _VARIABLE.fullmatch(name)):
        raise _unfit(channel, whole)
    return Setting(_own(name, channel, ValueType.TEXT), value)


def _of_file(channel: Channel, text: str, whole: str) -> Setting:
    file, colon, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (file and colon and name and equals):
        raise _unfit(channel, whole)
    return Setting(_own(name, channel, ValueType.TEXT), value, file)


def _own(name: str, channel: Channel, type: ValueType) -> Knob:
    """A setting of the script's own."""
    return Knob(name, channel, type, kind_of(name), Scope.COMMAND, "the figures of two runs")


def _unfit(channel: Channel, text: str) -> UsageError:
    return UsageError(f"{text!r} does not say what to set to what", hint=FORMS[channel])


def _runtime(text: str, marks: Iterable[str] = ()) -> Setting:
    """`marks`: names the command holds in braces, which could have been meant."""
    name, equals, value = text.partition("=")
    knob = runtime_knob(name)
    if knob is None:
        known = nearest_first(name, [*(one.name for one in RUNTIME), *(f"{{{mark}}}" for mark in marks)])
        raise UsageError(
            f"there is no knob called {name!r}",
            seen=f"known, nearest first: {', '.join(known)}",
            hint=f"a setting of your script itself is written flag:--{name}=…, see stoker knobs",
        )
    return Setting(knob, _value(knob, value if equals else None))


def _value(knob: Knob, value: str | None) -> str:
    if knob.type is ValueType.INTEGER:
        least = 0 if knob.name == "num_workers" else 1
        if value is None or not _NUMBER.fullmatch(value) or int(value) < least:
            raise _wrong(knob, value, f"a whole number from {least} on, e.g. {knob.name}=4")
        return str(int(value))
    if value is None:
        return knob.words[0]
    word = _SWITCHES.get(value.lower(), value) if "on" in knob.words else value
    if word not in knob.words:
        raise _wrong(knob, value, " or ".join(knob.words))
    return word


def _wrong(knob: Knob, value: str | None, right: str) -> UsageError:
    seen = f"{knob.name}={value}" if value is not None else f"{knob.name} without a value"
    return UsageError(f"{knob.name} takes {right}", seen=seen, hint="stoker knobs")
