"""A JSON profile of an off-policy loop: how many env steps, how many updates, in how much time."""

from __future__ import annotations

import json
from itertools import pairwise

from stoker.ingest.source import Ledger, Reading, Source, json_number, whole
from stoker.model.evidence import LoopProfile


def recognise(source: Source) -> bool:
    head = source.head.lstrip()
    return head[:1] == "{" and '"env_steps"' in head and '"updates"' in head


def read(source: Source) -> Reading:
    ledger = Ledger()
    try:
        entry = json.loads(source.text())
    except (ValueError, RecursionError) as error:
        ledger.add(getattr(error, "lineno", 1), "not valid JSON", str(error))
        return Reading((), ledger)
    counts = [
        json_number(entry.get(key)) if isinstance(entry, dict) else None for key in ("env_steps", "updates")
    ]
    if counts[0] is None or counts[1] is None or counts[0] <= 0:
        ledger.add(1, "env_steps and updates are not counts", source.head)
        return Reading((), ledger)
    return Reading((_profile(entry, int(counts[0]), int(counts[1])),), ledger)


def _profile(entry: dict[str, object], env_steps: int, updates: int) -> LoopProfile:
    flags = _flags(entry.get("argv"))
    steps_per_s, wall_s = json_number(entry.get("steps_per_s")), json_number(entry.get("wall_s"))
    return LoopProfile(
        env_steps=env_steps,
        updates=updates,
        update_interval=whole(flags.get("update_interval")),
        batch_size=whole(flags.get("batch_size")),
        steps_per_s=steps_per_s if steps_per_s else (env_steps / wall_s if wall_s else None),
        wall_s=wall_s,
        phase_s=_phases(entry.get("phases")),
        configuration=" ".join(f"{key}={value}" for key, value in sorted(flags.items())),
    )


def _flags(argv: object) -> dict[str, str]:
    words = [str(word) for word in argv] if isinstance(argv, list) else []
    pairs = pairwise(words)
    return {flag[2:]: value for flag, value in pairs if flag.startswith("--") and not value.startswith("--")}


def _phases(phases: object) -> dict[str, float]:
    """Total seconds per phase; an indented name is a part of the one above it and would count twice."""
    if not isinstance(phases, dict):
        return {}
    totals = {
        str(name): json_number(phase.get("total_s"))
        for name, phase in phases.items()
        if isinstance(phase, dict) and not str(name).startswith(" ")
    }
    return {name: total for name, total in totals.items() if total is not None}
