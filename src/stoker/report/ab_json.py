"""A comparison as JSON, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict

from stoker.report.ab_page import sentence
from stoker.trials.ab.session import Ended

SCHEMA = "stoker.ab/1"


def render(ended: Ended, folder: str) -> str:
    found = ended.answer
    content = {
        "schema": SCHEMA,
        "folder": folder,
        "verdict": None if ended.stopped else found.outcome.value,
        "sentence": sentence(ended),
        "reason": found.reason,
        "help": found.help,
        "again": found.again or None,
        "stopped": ended.stopped or None,
        "unit": found.unit or None,
        "estimate": asdict(found.estimate) if found.estimate else None,
        "pairs": [
            {
                "pair": pair.pair,
                "order": "AB" if pair.a.order == 0 else "BA",
                "a_per_s": (pair.a.rates or {})[found.unit],
                "b_per_s": (pair.b.rates or {})[found.unit],
                "ratio": pair.ratio,
            }
            for pair in found.pairs
        ],
        "parity": asdict(found.parity) if found.parity else None,
        "differs": list(found.differs),
        "plan": asdict(ended.plan),
        "trials": [asdict(one) for one in ended.measures],
    }
    return json.dumps(content, indent=1, ensure_ascii=True)
