"""The `knobs` row of a process: what its knobs did, and the facts of its training."""

from __future__ import annotations

from stoker.model.knobs import KnobReport, TrainingFacts
from stoker.store.rows import Row


def read_reports(row: Row) -> tuple[KnobReport, ...]:
    names = ("name", "value", "state", "did", "why")
    return tuple(KnobReport(*(str(one[name]) for name in names)) for one in row["knobs"])


def read_facts(row: Row) -> TrainingFacts:
    facts = row["facts"]
    return TrainingFacts(
        threads=_whole(facts.get("threads")),
        seed=_whole(facts.get("seed")),
        models={str(name): int(size) for name, size in facts["models"].items()},
        inputs={str(name): tuple(map(int, shape)) for name, shape in facts["inputs"].items()},
        rows={str(use): int(count) for use, count in facts["rows"].items()},
        dtypes=tuple(map(str, facts["dtypes"])),
        optimizers=tuple({str(key): value for key, value in one.items()} for one in facts["optimizers"]),
        packages=tuple(map(str, facts.get("packages") or ())),
        variables={str(n): None if v is None else str(v) for n, v in facts["variables"].items()},
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
