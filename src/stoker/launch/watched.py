"""A command with the watcher beside it: started together, ended together. What a run and a trial share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.launch import failure
from stoker.launch.child import Child, Exit, become_subreaper, start
from stoker.launch.watcher import Watcher, start_watcher


@dataclass(frozen=True, slots=True)
class Watched:
    child: Child
    watcher: Watcher | None
    oom_before: int | None
    problems: tuple[str, ...] = ()
    """What could not be watched, and why; the command runs all the same."""

    def finish(self, exit: Exit) -> tuple[failure.Failure, list[str]]:
        """After its end: what the exit tells, and all that went wrong with the watching."""
        verdict = failure.classify(exit, oom_before=self.oom_before, oom_after=failure.oom_kills())
        return verdict, [*self.problems, *_stopped(self.watcher), *_left_over(self.child)]


def start_watched(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: Path,
    run_id: str,
    *,
    cwd: Path | None = None,
    output: int | None = None,
) -> Watched:
    oom_before = failure.oom_kills()
    become_subreaper()
    child = start(command, env, cwd=cwd, output=output)
    try:
        return Watched(child, start_watcher(folder, run_id, child.identity), oom_before)
    except OSError as error:
        return Watched(child, None, oom_before, (f"the host watcher could not be started: {error}",))


def _stopped(watcher: Watcher | None) -> list[str]:
    if watcher is None:
        return []
    watcher.stop()
    return [watcher.failure] if watcher.failure else []


def _left_over(child: Child) -> list[str]:
    return [f"pid {member.identity.pid} could not be ended" for member in child.not_ended]
