"""The environment that lets Stoker see inside: one folder in front of PYTHONPATH, a few variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from stoker.launch.tree import RUN_MARKER

SITE = Path(__file__).resolve().parents[1] / "inside" / "site"


def environment(
    base: Mapping[str, str], folder: Path, run_id: str, named: Sequence[str], deep: str | None = None
) -> dict[str, str]:
    """`named`: entries like `env=module:Class.method`, which the agent wraps when it sees them. `deep`: a
    deep window is `asked` for, or comes by itself: `auto` where the card has no counters for real work, else
    `late`."""
    env = dict(base)
    path = env.get("PYTHONPATH")
    env["PYTHONPATH"] = f"{SITE}{os.pathsep}{path}" if path else str(SITE)
    env[RUN_MARKER] = run_id
    env["STOKER_FOLDER"] = str(folder.resolve())
    if named:
        env["STOKER_NAMED"] = ";".join(named)
    env.pop("STOKER_DEEP", None)  # of a Stoker around this one
    if deep:
        env["STOKER_DEEP"] = deep
    return env
