from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from stoker.model.host import HostHeader, HostReading, RowKind

PAGE = (Path(__file__).parents[2] / "docs" / "host-file.md").read_text(encoding="utf-8")


def test_every_field_and_kind_is_documented_and_no_other() -> None:
    table = PAGE.split("## Readings")[1]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted(field.name for field in fields(HostReading))
    for name in [field.name for field in fields(HostHeader)] + [kind.value for kind in RowKind]:
        assert f"`{name}`" in PAGE, name
