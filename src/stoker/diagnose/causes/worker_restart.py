"""SK106: workers are started anew at each epoch, and epochs are short."""

from __future__ import annotations

from stoker.diagnose.causes.cause import Cause, finding, number, share
from stoker.diagnose.causes.loading import Blame, blame, edge_frac, with_library
from stoker.diagnose.causes.signals import Signals
from stoker.model.finding import Finding, Fix

CODE, NAME = "SK106", "loader workers restarted at each epoch"


def find(found: Signals) -> Finding | None:
    view = found.loader
    if view is None or blame(found) is not Blame.RESTART:
        return None
    loader = view.loader
    return finding(
        CODE,
        NAME,
        "the wait for data comes at the edges of epochs, where workers are started anew",
        found.lost("data") * edge_frac(found),
        found.lost_of,
        [
            share("of the waiting for data is where an epoch begins", edge_frac(found), "ticks"),
            number("{} epochs began", float(found.epochs), "epochs", "host clock"),
            number("an epoch has {} batches", loader.length, "batches", "host clock"),
        ],
        "persistent_workers=True: the long ticks at epoch edges are gone",
        (
            Fix(
                f"keep the workers{with_library(found)}",
                f"DataLoader(dataset, num_workers={view.workers})",
                f"DataLoader(dataset, num_workers={view.workers}, persistent_workers=True)",
            ),
            Fix("a loader made anew for each epoch: make it once, before the first, or it keeps nothing"),
            Fix("longer epochs: a sampler that goes on without end, evaluation counted in steps"),
        ),
        mend_at=loader.made,
    )


CAUSE = Cause(CODE, NAME, find)
