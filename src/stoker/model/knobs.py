"""What a training process said about the knobs it was given, and the facts a setting may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnobReport:
    """One runtime knob in one process."""

    name: str
    value: str
    state: str
    """`applied`, `already` (the script has it), `refused`, `unused` (nothing came up), `failed`."""
    did: str
    why: str

    @property
    def in_effect(self) -> bool:
        return self.state in ("applied", "already")


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    threads: int | None = None
    seed: int | None = None
    models: Mapping[str, int] = field(default_factory=dict)
    """Class of a model: its parameters."""
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Class of a model: the shape of its input without the batch."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """The largest batch seen: `training` with gradients, `acting` without."""
    dtypes: tuple[str, ...] = ()
    """In which models were called."""
    optimizers: tuple[Mapping[str, object], ...] = ()
    """What each was made with: name, lr, …"""
    packages: tuple[str, ...] = ()
    """Folders and files of the code that was imported, without Python's own library."""
    variables: Mapping[str, str | None] = field(default_factory=dict)
    """Environment variables a setting named, as the process sees them."""
