"""One key of a configuration file, changed in its text. Comments and the order of keys stay.

Stoker has no YAML library: a block mapping is found by its indentation, which is how training
configurations are written. What cannot be found is refused, with the keys that are there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from stoker.errors import UsageError
from stoker.trials.knobs.knob import Channel, Setting
from stoker.trials.knobs.known import nearest_first
from stoker.trials.knobs.python_config import with_assignment

_BYTES_MAX = 10_000_000
_KEYS_SHOWN = 8
_YAML_KEY = re.compile(r"( *)(?:\"([^\"]+)\"|'([^']+)'|([^\s#'\"\[{\-&*!|>%@][^:#]*?))\s*:(?=\s|$)(.*)")
_TOML_KEY = re.compile(r"\s*([\w\-.\"' ]+?)\s*=\s*(.*)")
_TOML_TABLE = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")
_COMMENT = re.compile(r"\s+#.*$")


def edited(source: Path, setting: Setting, shown: str) -> str:
    """The text of the file with the value in it. `shown` is what the user called the file."""
    text = _read(source, shown)
    if setting.knob.channel is Channel.ARGS_FILE:
        return _args(text, setting.name, setting.value)
    match Path(shown).suffix.lower():
        case ".yaml" | ".yml":
            return _yaml(text, setting, shown)
        case ".json":
            return _json(text, setting, shown)
        case ".toml":
            return _toml(text, setting, shown)
        case ".py":
            return with_assignment(text, setting.name, setting.value, shown)
    raise UsageError(
        f"{shown} is of no kind that can be changed",
        hint="YAML, JSON, TOML, a Python module; args:FILE:… for a file of flags",
    )


def _read(source: Path, shown: str) -> str:
    try:
        if source.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{shown} is too large for a configuration")
        return source.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{shown} cannot be read", seen=error.strerror or str(error), hint="check its path"
        ) from None
    except UnicodeDecodeError:
        raise UsageError(f"{shown} is no text") from None


def _no_key(setting: Setting, shown: str, known: list[str]) -> UsageError:
    near = nearest_first(setting.name, known)[:_KEYS_SHOWN]
    return UsageError(
        f"{shown} has no key {setting.name}",
        seen=f"nearest: {', '.join(near)}" if near else "no key with a plain value was found",
        hint="a key is written with dots: optim.lr",
    )


# -- YAML ----------------------------------------------------------------------------------------------------


def _yaml(text: str, setting: Setting, shown: str) -> str:
    if text.lstrip().startswith("{"):  # JSON is YAML, too
        return _json(text, setting, shown)
    lines = text.split("\n")
    known = []
    for number, path, head, value in _yaml_keys(lines):
        plain = _COMMENT.sub("", value).strip()
        if not plain or plain[0] in "|>&*!":
            continue  # a mapping, or a value of several lines
        known.append(path)
        if path == setting.name:
            comment = _COMMENT.search(value)
            lines[number] = f"{head}: {setting.value}{comment[0] if comment else ''}"
            return "\n".join(lines)
    raise _no_key(setting, shown, known)


def _yaml_keys(lines: list[str]) -> Iterator[tuple[int, str, str, str]]:
    """Line number, dotted path, what stands before the colon, what after it. Lists are passed over."""
    stack: list[tuple[int, str]] = []
    skip_deeper: int | None = None
    for number, line in enumerate(lines):
        bare = line.strip()
        if not bare or bare.startswith(("#", "---", "...")):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if skip_deeper is not None and indent > skip_deeper:
            continue
        skip_deeper = None
        match = _YAML_KEY.fullmatch(line)
        if match is None:
            skip_deeper = indent if bare.startswith("-") else None
            continue
        while stack and stack[-1][0] >= indent:
            stack.pop()
        key = (match[2] or match[3] or match[4]).strip()
        value = match[5]
        if _COMMENT.sub("", value).strip().startswith(("|", ">")):
            skip_deeper = indent
        stack.append((indent, key))
        yield number, ".".join(part for _, part in stack), line[: match.start(5) - 1].rstrip(), value


# -- JSON, TOML ----------------------------------------------------------------------------------------------


def _json(text: str, setting: Setting, shown: str) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{shown} is not JSON", seen=str(error)) from None
    path, place = setting.name.split("."), content
    for part in path[:-1]:
        place = place.get(part) if isinstance(place, dict) else None
    if not isinstance(place, dict) or path[-1] not in place:
        raise _no_key(setting, shown, list(_json_paths(content)))
    place[path[-1]] = _json_value(setting.value)
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _json_paths(content: object, prefix: str = "") -> Iterator[str]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _json_paths(value, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix


def _json_value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _toml(text: str, setting: Setting, shown: str) -> str:
    lines, table, known = text.split("\n"), "", []
    for number, line in enumerate(lines):
        if match := _TOML_TABLE.fullmatch(line):
            table = _plain(match[1]) + "."
        elif line.lstrip().startswith("[["):
            table = "\0"  # an array of tables: not addressed by a path
        elif (match := _TOML_KEY.fullmatch(line)) and not line.lstrip().startswith("#"):
            known.append(table + _plain(match[1]))
            if known[-1] == setting.name:
                lines[number] = f"{line[: match.start(2)]}{_toml_value(setting.value)}"
                return _checked_toml("\n".join(lines), setting, shown)
    raise _no_key(setting, shown, [path for path in known if "\0" not in path])


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))


def _toml_value(text: str) -> str:
    try:
        tomllib.loads(f"value = {text}")
        return text
    except tomllib.TOMLDecodeError:
        return json.dumps(text)


def _checked_toml(text: str, setting: Setting, shown: str) -> str:
    """A value of several lines is cut in two by the change."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{setting.name} cannot be changed in {shown}", seen=str(error)) from None
    return text


# -- A file of flags -----------------------------------------------------------------------------------------


def _args(text: str, name: str, value: str) -> str:
    """`--key v1 v2 …` in words, `#` begins a comment; a flag that is not there is added at the end."""
    flag = "--" + name.lstrip("-")
    pattern = re.compile(rf"^(?P<head>[^#\n]*?(?<!\S){re.escape(flag)}(?:[ \t]+|=))(?P<old>[^\s#]+)", re.M)
    changed, count = pattern.subn(lambda match: match["head"] + value, text)
    if count:
        return changed
    return f"{text.rstrip()}\n{flag} {value}\n"
