"""What a file is about, from where it lies: the root of a bench, the case, the setting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stoker.model.evidence import Setting

_SETTING = re.compile(r"^(.*)_e(\d{1,7})$")
_STAMP = re.compile(r"(20\d{6})[_-]?(\d{4,6})?")
_NOT_A_NAME = frozenset({"logs", "log", "probe_train", "long_train", "train", ""})
_RUN_SUFFIX = re.compile(r"[_-](?:run|rep|repeat|r)_?(\d{1,3})$")


@dataclass(frozen=True, slots=True)
class Place:
    root: Path
    case: str | None
    setting: Setting


def place_of(path: Path) -> Place:
    """`<root>/runs/<case>/<variant>_e<N>/…` names case and setting; elsewhere the folder is the root."""
    parts = path.parts
    if "runs" in parts[:-2]:
        at = len(parts) - 1 - parts[::-1].index("runs")
        below = parts[at + 1 : -1]
        if below:
            return Place(
                Path(*parts[:at]), short_case(below[0]), _setting(below[1]) if len(below) > 1 else Setting()
            )
    return Place(path.parent, None, Setting())


def _setting(folder: str) -> Setting:
    found = _SETTING.match(folder)
    return Setting(found[1], int(found[2])) if found else Setting(folder)


def short_case(name: str) -> str:
    """`add_g1_args.txt` is the case add_g1."""
    return name.strip().rsplit("/", 1)[-1].removesuffix(".txt").removesuffix("_args") or name


def method_by_name(case: str) -> str | None:
    """This project names its cases method_robot; only used for cases that come with an args file."""
    return case.split("_", 1)[0] if "_" in case else None


def subject_of(path: Path, shares_folder: bool) -> tuple[Path, str]:
    """A name for a run that no file names: its folder, or the file where several lie in one folder."""
    folder = path.parent
    while folder.name in _NOT_A_NAME and folder != folder.parent:
        folder = folder.parent
    if shares_folder or folder == folder.parent:
        return path.parent, path.stem
    return folder.parent, folder.name


def root_order(root: Path) -> tuple[str, str]:
    """Roots are named by when they began; without a stamp, by name."""
    found = _STAMP.search(root.name)
    return (found[1] + (found[2] or "").ljust(6, "0") if found else "", str(root))


def configuration_of(name: str) -> str | None:
    """`exp076_run2` is a run of exp076. None where the name does not claim to be a repeat."""
    found = _RUN_SUFFIX.search(name)
    return name[: found.start()] if found else None
