"""Knobs: what can be changed about a training from outside, how it is set, and what shows that it is live.

parse_settings(text, command)             what the user typed            -> settings
prepare(settings, command, env, folder)   settings                       -> the command as it is to be run
liveness(setting, run, other)             a setting and what was recorded -> whether it had an effect
"""

from stoker.trials.knobs.effects import Liveness, differences, liveness
from stoker.trials.knobs.knob import Channel, Kind, Knob, Setting
from stoker.trials.knobs.known import RUNTIME, runtime_knob
from stoker.trials.knobs.parse import parse_settings
from stoker.trials.knobs.prepare import Prepared, prepare, unprepared

__all__ = [
    "RUNTIME",
    "Channel",
    "Kind",
    "Knob",
    "Liveness",
    "Prepared",
    "Setting",
    "differences",
    "liveness",
    "parse_settings",
    "prepare",
    "runtime_knob",
    "unprepared",
]
