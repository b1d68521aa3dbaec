"""How long a trial goes on after it is lost: one rank of two out of memory, and a training that stops.

    python benchmarks/failures/one_rank.py --out benchmarks/results/one_rank_DATE.json

CPU and gloo; the limits are those of `stoker ab`. About three minutes, nearly all of it waiting. The scripts
print the moment they fail; a trial ends when nothing of it is left and its shadow is removed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

from stoker.trials.guard.coverage import find_coverage
from stoker.trials.progress import AFTER_A_DEATH_S, HANG_AT_LEAST_S
from stoker.trials.trial import TrialResult, TrialSpec, run_trial

TESTS = Path(__file__).parents[2] / "tests"
SCRIPTS = TESTS / "integration" / "trials" / "scripts"
CASES = {
    "a rank dies of it, the other waits in all_reduce": ("one_rank_oom.py", "raises"),
    "a rank catches it and sits there, the other waits in all_reduce": ("one_rank_oom.py", "stays"),
    "a training stops without a word": ("stops.py",),
}
FAILED_AT = re.compile(r"(?:out of memory|stops) at ([\d.]+)")


def tried(script: str, *args: str) -> TrialResult:
    path = [str(TESTS / "stubs")] if script == "stops.py" else []
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([*path, *filter(None, [env.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as cwd:
        return run_trial(
            TrialSpec(
                command=(sys.executable, str(SCRIPTS / script), *args),
                env=env,
                folder=Path(tempfile.mkdtemp()) / "trial",
                for_s=1000.0,
                guard=find_coverage(cwd=Path(cwd)).mode,
                cwd=Path(cwd),
            )
        )


def measured(result: TrialResult) -> dict[str, object]:
    said = FAILED_AT.search(result.log.read_text(encoding="utf-8"))
    failed_at = float(said[1]) if said else None
    return {
        "class": result.failure.kind.value if result.failure else None,
        "ended_by": result.exit.ended_by.value,
        "whole_s": round(result.ended - result.started, 1),
        "after_it_failed_s": round(result.ended - failed_at, 1) if failed_at is not None else None,
        "notes": list(result.notes),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    content: dict[str, object] = {
        "command": "python benchmarks/failures/one_rank.py",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "limits_s": {"after a death": AFTER_A_DEATH_S, "hang at least": HANG_AT_LEAST_S},
    }
    for name, case in CASES.items():
        content[name] = measured(tried(*case))
        print(name, json.dumps(content[name]), flush=True)
    args.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
