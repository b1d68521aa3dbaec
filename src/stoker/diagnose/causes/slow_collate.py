"""SK105: putting samples together takes longer than fetching them."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.loading import Blame, blame, collate_frac, evidence, worker_place
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK105", "slow collate"
_FIXES = (
    Fix(
        "samples as tensors or arrays of one shape, stacked at once",
        "torch.tensor([[float(v) for v in s] for s in samples])",
        "torch.from_numpy(np.stack(samples))",
    ),
    Fix("do per-sample work in __getitem__; index whole batches with a BatchSampler and batch_size=None"),
)


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.COLLATE:
        return None
    return finding(
        CODE,
        NAME,
        "workers spend more time putting batches together than fetching samples",
        found.lost("data"),
        found.lost_of,
        [
            *evidence(found),
            share("of a batch's time is collate", collate_frac(found), "loader workers"),
            number("collate takes {} ms a batch", view.collate_ms, "ms", "loader workers"),
        ],
        "time collate_fn alone on one list of samples",
        _FIXES,
        worker_place(found),
    )


CAUSE = Cause(CODE, NAME, find)
