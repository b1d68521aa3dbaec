"""From the word the user typed to the file that is executed, or the error that says why not."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from stoker.errors import CommandNotFound, CommandNotRunnable, StokerError


def locate(name: str, env: Mapping[str, str], cwd: Path | None = None) -> str:
    """What a shell would run: a path as it is, a bare name looked up on the command's own PATH."""
    base = Path(cwd or ".")
    if "/" in name:
        if not os.path.lexists(base / name):
            raise CommandNotFound(
                f"there is no file {name}", seen=f"looked in {base.resolve()}", hint="check the path"
            )
        return name
    path = env.get("PATH", os.defpath)
    candidates = [os.path.join(folder or ".", name) for folder in path.split(os.pathsep)]
    files = [candidate for candidate in candidates if os.path.isfile(base / candidate)]
    for candidate in files:
        if os.access(base / candidate, os.X_OK):
            return candidate
    if files:
        raise not_runnable(files[0], PermissionError(errno.EACCES, "Permission denied"), base)
    raise CommandNotFound(
        f"there is no command called {name}", seen=f"looked on PATH: {path}", hint=_hint_for(name, base)
    )


def _hint_for(name: str, base: Path) -> str:
    if os.path.isfile(base / name):
        return f"stoker run -- python {name}" if name.endswith(".py") else f"stoker run -- ./{name}"
    return "check the spelling, or activate the environment it lives in"


def not_runnable(path: str, error: OSError, base: Path) -> StokerError:
    message = f"{path} cannot be executed"
    file = base / path
    if file.is_dir():
        return CommandNotRunnable(message, seen="it is a folder", hint="name the script in it")
    if not file.exists():
        return CommandNotRunnable(message, seen="it is a link to nothing", hint="check where it points")
    if error.errno == errno.ENOENT:
        return CommandNotRunnable(
            message,
            seen=f"its first line names an interpreter that does not exist: {_first_line(file)!r}",
            hint="correct the '#!' line, or name the interpreter: stoker run -- python " + path,
        )
    if error.errno == errno.ENOEXEC:
        return CommandNotRunnable(
            message, seen="it has no '#!' line", hint=f"name its interpreter: stoker run -- sh {path}"
        )
    return CommandNotRunnable(
        message, seen=os.strerror(error.errno or 0), hint=_hint_against(error, path, file)
    )


def _hint_against(error: OSError, path: str, file: Path) -> str:
    if error.errno == errno.E2BIG:
        return "a shorter command line or environment"
    if error.errno != errno.EACCES:
        return ""
    if path.endswith(".py"):
        return f"stoker run -- python {path}"
    if os.access(file, os.X_OK):
        return "its disk may be mounted with noexec, or a folder above it is closed to this user"
    return f"chmod +x {path}"


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.readline(200).decode("utf-8", "replace").rstrip("\n")
    except OSError:
        return ""
