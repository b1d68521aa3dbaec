"""Settings of a run from its own configuration file: YAML, a Python module, flags. Read as text, never run.

Only plain whole numbers of the few settings that a judgement needs; a key that is set twice to different
values in one file is not used.
"""

from __future__ import annotations

import re

from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import RunSettings

NAMES = {
    "num_workers": "workers",
    "workers": "workers",
    "batch_size_per_gpu": "batch",
    "batch_size": "batch",
    "log_interval": "log_interval",
    "prefetch_factor": "prefetch",
    "update_interval": "update_interval",
    "update_epochs": "update_epochs",
    "num_envs": "num_envs",
    "world_size": "gpus",
    "gpus": "gpus",
}
_KEYS = "|".join(NAMES)
_LINE = re.compile(
    rf"""^[ \t]*["']?(?:[\w.]*\.)?({_KEYS})["']?[ \t]*[:=][ \t]*(\d{{1,9}})[ \t]*,?[ \t]*(?:\#.*)?$""", re.M
)
_LOOKS_LIKE_CONFIG = re.compile(r"""^[ \t]*["']?[\w.]+["']?[ \t]*[:=]""")
_LARGEST = 256 * 1024


def recognise(source: Source) -> bool:
    lines = [line for line in source.head.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    fitting = sum(bool(_LOOKS_LIKE_CONFIG.match(line)) or line.strip(" \t,()[]{}") == "" for line in lines)
    return bool(lines) and fitting * 10 >= len(lines) * 6 and bool(_LINE.search(source.head))


def read(source: Source) -> Reading:
    ledger = Ledger()
    seen: dict[str, set[float]] = {}
    names: dict[str, str] = {}
    for found in _LINE.finditer(source.text(_LARGEST)):
        ours = NAMES[found[1]]
        seen.setdefault(ours, set()).add(float(found[2]))
        names[ours] = found[1]
    values = {ours: next(iter(figures)) for ours, figures in seen.items() if len(figures) == 1}
    notes = tuple(
        f"{names[ours]} is set to several values in this file: not used"
        for ours, figures in seen.items()
        if len(figures) > 1
    )
    return Reading((RunSettings(values, {ours: names[ours] for ours in values}),), ledger, notes)
