"""What a comparison will do, written down before it begins: two arms, windows, pairs and their order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from stoker.trials.ab.measure import Arm
from stoker.trials.ab.statistics import PAIRS, Rule

START_MAX_S = 300.0
"""Without a tick after this time a trial is given up."""
REPEATS_MAX = 4
"""Trials run again in a whole session, because the first was unsteady or failed."""
END_S = 10.0
"""To end a trial and begin the next."""


@dataclass(frozen=True, slots=True)
class Windows:
    """How much steady training a trial must show."""

    name: str
    min_s: float
    min_ticks: int
    max_s: float
    """Of training, warm-up counted: a trial that is not steady by then is unsteady."""


CONFIRMING = Windows("confirming", 45.0, 200, 180.0)
SCREENING = Windows("screening", 20.0, 100, 60.0)
SHORT_TICKS = 20
AS_IT_IS = "as it is"
"""The label of an arm that changes nothing."""


def windows_of(seconds: float) -> Windows:
    """The user's own length: as many ticks as the nearest shorter of the usual ones asks for."""
    for usual in (CONFIRMING, SCREENING):
        if seconds >= usual.min_s:
            return Windows(usual.name, seconds, usual.min_ticks, max(4 * seconds, usual.max_s))
    return Windows("short", seconds, SHORT_TICKS, max(6 * seconds, 30.0))


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """One side: what the user changed, and the command that comes of it."""

    label: str
    command: tuple[str, ...]
    settings: str = ""
    """As the user wrote them; empty for the command as it is."""
    config: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    a: ArmPlan
    b: ArmPlan
    cwd: str
    windows: Windows = CONFIRMING
    pairs: int = PAIRS
    order_seed: int | None = None
    """None: AB, BA, AB, …; else drawn for each pair."""
    kind: str = "exact"
    """Of what differs: `exact`, `numeric`, `dynamics`, or `unknown` between two commands or files."""
    seeds: tuple[int, ...] = ()
    """Pairs take them in turn; empty where the command takes none or none is needed."""
    no_seeds: str = ""
    """Why there are none, where parity would need them."""
    seed_flag: str = ""
    metric: str = ""
    """The user's pattern for the loss or return in the log."""
    higher_is_better: bool | None = None
    total: str | None = None
    named: tuple[str, ...] = ()
    """`env=module:Class.method`, `eval=module:function`: what the trials are told to look at."""
    preflight: tuple[tuple[str, ...], ...] = ()
    """Commands that must succeed before each trial."""
    share: bool = False
    guard: str = "auto"
    """The `GuardMode` the user asked for."""
    start_max_s: float = START_MAX_S

    @property
    def rule(self) -> Rule:
        return Rule(pairs=self.pairs)

    @property
    def needs_parity(self) -> bool:
        """Exact settings train the same thing."""
        return self.kind != "exact"

    def arm(self, arm: Arm) -> ArmPlan:
        return self.a if arm is Arm.A else self.b

    def order(self, pair: int) -> tuple[Arm, Arm]:
        if self.order_seed is None:
            forwards = pair % 2 == 1
        else:
            forwards = random.Random(f"{self.order_seed}:{pair}").random() < 0.5
        return (Arm.A, Arm.B) if forwards else (Arm.B, Arm.A)

    def seed(self, pair: int) -> int | None:
        return self.seeds[(pair - 1) % len(self.seeds)] if self.seeds else None

    @property
    def trial_max_s(self) -> float:
        return self.start_max_s + self.windows.max_s + END_S

    @property
    def worst_case_s(self) -> float:
        return (2 * self.pairs + REPEATS_MAX) * self.trial_max_s

    @property
    def usual_s(self) -> float:
        """Where a training starts within seconds and is steady from the beginning."""
        return 2 * self.pairs * (1.2 * self.windows.min_s + END_S)


def as_row(plan: Plan) -> dict[str, object]:
    return asdict(plan)


def from_row(row: Mapping[str, Any]) -> Plan:
    known = {field.name for field in fields(Plan)}
    values = {name: value for name, value in row.items() if name in known}
    for side in ("a", "b"):
        values[side] = ArmPlan(**{**values[side], "command": tuple(values[side]["command"])})
    values["windows"] = Windows(**values["windows"])
    for name in ("seeds", "named"):
        values[name] = tuple(values.get(name) or ())
    values["preflight"] = tuple(map(tuple, values.get("preflight") or ()))
    return Plan(**values)
