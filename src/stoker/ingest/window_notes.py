"""Notes in which somebody wrote down a window of GPU readings: `gpu0_avg=9.30`, `both_avg=29.29`, …

Plain text or Markdown; a heading or list item that names an experiment opens a new window. `avg` and `max`
(also 平均 and 最大) belong to the quantity named before them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stoker.ingest.source import Ledger, Reading, Source
from stoker.model.evidence import WindowSummary

_NAME = re.compile(r"\b((?:\w+_)?(?:exp|run|trial)\d+\w*)\b", re.I)
_FIGURE = r"\d{1,9}(?:\.\d{1,9})?(?!\d)"
_PAIR = re.compile(rf"(?<![\w.])([A-Za-z_]\w*)\s*[=:]\s*({_FIGURE})(?:/({_FIGURE}))?")
_SUBJECT = re.compile(r"(data_time|iter_time|sample_time_sample_total_mean|sample_time_image_mean)")
_MEAN_MAX = re.compile(r"(?:\b(avg|mean|max)\s*=\s*|(平均|最大)\s*`?)(" + _FIGURE + r")\s*s\b")
_WORDS = {"avg": "mean", "mean": "mean", "max": "max", "平均": "mean", "最大": "max"}
_SETTINGS = {
    "num_workers": "workers",
    "workers": "workers",
    "batch_size": "batch",
    "batch_size_per_gpu": "batch",
    "batch": "batch",
    "log_interval": "log_interval",
    "prefetch_factor": "prefetch",
}


@dataclass
class _Window:
    name: str
    line: int
    figures: dict[str, float] = field(default_factory=dict)
    gpus: dict[int, float] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)


def recognise(source: Source) -> bool:
    return bool(
        re.search(r"\bgpu0_avg\s*[=:]\s*\d", source.head)
        and re.search(r"\bboth_avg\s*[=:]\s*\d", source.head)
    )


def read(source: Source) -> Reading:
    windows: list[_Window] = []
    ledger = Ledger()
    for line, text in source.lines():
        plain = text[:4000].replace("`", "")
        name = _opening(plain)
        if name and (not windows or windows[-1].name != name):
            windows.append(_Window(name, line))
        elif not windows and _PAIR.search(plain):
            windows.append(_Window(source.path.stem, line))
        if windows:
            _figures(windows[-1], line, plain, ledger)
    return Reading(tuple(_summary(window) for window in windows if window.gpus), ledger)


def _opening(text: str) -> str | None:
    """The experiment a heading, a list item or a line on its own is about; not one named in passing."""
    found = _NAME.search(text)
    return (
        found[1]
        if found and len(text[: found.start()].split()) <= 3 and "_avg" not in text[: found.start()]
        else None
    )


def _figures(window: _Window, line: int, text: str, ledger: Ledger) -> None:
    for key, shown, whole in _PAIR.findall(text):
        value = float(shown)
        if re.fullmatch(r"(?:gpu\d+|both)_(?:avg|p50|avg_active)", key) and value > 100:
            ledger.add(line, f"{key} outside 0-100", text)
        elif found := re.fullmatch(r"gpu(\d{1,2})_avg", key):
            window.gpus.setdefault(int(found[1]), value)
        elif key in _SETTINGS:
            window.settings.setdefault(_SETTINGS[key], value)
        else:
            window.figures.setdefault(key, value)
        if whole and key in ("active_seconds", "idle_seconds"):
            window.figures.setdefault("window_s", float(whole))
    _means(window, text)


def _means(window: _Window, text: str) -> None:
    subjects = [(found.start(), found[1]) for found in _SUBJECT.finditer(text)]
    for found in _MEAN_MAX.finditer(text):
        named = [subject for place, subject in subjects if place < found.start()]
        if named:
            window.figures.setdefault(f"{named[-1]} {_WORDS[found[1] or found[2]]}", float(found[3]))


def _summary(window: _Window) -> WindowSummary:
    get = window.figures.get
    rows, last = get("iter_rows"), get("last_iter")
    return WindowSummary(
        name=window.name,
        line=window.line,
        gpu_avg_pct=tuple(window.gpus.get(gpu) for gpu in range(max(window.gpus) + 1)),
        both_avg_pct=get("both_avg"),
        both_p50_pct=get("both_p50"),
        both_avg_active_pct=get("both_avg_active"),
        active_s=get("active_seconds"),
        idle_s=get("idle_seconds"),
        window_s=get("window_s"),
        rows=None if rows is None else int(rows),
        last_iter=None if last is None else int(last),
        data_mean_s=get("data_time mean"),
        data_max_s=get("data_time max"),
        step_mean_s=get("iter_time mean"),
        step_max_s=get("iter_time max"),
        sample_s=get("sample_time_sample_total_mean mean"),
        settings=window.settings,
    )
