"""What `--with` asked for, and what came of it."""

from __future__ import annotations

from stoker.errors import StokerError
from stoker.model.run import Run
from stoker.report.page import Block, Facts
from stoker.trials.knobs import Liveness, Setting, liveness, parse_settings


def knob_blocks(run: Run) -> list[Block]:
    rows = [(name, text) for name, text in _told(run)]
    return [Facts(tuple(rows))] if rows else []


def _told(run: Run) -> list[tuple[str, str]]:
    rows = [f"{setting.text}: {_sentence(found)}" for setting, found in _looked_at(run)]
    return [("with" if number == 0 else "", text) for number, text in enumerate(rows)]


def _looked_at(run: Run) -> list[tuple[Setting, Liveness]]:
    """run.json is a file like any other: what cannot be understood in it is passed over."""
    found = []
    for text in run.info.settings:
        try:
            found += [(one, liveness(one, run)) for one in parse_settings(text, run.info.command)]
        except StokerError:
            continue
    return found


def _sentence(found: Liveness) -> str:
    if found.live is None:
        return f"set; {found.reason}"
    if found.live:
        aside = f" ({found.reason})" if found.reason else ""
        return f"in effect, {found.seen}{aside}"
    return f"NOT in effect: {found.reason or found.seen}"


def settings_data(run: Run) -> list[dict[str, object]]:
    return [
        {
            "setting": setting.text,
            "name": setting.name,
            "channel": setting.knob.channel.value,
            "kind": setting.knob.kind.value,
            "value": setting.value,
            "live": found.live,
            "seen": found.seen,
            "reason": found.reason,
        }
        for setting, found in _looked_at(run)
    ]
