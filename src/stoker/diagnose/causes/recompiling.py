"""SK205: torch.compile is still compiling long after the start."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, share
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK205", "recompiling again and again"
_FIXES = (
    Fix("tell it which sizes change", "compiled(x)", "torch._dynamo.mark_dynamic(x, 0)\ncompiled(x)"),
    Fix(
        "few shapes: drop or pad the last batch, bucket lengths",
        "DataLoader(dataset, batch_size=64)",
        "DataLoader(dataset, batch_size=64, drop_last=True)",
    ),
    Fix("see what changed: TORCH_LOGS=recompiles python train.py"),
)


def find(found: Signals) -> Finding | None:
    if not found.compiles_on:
        return None
    line = found.top_line("compile")
    return finding(
        CODE,
        NAME,
        "torch.compile still compiles in the steady part of the run: shapes or Python values keep changing",
        found.lost("compile"),
        found.lost_of,
        [share("of the window is compiling, after warm-up", found.host_pct["compile"] / 100, "host clock")],
        "TORCH_LOGS=recompiles names each guard that failed",
        _FIXES,
        line.place if line else None,
    )


CAUSE = Cause(CODE, NAME, find)
