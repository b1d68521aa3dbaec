"""Sums over a tree whose processes come and go: CPU time, page faults, disk bytes.

The kernel adds what a process used to its parent's account when the parent waits for it. So each process is
counted with its reaped children, and what we had already counted of a child is taken off the parent's growth
when the child is gone. What is lost: the last moments (less than one interval) of a process nobody in the
tree waited for. Nothing is counted twice and no sum ever falls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.launch.procfs import Identity


@dataclass(frozen=True, slots=True)
class Account:
    """One process: its own use, and that of children it has waited for. Where the kernel gives one figure
    for both (disk bytes), it goes under `reaped`."""

    identity: Identity
    parent_pid: int
    own: float
    reaped: float


class Ledger:
    """Accounts must have been read parents first: a child reaped while we read is then gone, not doubled."""

    def __init__(self) -> None:
        self.total = 0.0
        self._last: dict[int, Account] = {}
        self._owed: dict[int, float] = {}
        """By PID: counted of gone children, to be taken off when it shows up in the parent's account."""

    def update(self, accounts: Iterable[Account], *, past_counts: bool = True) -> float:
        """`past_counts`: what a process used before we first saw it belongs to the run."""
        now = {account.identity.pid: account for account in accounts}
        owed = self._debts_of_the_gone(now)
        left: dict[int, float] = {}
        for pid, account in now.items():
            own, reaped = self._growth(account, past_counts)
            still_owed = owed.get(pid, 0.0) + self._owed.get(pid, 0.0) - reaped
            self.total += own + max(-still_owed, 0.0)
            # A parent's account may lag the child's end by one look; later than that it will not come.
            if still_owed > 0 and pid in owed:
                left[pid] = min(still_owed, owed[pid])
        self._last, self._owed = now, left
        return self.total

    def _growth(self, account: Account, past_counts: bool) -> tuple[float, float]:
        before = self._last.get(account.identity.pid)
        if before is not None and before.identity == account.identity:
            return max(account.own - before.own, 0.0), max(account.reaped - before.reaped, 0.0)
        return (account.own, account.reaped) if past_counts else (0.0, 0.0)

    def _debts_of_the_gone(self, now: dict[int, Account]) -> dict[int, float]:
        owed: dict[int, float] = {}
        for pid, account in self._last.items():
            if pid in now and now[pid].identity == account.identity:
                continue
            heir = self._nearest_alive(account.parent_pid, now)
            if heir is not None:
                owed[heir] = owed.get(heir, 0.0) + account.own + account.reaped
        return owed

    def _nearest_alive(self, pid: int, now: dict[int, Account]) -> int | None:
        """Who has waited for it: its parent, or that one's parent if both are gone."""
        for _ in range(len(self._last) + 1):
            before = self._last.get(pid)
            if before is None:
                return None
            if pid in now and now[pid].identity == before.identity:
                return pid
            pid = before.parent_pid
        return None
