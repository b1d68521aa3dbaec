"""What earlier runs of the script left behind, which a trial must not see: it would resume from it, or refuse
to start.

The rule, in this order:
1. What a flag names as an output (`--out runs/x`, `output_dir=…`) and is there already, is hidden.
2. A checkpoint the trial wrote over is hidden from the next trial on.
3. Where an optimizer's state, or a count of steps, was loaded from a file, that file and those like it
   beside it are hidden, and the trial is made again. Pretrained weights alone are left as they are.
4. Where the script ended before its first step saying that a path exists, that path is hidden, and the trial
   is made again.
5. Where it ended before its first step missing a file that was hidden, it is shown again, and stays so.
Never hidden: the current folder or one above it, and whatever another part of the command line names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

HIDDEN, NEEDED = "hidden.json", "needed.json"
_OUTPUT_FLAG = re.compile(
    r"(?:^|[-_.])(?:out|output|outputs|save|saves|log|logs|work|run|runs|exp|experiment|results?|logdir|outdir"
    r"|savedir|workdir|rundir|ckpt|checkpoints?|tensorboard|tb|weights_out)(?:[-_.]?(?:dir|path|folder|root|to|file"
    r"|directory|dirpath))?$",
    re.IGNORECASE,
)
_INPUT_FLAG = re.compile(r"load|resume|init|pretrain|data|config|cfg|from|restore|input", re.IGNORECASE)
_CHECKPOINTS = (".pt", ".pth", ".ckpt", ".tar", ".pkl", ".bin", ".safetensors", ".npz", ".state", ".zip")
_SAYS_EXISTS = re.compile(r"\bexists?\b|refus|overwrit|not empty", re.IGNORECASE)
_SAYS_MISSING = re.compile(r"No such file|FileNotFound|not found|does not exist|doesn't exist", re.IGNORECASE)
_START = re.compile(r"(?<![\w./])[\w./~]")
_END = re.compile(r"[\s'\",;:)\]]|\.(?=\s|$)")
_LINE_MAX = 2000


def named_outputs(command: Sequence[str], cwd: Path) -> tuple[Path, ...]:
    """Existing paths that the command line itself calls an output."""
    found: list[Path] = []
    inputs: list[Path] = []
    for flag, value in _values(command):
        path = cwd / value
        if not value or not os.path.lexists(path):
            continue
        is_output = bool(flag and _OUTPUT_FLAG.search(flag) and not _INPUT_FLAG.search(flag))
        (found if is_output else inputs).append(path)
    return tuple(path for path in found if may_hide(path, cwd, inputs))


def _values(command: Sequence[str]) -> list[tuple[str, str]]:
    """(flag, value) of `--flag value`, `--flag=value`, `key=value`; a word of its own has no flag."""
    pairs, flag = [], ""
    for word in command[1:]:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[-+\w.@/]+", name):
            pairs.append((name.lstrip("-+"), value))
            flag = ""
        elif word.startswith("-"):
            flag = word.lstrip("-")
        else:
            pairs.append((flag, word))
            flag = ""
    return pairs


def may_hide(path: Path, cwd: Path, needed: Iterable[Path] = ()) -> bool:
    path = path.parent.resolve() / path.name
    if len(path.parts) < 4 and cwd.resolve() not in path.parents:  # "/run", "/home/me": nobody's output
        return False
    return not any(other == path or path in other.parents for other in (cwd.resolve(), *_resolved(needed)))


def _resolved(paths: Iterable[Path]) -> list[Path]:
    return [path.resolve() for path in paths]


def is_checkpoint(path: str) -> bool:
    return path.lower().endswith(_CHECKPOINTS)


def overwritten(written: Iterable[str]) -> tuple[Path, ...]:
    """Checkpoints that were there before. The real tree is as it was, so it can be asked now."""
    return tuple(Path(path) for path in written if is_checkpoint(path) and os.path.exists(path))


def resumed_from(folder: Path) -> tuple[Path, ...]:
    """Files the training was taken up from, as told from inside; empty: it began anew."""
    return _loaded(folder, "resumed")


def counted_in(folder: Path) -> tuple[Path, ...]:
    """Files it loaded that say how far a training had come: likely this one."""
    return _loaded(folder, "counted")


def _loaded(folder: Path, name: str) -> tuple[Path, ...]:
    told = [path for content in _told(folder, name) for path in content.get("loaded", ())]
    return tuple(dict.fromkeys(Path(path) for path in told if isinstance(path, str)))


def unwatched(folder: Path) -> tuple[str, ...]:
    """Notes of processes in which it cannot be told whether the training was taken up."""
    reasons = dict.fromkeys(str(content.get("reason")) for content in _told(folder, "unwatched"))
    return tuple(f"whether it took up an earlier training cannot be told: {reason}" for reason in reasons)


def _told(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    for note in sorted(folder.glob(f"{name}.*.json")):
        try:
            content = json.loads(note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            yield content


def seen_by_trial(paths: Iterable[Path], hidden: Iterable[Path]) -> tuple[Path, ...]:
    """Those that can be an earlier run's. What is not in the real tree, or was hidden, it wrote itself."""
    covered = {path.parent.resolve() / path.name for path in hidden}
    resolved = {path: path.parent.resolve() / path.name for path in paths}
    return tuple(
        path
        for path, real in resolved.items()
        if os.path.lexists(path) and not covered & {real, *real.parents}
    )


