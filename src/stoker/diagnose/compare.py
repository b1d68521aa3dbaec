"""Two roots side by side: what changed class, got faster or slower, stopped working or came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.diagnose.cases import Case

NOTICEABLE = 1.05


@dataclass(frozen=True, slots=True)
class Change:
    case: str
    before: Case | None
    after: Case | None
    class_changed: bool
    speed_ratio: float | None
    """Samples per second, after over before."""
    works: str
    """`stopped working`, `works now`, or empty."""
    like_for_like: bool
    """The same setting on both sides."""

    @property
    def is_noticeable(self) -> bool:
        moved = self.speed_ratio is not None and not 1 / NOTICEABLE <= self.speed_ratio <= NOTICEABLE
        return self.class_changed or moved or bool(self.works) or self.before is None or self.after is None


def changes(before: Sequence[Case], after: Sequence[Case]) -> tuple[Change, ...]:
    old, new = {case.name: case for case in before}, {case.name: case for case in after}
    return tuple(_change(name, old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new]))


def _change(name: str, before: Case | None, after: Case | None) -> Change:
    if before is None or after is None:
        return Change(name, before, after, False, None, "", False)
    worked, works = before.chosen.ok is not False, after.chosen.ok is not False
    old, new = before.chosen.samples_per_s, after.chosen.samples_per_s
    return Change(
        case=name,
        before=before,
        after=after,
        class_changed=worked and works and before.case_class is not after.case_class,
        speed_ratio=new / old if worked and works and old and new else None,
        works="stopped working" if worked and not works else "works now" if works and not worked else "",
        like_for_like=before.chosen.setting.label() == after.chosen.setting.label(),
    )
