"""The last line of a run's page: the command that is the most use after what was found."""

from __future__ import annotations

import shlex

from rich.cells import cell_len

from stoker.diagnose.summary import Summary, Trainer
from stoker.diagnose.unsteady import Reason
from stoker.model.finding import Finding, Outcome, Verdict
from stoker.model.run import RunInfo, short_id
from stoker.report.escape import printable
from stoker.report.page import NextCommand
from stoker.trials.ab.plan import CONFIRMING, SCREENING, Windows
from stoker.trials.knobs.advised import advised

SHORT_S = 20.0
FOLLOWED_S = 60.0
LONG_S = 900.0
"""A run in which something may have changed though its speed is called steady."""
LONGER = "60s"
WORD_MAX, COMMAND_MAX = 72, 360
"""A longer word fits no line, a longer command hides the page; and half a command is of no use."""
DEEP = "stoker run --deep"
AB = {CONFIRMING: "stoker ab", SCREENING: "stoker ab --quick"}


def next_command(summary: Summary, found: Verdict) -> NextCommand:
    main = summary.main
    if main is None or summary.run.info.attached_pid:
        return _inside(summary)
    step = _longer(summary.run.info, main) or _moved(summary.run.info, main)
    step = step or _mend(summary.run.info, main, found) or _tell(summary.run.info, main, found)
    return step or _over_time(summary.run.info, main) or _everything(summary.run.info)


def _inside(summary: Summary) -> NextCommand:
    """Nothing of the training was seen."""
    info = summary.run.info
    if info.attached_pid:
        return NextCommand("stoker run -- python train.py", "started so, the inside is seen too")
    if summary.run.host.isolated:
        flags = summary.run.host.isolated[0].flags
        return NextCommand("stoker run -- python train.py", f"without {flags} the inside is seen")
    if info.failure is None:
        return NextCommand("stoker doctor", "what can be measured here")
    return _everything(info)


def _longer(info: RunInfo, main: Trainer) -> NextCommand | None:
    if main.window.seconds >= SHORT_S or info.ended_by != "time-limit":
        return None
    return _again(f"stoker run --for {LONGER}", info, "for firmer figures")


def _moved(info: RunInfo, main: Trainer) -> NextCommand | None:
    """The speed was not the same all the time: first what a cause of the whole is worth."""
    reason = main.window.steadiness.reason if main.window.steadiness else None
    if reason not in (Reason.DRIFT, Reason.STEP, Reason.TWO_SPEEDS) or _length_s(main) < FOLLOWED_S:
        return None
    return _changes(info, "what changed, and when")


def _mend(info: RunInfo, main: Trainer, found: Verdict) -> NextCommand | None:
    """The first cause: its knob, tried out against the run as it was; else its page. A run that failed has
    other worries."""
    if found.outcome not in (Outcome.CAUSES, Outcome.NOT_FIXABLE) or _failed(info):
        return None
    first = found.findings[0]
    explained = NextCommand(f"stoker explain {first.code}", "what it is, and what helps")
    return _try_out(info, main, first) or explained


def _try_out(info: RunInfo, main: Trainer, first: Finding) -> NextCommand | None:
    """Not while it runs, and not on top of `--with`: those settings are no part of the command."""
    setting = advised(first)
    if setting is None or info.ended_s is None or info.settings:
        return None
    windows = _windows(info, main, first.by_workers or first.ceiling or 1.0)
    return _again(f"{AB[windows]} --b {setting}", info, "is it faster?") if windows else None


def _windows(info: RunInfo, main: Trainer, faster: float) -> Windows | None:
    """The longest a trial can show: a training that came to its own end is shorter where it is faster."""
    if info.ended_by != "itself":
        return CONFIRMING
    window = main.window
    fit = (
        one for one in AB if window.seconds / faster >= one.min_s and window.content.ticks >= one.min_ticks
    )
    return next(fit, None)


def _tell(info: RunInfo, main: Trainer, found: Verdict) -> NextCommand | None:
    """What would tell, where that is a command."""
    if _failed(info):
        return None
    if found.would_tell.startswith("stoker doctor"):
        return NextCommand("stoker doctor", "what can be measured here")
    if DEEP not in found.would_tell or (main.record.deep is not None and main.record.deep.taken):
        return None
    return _again(DEEP, info, "what the GPU works on")


def _over_time(info: RunInfo, main: Trainer) -> NextCommand | None:
    if main.window.warmup_s > main.window.seconds / 5 and _length_s(main) >= FOLLOWED_S:
        return _changes(info, "what changed, and when")
    return _changes(info, "whether it stayed so") if _length_s(main) >= LONG_S else None


def _changes(info: RunInfo, why: str) -> NextCommand:
    return NextCommand(f"stoker why {short_id(info.id)} --over-time", why)


def _everything(info: RunInfo) -> NextCommand:
    return NextCommand(f"stoker why {short_id(info.id)} --json", "everything that was measured")


def _again(verb: str, info: RunInfo, why: str) -> NextCommand | None:
    """With the run's own command, word for word, and what was said of it; None where that is too long, or
    could not be typed as it is shown."""
    command = f"{shlex.join([*verb.split(), *_told(info)])} -- {shlex.join(info.command)}"
    longest = max(map(cell_len, map(shlex.quote, [*info.named, *info.command])))
    if longest > WORD_MAX or cell_len(command) > COMMAND_MAX or printable(command) != command:
        return None
    return NextCommand(command, why)


def _told(info: RunInfo) -> list[str]:
    return [*info.named, *([f"--total={info.total}"] if info.total else [])]


def _failed(info: RunInfo) -> bool:
    return info.failure is not None and info.ended_by != "signal-from-user"


def _length_s(main: Trainer) -> float:
    return main.window.seconds + main.window.warmup_s