def with_siblings(paths: Iterable[Path]) -> tuple[Path, ...]:
    """A script resumes from the newest of its checkpoints: those like it go, too."""
    found: dict[Path, None] = {}
    for path in paths:
        found[path] = None
        for other in sorted(path.parent.glob(f"*{path.suffix}")) if path.suffix else ():
            if other.is_file() and is_checkpoint(other.name):
                found[other] = None
    return tuple(path for path in found if os.path.lexists(path))


def refused(text: str, cwd: Path, needed: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Paths that are there, in a line that complains that something is."""
    found: dict[Path, None] = {}
    for line in text.splitlines():
        if not _SAYS_EXISTS.search(line):
            continue
        for word in _existing_in(line, cwd):
            if may_hide(cwd / word, cwd, needed):
                found[cwd / word] = None
    return tuple(found)


def missed(text: str, hidden: Iterable[Path]) -> tuple[Path, ...]:
    """Hidden paths, or what lies in them, named in a line that complains that something is not there."""
    lines = [line[:_LINE_MAX] for line in text.splitlines() if _SAYS_MISSING.search(line)]
    named = {path: re.compile(rf"(?<!\w){re.escape(path.name)}(?!\w)") for path in hidden}
    return tuple(path for path, name in named.items() if any(map(name.search, lines)))


def _existing_in(line: str, cwd: Path) -> list[str]:
    """Paths that are there, the longest at each place: a name may hold blanks and quotes."""
    found, place = [], 0
    for match in _START.finditer(line[:_LINE_MAX]):
        if match.start() < place:
            continue
        rest = line[match.start() : _LINE_MAX]
        ends = [end.start() for end in _END.finditer(rest)] + [len(rest)]
        word = next(
            (rest[:end] for end in reversed(ends) if end > 1 and os.path.lexists(cwd / rest[:end])), ""
        )
        if word:
            found.append(word)
            place = match.start() + len(word)
    return found


def named_inputs(command: Sequence[str], cwd: Path) -> tuple[Path, ...]:
    """The script, and files it is given: never to be hidden."""
    outputs = set(named_outputs(command, cwd))
    return tuple(
        path
        for _, value in _values(command)
        if value and os.path.exists(path := cwd / value) and path not in outputs
    )


def read_paths(folder: Path, name: str) -> tuple[Path, ...]:
    """Learned by the trials before."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        return tuple(Path(path) for path in content if isinstance(path, str))
    except (OSError, ValueError, TypeError):
        return ()


def write_paths(folder: Path, name: str, paths: Iterable[Path]) -> None:
    text = json.dumps(sorted({str(path) for path in paths}), indent=1)
    temporary = folder / f".{name}.{os.getpid()}"
    temporary.write_text(text + "\n", encoding="utf-8")
    os.replace(temporary, folder / name)
