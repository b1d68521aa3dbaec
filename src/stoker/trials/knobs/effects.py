"""Whether a setting had an effect, from what a run recorded: a knob counts as changed only when the run
shows it. Where the meaning of a setting is not known, two runs are compared; that can prove an effect, never
that there is none."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.model.knobs import KnobReport
from stoker.model.run import Run
from stoker.trials.knobs.knob import Channel, Setting
from stoker.trials.knobs.known import meaning_of
from stoker.trials.knobs.run_facts import RunFacts, Value, facts_of, same, shown
from stoker.trials.knobs.words import unread

DEAD = "this setting has no effect in this script"
UNSEEN = "no effect was seen, and it may have none in this script"
_SHOWN = 3
_MANY_READINGS = ("batch", "seed", "lr")
"""Settings a script may rightly turn into something else: a batch per GPU, a seed per rank, a rate scaled by
the batch."""
_IN_CODE = (Channel.FLAG, Channel.HYDRA, Channel.ARGS_FILE, Channel.CONFIG)
"""Settings with a name that the code must hold to read them."""
_YES, _NO = {"true", "1", "on", "yes", ""}, {"false", "0", "off", "no"}


@dataclass(frozen=True, slots=True)
class Liveness:
    live: bool | None
    """None: it cannot be told, and `reason` says why."""
    seen: str
    reason: str = ""


def differences(run: Run, other: Run) -> dict[str, tuple[str, str]]:
    """Facts of two runs that are not the same: name, and what each shows. Speeds are not among them."""
    mine, theirs = facts_of(run), facts_of(other)
    return {} if mine is None or theirs is None else _differences(mine, theirs)


def _differences(mine: RunFacts, theirs: RunFacts) -> dict[str, tuple[str, str]]:
    a, b = mine.compared, theirs.compared
    names = [name for name in dict.fromkeys([*a, *b]) if not _unknown_in_one(a.get(name), b.get(name))]
    return {n: (shown(a.get(n)), shown(b.get(n))) for n in names if not same(a.get(n), b.get(n))}


def _unknown_in_one(one: Value | None, other: Value | None) -> bool:
    """A figure that a shorter run could not tell is no difference."""
    return (one is None and isinstance(other, float)) or (other is None and isinstance(one, float))


def liveness(setting: Setting, run: Run, other: Run | None = None) -> Liveness:
    """`other` is a run of the same command in which this setting has another value, or is not given."""
    if setting.knob.channel is Channel.RUNTIME:
        return _reported(setting, run)
    mine = facts_of(run)
    if mine is None:
        return Liveness(None, "", "no training was recorded")
    if setting.knob.channel is Channel.ENVIRONMENT and setting.name in mine.variables:
        has = mine.variables[setting.name]
        if has != setting.value:
            return Liveness(False, f"{setting.name} is {has}", "the training process does not have it")
    theirs = facts_of(other) if other is not None else None
    meaning = meaning_of(setting.name)
    if meaning and mine.shown_by_meaning[meaning]:
        return _by_meaning(setting, meaning, mine, theirs)
    found = _by_comparison(mine, theirs)
    if found.live is None and theirs is not None and setting.knob.channel in _IN_CODE:
        return _unread(setting, mine) or found
    return found


def _unread(setting: Setting, mine: RunFacts) -> Liveness | None:
    """Nothing differs, and no code could have read it."""
    found = unread(setting.name, mine.packages)
    if found is None:
        return None
    searched = f"of the {found.files:,} files of code it imports, none reads {setting.name}"
    live, says = (False, DEAD) if found.proven else (None, UNSEEN)
    return Liveness(live, "nothing differs", f"{says}: {searched}")


def _reported(setting: Setting, run: Run) -> Liveness:
    """What the training processes said themselves; one that could not is enough for a no."""
    processes = run.trainers or run.processes
    reports = [report for one in processes for report in one.knobs if report.name == setting.name]
    if not reports:
        return Liveness(None, "", "no training process said anything about it")
    failing = next((report for report in reports if not report.in_effect), None)
    if failing is not None:
        return Liveness(False, _state(failing), failing.why)
    report = reports[0]
    return Liveness(True, report.did, report.why)


def _state(report: KnobReport) -> str:
    return {"failed": "it failed", "unused": "it found nothing to change"}.get(report.state, "not applied")


def _by_meaning(setting: Setting, meaning: str, mine: RunFacts, theirs: RunFacts | None) -> Liveness:
    values = mine.shown_by_meaning[meaning]
    found = sorted("none" if value is None else str(value) for value in values)
    text = f"{meaning.replace('_', ' ')} {', '.join(found)}"
    matches = any(_equal(setting.value, value) for value in values)
    if theirs is not None:
        if theirs.shown_by_meaning[meaning] == values and matches:
            return Liveness(None, text, f"with it and without it the runs show {text}")
        if theirs.shown_by_meaning[meaning] == values:
            return Liveness(False, text, f"{DEAD}: {setting.text} was asked for, and both runs show {text}")
        return Liveness(True, text, "" if matches else f"the script makes {text} of {setting.value}")
    if matches:
        return Liveness(True, text)
    reason = f"{setting.value} was asked for, the run shows {text}"
    if meaning in _MANY_READINGS:
        return Liveness(None, text, f"{reason}; a run with another value would tell")
    return Liveness(False, text, f"{DEAD}: {reason}")


def _equal(asked: str, value: object) -> bool:
    if isinstance(value, bool):
        return asked.lower() in (_YES if value else _NO)
    try:
        return float(asked) == float(str(value))
    except ValueError:
        return asked == str(value)


def _by_comparison(mine: RunFacts, theirs: RunFacts | None) -> Liveness:
    if theirs is None:
        return Liveness(None, "", "what it does is not known; a run with another value would tell")
    found = _differences(mine, theirs)
    if not found:  # not a proof: nothing that is recorded tells a discount factor, say
        compared = ", ".join(name for name, value in mine.compared.items() if value != ())
        return Liveness(None, "nothing differs", f"{UNSEEN}; the same in both: {compared}")
    return Liveness(True, "; ".join(f"{name}: {a}, not {b}" for name, (a, b) in list(found.items())[:_SHOWN]))
