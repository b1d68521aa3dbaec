"""What these files cannot say, and what would be needed to say it."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.diagnose.board import Board
from stoker.diagnose.cases import Case
from stoker.diagnose.classes import CaseClass
from stoker.diagnose.labels import listed
from stoker.diagnose.naming import short_case
from stoker.diagnose.reruns import reruns_of
from stoker.model.evidence import FileReading, Manifest, Progress, Stage


def unsaid(board: Board, files: Sequence[FileReading]) -> tuple[str, ...]:
    judged = [case for case in board.cases if case.case_class is not CaseClass.UNCLASSIFIABLE]
    found = [
        _memory(judged),
        _stages(judged),
        _near(judged),
        _no_repeats(board, judged),
        *_loader(board),
        _sampled_steps(board),
        *_queue(board, files),
    ]
    return tuple(line for line in found if line)


def _memory(judged: Sequence[Case]) -> str:
    blind = [case.name for case in judged if not case.judgement.memory_known]
    if not blind:
        return ""
    return (
        f"memory of {len(blind)} of {len(judged)} classified cases is not in these files: "
        "VRAM-bound cannot be excluded for them"
    )


def _stages(judged: Sequence[Case]) -> str:
    probes = [case for case in judged if case.chosen.stage is Stage.PROBE]
    if not probes:
        return ""
    shares = [share for case in probes if (share := case.chosen.evaluation_share_frac) is not None]
    amount = (
        f"{min(shares):.0%} to {max(shares):.0%} of the trainer's time in the {len(shares)} that tell"
        if shares
        else "how much is not in these files"
    )
    times = [case.chosen.row.elapsed_s for case in probes if case.chosen.row and case.chosen.row.elapsed_s]
    length = f" of {min(times):.0f}-{max(times):.0f} s" if times else ""
    return (
        f"{len(probes)} classes come from probes{length}, which hold an evaluation at their start and end "
        f"({amount}), start-up too: a long run may fall in another class"
    )


def _near(judged: Sequence[Case]) -> str:
    near = [
        f"{case.name} {case.chosen.util_pct:.1f}"
        for case in judged
        if case.judgement.near_limit_pct is not None
    ]
    if not near:
        return ""
    return f"too close to a limit to be placed by one run (marked ~): {listed(near, 6)}"


def _no_repeats(board: Board, judged: Sequence[Case]) -> str:
    if len(judged) < 2 or reruns_of(board.trials, board.profiles):
        return ""
    return (
        "no setting was run twice: the noise of these figures is not known, so small differences rank nothing"
    )


def _loader(board: Board) -> list[str]:
    """Where a probe of the loader is there and the rest of the sum is not."""
    lines = []
    for trial in board.trials:
        sampled = next((facts for facts in trial.steps if facts.sample_s), None)
        missing = [name for name in ("workers", "batch") if not trial.known.get(name)]
        if sampled and missing:
            lines.append(
                f"{trial.case}: whether the loader can keep up needs {' and '.join(missing)}, not in these "
                f"files (one sample takes {sampled.sample_s:.3f} s); say --given workers=N --given batch=N"
            )
    return lines


def _sampled_steps(board: Board) -> str:
    sparse = [
        trial.case for trial in board.trials if any((facts.log_interval or 1) > 1 for facts in trial.steps)
    ]
    if not sparse:
        return ""
    return (
        f"{listed(sparse)}: only every n-th step is logged; what the steps between did is not in these files"
    )


def _queue(board: Board, files: Sequence[FileReading]) -> list[str]:
    lines = []
    for reading in files:
        root = reading.path.parent.name
        for item in reading.items:
            if isinstance(item, Progress) and item.done is not None and item.total and item.done < item.total:
                lines.append(f"{root}: {item.done} of {item.total} cases were done when this was written")
            if isinstance(item, Manifest) and (missing := _without_result(board, reading, item)):
                lines.append(f"{root}: {missing} trainable cases of its manifest have no result")
    return lines


def _without_result(board: Board, reading: FileReading, manifest: Manifest) -> str:
    wanted = {short_case(name) for name, _, trains in manifest.cases if trains}
    seen = {trial.case for trial in board.trials if reading.path.parent in (trial.root, *trial.root.parents)}
    missing = wanted - seen
    return f"{len(missing)} of {len(wanted)}" if missing and seen & wanted else ""
