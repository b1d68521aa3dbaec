"""Answers of a driver kept in a file, and given again: what was measured once on a real card tests the rest.

    {"kind": "box", "source": "nvml", "driver": "580.1", "devices": [{...}], "note": "..."}
    {"kind": "look", "device": 0, "t": 12.4, "load": "matmul", "answers": {...}}

A refusal is `{"refused": reason}`. Recordings hold GPM and the driver's samples side by side, so that one
file tests both modes. They may hold more than a watcher asks for: as a driver does, the replay keeps
it until the next dear look.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from stoker.outside.gpu.seam import Answers, Box, Facts, GpmInterval, Refused, Using, UtilSamples

SWITCHED_OFF = Refused("GPM was switched off for this replay")


@dataclass(frozen=True, slots=True)
class Look:
    device: int
    t: float
    load: str
    answers: Answers


def encode(value: object) -> Any:
    """As JSON takes it; what was not asked is left out."""
    if isinstance(value, Refused):
        return {"refused": value.reason}
    if isinstance(value, Using):
        return [value.pid, value.memory_bytes]
    if isinstance(value, Answers | Facts | GpmInterval | UtilSamples):
        pairs = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {name: encode(part) for name, part in pairs if part is not None}
    if isinstance(value, Mapping):
        return {name: encode(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [encode(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


def box_row(box: Box, note: str) -> dict[str, object]:
    devices = [encode(device) for device in box.devices]
    return {"kind": "box", "source": box.source, "driver": box.driver, "note": note, "devices": devices}


def look_row(look: Look) -> dict[str, object]:
    answers = encode(look.answers)
    return {"kind": "look", "device": look.device, "t": look.t, "load": look.load, "answers": answers}


def read(path: Path) -> tuple[Box, list[Look]]:
    box, looks = Box("replay", reason="the recording is empty"), []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["kind"] == "box":
            devices = tuple(_facts(device) for device in row["devices"])
            box = Box("replay", devices, row.get("driver"))
        else:
            looks.append(Look(row["device"], row["t"], row.get("load", ""), _answers(row["answers"])))
    return box, looks


class ReplayGpus:
    """Gives the looks of a recording one by one; `now` is the clock they were taken on."""

    def __init__(self, path: Path, *, no_gpm: bool = False) -> None:
        self._box, self.looks = read(path)
        self._no_gpm = no_gpm
        self._left: dict[int, Iterator[Look]] = {}
        self._kept: dict[int, Answers] = {}
        for device in range(len(self._box.devices)):
            self._left[device] = iter([look for look in self.looks if look.device == device])
        self._now = self.looks[0].t if self.looks else 0.0

    def now(self) -> float:
        return self._now

    def describe(self) -> Box:
        if not self._no_gpm:
            return self._box
        devices = tuple(
            device if isinstance(device, Refused) else replace(device, gpm=SWITCHED_OFF)
            for device in self._box.devices
        )
        return replace(self._box, devices=devices, no_gpm=True)

    def ask(self, device: int, *, dear: bool) -> Answers:
        """After the last look nothing is answered any more."""
        look = next(self._left[device], None)
        if look is None:
            return Answers()
        self._now = look.t
        gpm = SWITCHED_OFF if self._no_gpm else look.answers.gpm
        kept = _joined(self._kept.pop(device, Answers()), look.answers)
        if dear:
            return replace(kept, gpm=gpm)
        self._kept[device] = kept
        return Answers(gpm)

    def poll(self, device: int) -> bool:
        return False

    def close(self) -> None:
        pass


def _joined(before: Answers, now: Answers) -> Answers:
    """The later answer to each question, and all samples."""
    told = {field.name: getattr(now, field.name) for field in fields(now)}
    joined = replace(before, **{name: answer for name, answer in told.items() if answer is not None})
    if isinstance(before.samples, UtilSamples) and isinstance(now.samples, UtilSamples):
        samples = UtilSamples(before.samples.since_us, before.samples.samples + now.samples.samples)
        return replace(joined, samples=samples)
    return joined


def _or_refused(value: Any, decode: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"refused"}:
        return Refused(str(value["refused"]))
    return decode(value)


def _as_is(value: Any) -> Any:
    return value


def _gpm(value: dict[str, Any]) -> GpmInterval:
    metrics = {name: _or_refused(metric, float) for name, metric in value["metrics"].items()}
    return GpmInterval(float(value["seconds"]), metrics)


def _samples(value: dict[str, Any]) -> UtilSamples:
    pairs = tuple((int(stamp), float(share)) for stamp, share in value.get("samples", ()))
    return UtilSamples(value.get("since_us"), pairs)


def _processes(value: list[Any]) -> tuple[Using, ...]:
    return tuple(Using(int(pid), held) for pid, held in value)


_DECODERS = {"gpm": _gpm, "samples": _samples, "processes": _processes, "polled_pct": tuple}


def _answers(row: dict[str, Any]) -> Answers:
    known = {field.name for field in fields(Answers)}
    decoded = {
        name: _or_refused(value, _DECODERS.get(name, _as_is)) for name, value in row.items() if name in known
    }
    return Answers(**decoded)


def _facts(row: dict[str, Any]) -> Facts | Refused:
    if set(row) == {"refused"}:
        return Refused(str(row["refused"]))
    known = {field.name for field in fields(Facts)}
    return Facts(**{name: _or_refused(value, _as_is) for name, value in row.items() if name in known})
