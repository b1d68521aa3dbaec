"""From the first fix of a cause to the settings that try it out, where Stoker can turn them by itself.

A fix is written as code; which of its words are knobs, and of which causes, is the table below. A cause that
is not in it is mended in the code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stoker.errors import UsageError
from stoker.model.finding import Finding, Fix
from stoker.trials.knobs.parse import parse_settings

_KNOBS: Mapping[str, tuple[str, ...]] = {
    "SK101": ("num_workers",),
    "SK102": ("num_workers",),
    "SK106": ("persistent_workers",),
    "SK402": ("compile",),
    "SK403": ("pin_memory", "non_blocking"),
    "SK405": ("tf32",),
}
_LOADERS = ("num_workers", "persistent_workers", "pin_memory")
"""Knobs of a DataLoader: no help where the fix is to have one at all."""
_WORDS: Mapping[str, str] = {
    "num_workers": r"\bnum_workers=(\d+)",
    "persistent_workers": r"\bpersistent_workers=(True)",
    "compile": r"\btorch\.compile\(\w+\(\), mode=\"([\w-]+)\"\)",
    "pin_memory": r"\bpin_memory=(True)",
    "non_blocking": r"\bnon_blocking=(True)",
    "tf32": r"\bset_float32_matmul_precision\(\"(high)\"\)",
}
_ON = ("True", "high")


def advised(finding: Finding) -> str | None:
    """As one would type them after `--b`; None where no knob does what the fix says."""
    fix = finding.fixes[0] if finding.fixes else None
    names = _KNOBS.get(finding.code, ())
    if fix is None or not names:
        return None
    values = [_value(name, fix) for name in names]
    if None in values:
        return None
    text = ",".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
    try:
        parse_settings(text, ())
    except UsageError:
        return None
    return text


def _value(name: str, fix: Fix) -> str | None:
    if name in _LOADERS and "DataLoader(" not in fix.before:
        return None
    match = re.search(_WORDS[name], fix.after)
    return None if match is None else "on" if match[1] in _ON else match[1]
