"""The nouns: a knob, the way it is set, and one setting of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Channel(StrEnum):
    """How a value reaches the training."""

    PLACEHOLDER = "placeholder"
    """`{num_envs}` in the command."""
    FLAG = "flag"
    """`--batch-size 64` in the command."""
    HYDRA = "hydra"
    """`trainer.x=3` in the command."""
    ARGS_FILE = "args"
    """`--num_envs 64` in a file of such words; a copy is passed in its place."""
    CONFIG = "cfg"
    """A key of a YAML, JSON or TOML file or of a Python module; a copy is passed in its place."""
    ENVIRONMENT = "env"
    RUNTIME = "runtime"
    """Applied inside the training process, whatever the script says."""


class Kind(StrEnum):
    """What a change of it does to the training."""

    EXACT = "exact"
    """Same samples in the same order, same arithmetic; only random augmentation may differ."""
    NUMERIC = "numeric"
    """Same training, other rounding."""
    DYNAMICS = "dynamics"
    """Another training."""


class ValueType(StrEnum):
    INTEGER = "a whole number"
    SWITCH = "on or off"
    CHOICE = "one of a few words"
    TEXT = "any text"


class Scope(StrEnum):
    """What one value of it holds for."""

    LOADER = "every DataLoader of every process"
    MODEL = "every model of every process"
    OPTIMIZER = "every optimizer of every process"
    PROCESS = "every process"
    COMMAND = "the command"


@dataclass(frozen=True, slots=True)
class Knob:
    name: str
    channel: Channel
    type: ValueType
    kind: Kind
    scope: Scope
    shown_by: str
    """What in a recorded run shows that it is live."""
    about: str = ""
    words: tuple[str, ...] = ()
    """What a CHOICE may be; the first one is meant where no value is given."""


@dataclass(frozen=True, slots=True)
class Setting:
    knob: Knob
    value: str
    file: str = ""
    """The file that holds it (`args`, `cfg`)."""

    @property
    def name(self) -> str:
        return self.knob.name

    @property
    def text(self) -> str:
        """As it could be typed again."""
        if self.knob.channel is Channel.RUNTIME:
            return f"{self.name}={self.value}"
        place = f"{self.file}:" if self.file else ""
        value = f"={self.value}" if self.value or self.knob.type is not ValueType.SWITCH else ""
        return f"{self.knob.channel}:{place}{self.name}{value}"
