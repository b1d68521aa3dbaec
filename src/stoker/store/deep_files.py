"""The deep window of a process: its row, and the file of its events, read when somebody wants them."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from stoker.inside import wire
from stoker.model.deep import Activity, DeepNote, DeepTrace, DeviceEvent, HostSpan, HostWait
from stoker.model.record import PHASES
from stoker.store.rows import Row, tsv_rows

_KINDS = {wire.KERNEL: Activity.KERNEL, wire.COPY: Activity.COPY, wire.FILL: Activity.FILL}
_STATES = ("taken", "not taken", "failed")


def read_note(row: Row) -> DeepNote:
    state, mode = str(row["state"]), str(row["mode"])
    if state not in _STATES:
        raise ValueError(f"unknown state {state!r}")
    if state != "taken":
        return DeepNote(state, mode, str(row["why"]))
    start_s, end_s = float(row["t"]), float(row["end"])
    if not (isfinite(start_s) and isfinite(end_s) and start_s < end_s):
        raise ValueError("no window")
    return DeepNote(
        state,
        mode,
        str(row["why"]),
        start_s,
        end_s,
        ticks=int(row["ticks"]),
        events=int(row["events"]),
        dropped=int(row["dropped"]),
        details=bool(row["details"]),
        clock_us=float(row["clock_us"]),
        stall_s={str(name): None if s is None else float(s) for name, s in row["stall_s"].items()},
        cuda_graphs=bool(row["cuda_graphs"]),
        file=Path(str(row["file"])).name,  # a file of that folder, whatever the row says
        names=tuple(str(name) for name in row["names"]),
        threads=tuple(int(number) for number in row.get("threads", ())),
    )


def read_trace(folder: Path, note: DeepNote) -> DeepTrace | None:
    """`folder` is the run's; None where there was no window, or its file is gone."""
    path = folder / "inside" / note.file
    if not note.taken or not note.file or not path.is_file():
        return None
    events: list[DeviceEvent] = []
    host: list[HostSpan] = []
    ticks: list[float] = []
    waits: list[HostWait] = []
    for row in tsv_rows(path):
        if len(row) != len(wire.DEEP_COLUMNS):
            continue
        if row[0] == wire.HOST and 0 <= row[5] < len(PHASES):
            host.append(HostSpan(row[1] / 1e9, (row[1] + row[2]) / 1e9, PHASES[row[5]]))
        elif row[0] == wire.TICK:
            ticks.append(row[1] / 1e9)
        elif row[0] == wire.WAIT:
            name, own = _name(row[5], note.names), row[4] in note.threads
            waits.append(HostWait(row[1] / 1e9, (row[1] + row[2]) / 1e9, name, own))
        elif row[0] in _KINDS:
            events.append(_event(row, note.names))
    events.sort(key=lambda event: event.start_s)
    waits.sort(key=lambda wait: wait.start_s)
    return DeepTrace(note, tuple(events), tuple(host), tuple(ticks), tuple(waits))


def _event(row: list[int], names: tuple[str, ...]) -> DeviceEvent:
    kind, start_ns, length_ns, device, stream, name, moved, breadth, occupancy = row
    return DeviceEvent(
        _KINDS[kind],
        start_ns / 1e9,
        (start_ns + max(0, length_ns)) / 1e9,
        device,
        stream,
        _name(name, names),
        moved if moved >= 0 else None,
        breadth / 1000 if breadth >= 0 else None,
        occupancy if occupancy >= 0 else None,
    )


def _name(index: int, names: tuple[str, ...]) -> str:
    return names[index] if 0 <= index < len(names) else "?"
