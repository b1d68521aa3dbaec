"""What the guard of one trial is to do, as a file: the child reads it before it runs the command."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker.trials.guard.mode import GuardMode

PLAN = "guard.json"


@dataclass(frozen=True, slots=True)
class GuardPlan:
    mode: GuardMode
    shadow: str
    """Where writes go; removed after the trial."""
    cwd: str
    hidden: tuple[str, ...] = ()
    """Paths the trial must not see: outputs of earlier runs."""
    through: tuple[str, ...] = ()
    """Folders that are written for real: the trial's own, caches."""

    def write(self, folder: Path) -> Path:
        path = folder / PLAN
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        return path


def read_plan(path: str) -> GuardPlan:
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    content["mode"] = GuardMode(content["mode"])
    content["hidden"], content["through"] = tuple(content["hidden"]), tuple(content["through"])
    return GuardPlan(**content)
