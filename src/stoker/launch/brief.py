"""A short command of Stoker's own, waited for: a probe, a check before a trial. Never the user's training."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Brief:
    code: int | None
    """None where it took too long, or could not be started."""
    output: str
    """Both outputs together, or why there is none."""


def run_briefly(
    command: Sequence[str], env: Mapping[str, str], *, cwd: Path | None = None, limit_s: float = 30.0
) -> Brief:
    try:
        done = subprocess.run(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return Brief(None, f"not done after {limit_s:.0f} s")
    except OSError as error:
        return Brief(None, str(error))
    return Brief(done.returncode, done.stdout.decode("utf-8", "replace"))
