"""Rows of a watcher's file: dataclasses by kind, written without what is unknown and read back tolerantly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar, get_args, get_origin, get_type_hints

_Row = TypeVar("_Row")


class RowFormat(Generic[_Row]):
    """One class per kind; field names are the keys."""

    def __init__(self, classes: Mapping[str, type]) -> None:
        self._class_of = dict(classes)
        self._kind_of = {cls: str(kind) for kind, cls in classes.items()}
        self._types = {cls: _types(cls) for cls in self._kind_of}

    def to_row(self, row: _Row) -> dict[str, object]:
        """The row as written: its kind, then what is known."""
        written: dict[str, object] = {"kind": self._kind_of[type(row)]}
        for name in self._types[type(row)]:
            value = getattr(row, name)
            if value is not None:
                written[name] = value
        return written

    def parse(self, row: Mapping[str, object]) -> _Row | None:
        """A row of any kind. Keys of later versions are left out; a value of the wrong type is not
        measured."""
        cls = self._class_of.get(str(row.get("kind")))
        if cls is None:
            return None
        types = self._types[cls]
        taken = ((name, _fitting(value, types[name])) for name, value in row.items() if name in types)
        try:
            return cls(**{name: value for name, value in taken if value is not None})  # type: ignore[no-any-return]
        except TypeError:  # a field the row cannot do without
            return None


_Types = tuple[tuple[type, ...], tuple[type, ...]]
"""The JSON types a field takes; and of the items, where it is a list."""


def _types(cls: type) -> dict[str, _Types]:
    return {name: _json_types(hint) for name, hint in get_type_hints(cls).items()}


def _json_types(hint: object) -> _Types:
    plain: list[type] = []
    items: list[type] = []
    for part in (hint,) if isinstance(hint, type) or get_origin(hint) is tuple else get_args(hint):
        if get_origin(part) is tuple:
            items += [item for item in get_args(part) if isinstance(item, type)]
        else:
            plain.append(part)
    return _with_whole_numbers(plain), _with_whole_numbers(items)


def _with_whole_numbers(types: list[type]) -> tuple[type, ...]:
    """A whole number is a fine float."""
    return (*types, int) if float in types else tuple(types)


def _fitting(value: object, types: _Types) -> object:
    """JSON gives plain types, so that a look at the type itself is enough; and True is no number."""
    plain, items = types
    if type(value) in plain:
        return value
    if items and isinstance(value, list) and all(type(item) in items for item in value):
        return tuple(value)
    return None
