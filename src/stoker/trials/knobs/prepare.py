"""From settings to the command, the environment and the files of one run. Nothing of the user's is touched:
what is changed in a file is changed in a copy under the run's own folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import FolderError, UsageError
from stoker.trials.knobs.config_copy import edited
from stoker.trials.knobs.knob import Channel, Setting, ValueType
from stoker.trials.knobs.known import VARIABLES, nearest_first
from stoker.trials.knobs.parse import placeholders

VARIABLE = "STOKER_KNOBS"
"""What `inside/` reads; its mere presence makes the process tell more facts about itself."""
_NO_VALUE = re.compile(r"-(?!\.?\d)")
"""Begins another flag; a negative number does not."""


@dataclass(frozen=True, slots=True)
class Prepared:
    command: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, Path] = field(default_factory=dict)
    """The user's file: the copy that stands in for it."""


def prepare(
    settings: Sequence[Setting], command: Sequence[str], env: Mapping[str, str], folder: Path
) -> Prepared:
    """Also without settings: the process then tells the facts that another run is compared with."""
    words, variables = list(command), dict(env)
    words, files = _with_copies(settings, words, folder)
    words = _with_placeholders(settings, words)
    watched = set()
    for setting in settings:
        match setting.knob.channel:
            case Channel.FLAG:
                words = _with_flag(words, setting)
            case Channel.HYDRA:
                words = _with_override(words, setting)
            case Channel.ENVIRONMENT:
                variables[setting.name] = setting.value
                watched.add(setting.name)
            case Channel.RUNTIME if setting.name in VARIABLES:
                watched |= set(VARIABLES[setting.name])
                _set_variables(variables, VARIABLES[setting.name])
    inside = {s.name: s.value for s in settings if s.knob.channel is Channel.RUNTIME}
    variables[VARIABLE] = json.dumps({"knobs": inside, "variables": sorted(watched)})
    return Prepared(tuple(words), variables, files)


def unprepared(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the knobs of a Stoker around this one."""
    return {name: value for name, value in env.items() if name != VARIABLE}


def _set_variables(env: dict[str, str], wanted: Mapping[str, str]) -> None:
    """The allocator's variable is a list: what the user has there stays."""
    for name, value in wanted.items():
        present = env.get(name, "")
        if name != "PYTORCH_CUDA_ALLOC_CONF":
            env[name] = value
        elif value.partition(":")[0] not in present:
            env[name] = f"{present},{value}" if present else value


def _with_placeholders(settings: Sequence[Setting], words: list[str]) -> list[str]:
    known = placeholders(words)
    for setting in settings:
        if setting.knob.channel is not Channel.PLACEHOLDER:
            continue
        mark = f"{{{setting.name}}}"
        if setting.name not in known:
            near = ", ".join(f"{{{name}}}" for name in nearest_first(setting.name, sorted(known)))
            raise UsageError(
                f"the command holds no {mark}",
                seen=f"it holds {near}" if near else " ".join(words),
                hint=f"put {mark} where the value belongs",
            )
        words = [word.replace(mark, setting.value) for word in words]
    return words


def _with_flag(words: list[str], setting: Setting) -> list[str]:
    """In its place where the command has it already, as often as it does: which one counts is the script's
    own affair. Else at the end."""
    name, found, result, at = setting.name, False, list[str](), 0
    is_switch = setting.knob.type is ValueType.SWITCH
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith(f"{name}=") and not is_switch:
            found = True
            result.append(f"{name}={setting.value}")
            continue
        result.append(word)
        if word == name:
            found = True
            if not is_switch:
                result.append(setting.value)
                at += at < len(words) and not _NO_VALUE.match(words[at])
    if found:
        return result
    return [*words, name] if is_switch else [*words, name, setting.value]


def _with_override(words: list[str], setting: Setting) -> list[str]:
    """Hydra refuses a key given twice."""
    override = f"{setting.name}={setting.value}"
    bare = setting.name.lstrip("+~")
    kept = [word for word in words if not re.fullmatch(rf"\+{{0,2}}{re.escape(bare)}=.*", word, re.DOTALL)]
    return [*kept, override]


def _with_copies(
    settings: Sequence[Setting], words: list[str], folder: Path
) -> tuple[list[str], dict[str, Path]]:
    files: dict[str, Path] = {}
    for setting in settings:
        if setting.knob.channel not in (Channel.CONFIG, Channel.ARGS_FILE):
            continue
        source = files.get(setting.file) or Path(setting.file)
        text = edited(source, setting, shown=setting.file)
        if setting.file not in files:
            files[setting.file] = _place_for(folder, setting.file, len(files))
        _write(files[setting.file], text)
    for file, copy in files.items():
        words = _pointing_at(words, file, copy)
    return words, files


def _place_for(folder: Path, file: str, number: int) -> Path:
    """Under its own name, for scripts that make something of it."""
    return folder / "config" / str(number) / Path(file).name


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FolderError(f"{path} cannot be written", seen=error.strerror or str(error)) from error


def _pointing_at(words: list[str], file: str, copy: Path) -> list[str]:
    wanted, passed = os.path.realpath(file), str(copy.resolve())
    result = []
    for word in words:
        head, equals, tail = word.partition("=")
        if os.path.realpath(word) == wanted:
            result.append(passed)
        elif equals and tail and os.path.realpath(tail) == wanted:
            result.append(f"{head}={passed}")
        else:
            result.append(word)
    if result == words:
        raise UsageError(
            f"the command does not name {file}: a changed copy cannot be passed in its place",
            seen=" ".join(words),
            hint=f"give the path in the command, e.g. --config {file}",
        )
    return result
