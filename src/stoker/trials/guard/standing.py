"""The guard of one trial, set up and taken down: the command and environment that run behind it.

Written for real are the trial's own folder, and caches, which hold nothing but what can be made again: the
user's `~/.cache`, `~/.nv` and `~/.triton`, and one for compiled kernels that all trials of an ab share.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.launch.guardian import remove_folder
from stoker.trials.guard.coverage import guarded
from stoker.trials.guard.mode import GuardMode
from stoker.trials.guard.plan import GuardPlan
from stoker.trials.guard.shadow_folder import choose_base, made_shadow, written_paths

_CACHES = (".cache", ".nv", ".triton")
_OFFLINE = {
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
}
"""Trials are not worth a page on somebody's server."""


@dataclass(frozen=True, slots=True)
class Standing:
    command: tuple[str, ...]
    env: dict[str, str]
    mode: GuardMode
    shadow: Path | None = None
    temporary: Path | None = None
    plan: Path | None = None

    @property
    def folders(self) -> list[Path]:
        """To be removed after the trial."""
        return [path for path in (self.shadow, self.temporary) if path is not None]

    def also(self, command: Sequence[str]) -> list[str]:
        """Another command behind the same guard, before the trial's own: what it writes, that one sees."""
        return guarded(list(command), self.plan) if self.plan else list(command)

    def written(self) -> tuple[str, ...]:
        return tuple(written_paths(self.shadow, self.mode)) if self.shadow else ()

    def take_down(self) -> None:
        for folder in self.folders:
            remove_folder(folder)


def put_up(
    mode: GuardMode,
    command: Sequence[str],
    env: Mapping[str, str],
    *,
    folder: Path,
    cwd: Path,
    hide: Iterable[Path] = (),
) -> Standing:
    """`mode` is one that works here, see `find_coverage`. `folder` is the trial's, and exists."""
    cache = folder.parent / "cache"
    env = {**env, **_offline(env), **_compile_caches(cache, env)}
    if mode is GuardMode.OFF:
        return Standing(tuple(command), env, mode)
    folder, cwd = folder.resolve(), cwd.resolve()
    shadow = made_shadow(choose_base(cwd))
    hidden = _outermost({_absolute(path, cwd) for path in hide})
    through = [str(folder), str(cache.resolve()), *_user_caches(env)]
    temporary = None
    if mode is GuardMode.OVERLAY:
        env["STOKER_GUARD"] = "watch"
    else:
        temporary = _temporary()
        through.append(str(temporary))
        env |= _redirection(shadow, hidden, through, temporary) | _compiled_modules(cache, env)
    plan = GuardPlan(mode, str(shadow), str(cwd), hidden, tuple(through))
    path = plan.write(folder)
    return Standing(tuple(guarded(list(command), path)), env, mode, shadow, temporary, path)


def _outermost(paths: set[Path]) -> tuple[str, ...]:
    """What lies in a hidden folder is hidden with it."""
    return tuple(str(path) for path in sorted(paths) if not paths & set(path.parents))


def _absolute(path: Path, cwd: Path) -> Path:
    """Links above it resolved, itself not: a link is hidden, not what it points to."""
    path = cwd / path
    return path.parent.resolve() / path.name


def _offline(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in _OFFLINE.items() if env.get(key) not in ("disabled", "dryrun")}


def _compile_caches(cache: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Where torch.compile keeps its work: made once, used by all trials."""
    cache.mkdir(parents=True, exist_ok=True)
    folders = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    return {key: str(cache.resolve() / name) for key, name in folders.items() if not env.get(key)}


def _user_caches(env: Mapping[str, str]) -> list[str]:
    home = env.get("HOME") or str(Path.home())
    found = [os.path.realpath(os.path.join(home, name)) for name in _CACHES]
    named = [
        env[key] for key in ("HF_HOME", "TORCH_HOME", "XDG_CACHE_HOME", "CUDA_CACHE_PATH") if env.get(key)
    ]
    return [path for path in (*found, *map(os.path.realpath, named)) if os.path.isdir(path)]


def _temporary() -> Path:
    """Short: the path of a socket, which DataLoader workers make in here, has 107 letters at most."""
    folder = Path(tempfile.gettempdir()) / f"st-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o700)
    return folder


def _redirection(
    shadow: Path, hidden: Sequence[str], through: Sequence[str], temporary: Path
) -> dict[str, str]:
    return {
        "STOKER_GUARD": "redirect",
        "STOKER_SHADOW": str(shadow),
        "STOKER_SHADOW_HIDDEN": json.dumps(list(hidden)),
        "STOKER_SHADOW_THROUGH": json.dumps(list(through)),
        "TMPDIR": str(temporary),
    }


def _compiled_modules(cache: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The import system writes them below the level that is wrapped. Where it writes none, those of the
    installation are used: without them the import of torch takes 5 s more in every trial (CPU, 2026-11)."""
    if env.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONPYCACHEPREFIX": str(cache.resolve() / "pycache")}
