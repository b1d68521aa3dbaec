"""CPU time of processes that end between two looks is neither lost nor counted twice."""

from __future__ import annotations

from stoker.launch.procfs import Identity
from stoker.outside.ledger import Account, Ledger


def account(pid: int, parent: int, own: float, reaped: float = 0.0, start: float = 0.0) -> Account:
    return Account(Identity(pid, start), parent, own, reaped)


def test_live_processes_add_up() -> None:
    ledger = Ledger()
    assert ledger.update([account(1, 0, 1.0), account(2, 1, 2.0)]) == 3.0
    assert ledger.update([account(1, 0, 1.5), account(2, 1, 2.5)]) == 4.0


def test_the_last_moments_of_a_child_come_through_its_parent() -> None:
    ledger = Ledger()
    ledger.update([account(1, 0, 1.0), account(2, 1, 5.0)])
    assert ledger.update([account(1, 0, 1.0, reaped=5.7)]) == 6.7


def test_a_child_never_seen_is_counted_whole() -> None:
    ledger = Ledger()
    ledger.update([account(1, 0, 1.0)])
    assert ledger.update([account(1, 0, 1.0, reaped=0.4)]) == 1.4


def test_a_child_reaped_just_after_its_parent_was_read_is_not_doubled() -> None:
    ledger = Ledger()
    ledger.update([account(1, 0, 1.0), account(2, 1, 5.0)])
    assert ledger.update([account(1, 0, 1.1)]) == 6.1
    assert round(ledger.update([account(1, 0, 1.2, reaped=5.5)]), 6) == 6.7


def test_two_generations_gone_at_once() -> None:
    ledger = Ledger()
    ledger.update([account(1, 0, 0.0), account(2, 1, 1.0), account(3, 2, 10.0)])
    assert ledger.update([account(1, 0, 0.0, reaped=11.5)]) == 11.5


def test_a_parent_that_does_not_wait_costs_nothing_later() -> None:
    """SIGCHLD ignored: the kernel drops the child's account. The debt must not eat what comes after."""
    ledger = Ledger()
    ledger.update([account(1, 0, 1.0), account(2, 1, 5.0)])
    ledger.update([account(1, 0, 2.0)])
    ledger.update([account(1, 0, 3.0)])
    assert ledger.update([account(1, 0, 3.0, reaped=2.0)]) == 10.0


def test_a_reused_pid_starts_afresh() -> None:
    ledger = Ledger()
    ledger.update([account(2, 1, 5.0, start=1.0)])
    assert ledger.update([account(2, 1, 1.0, start=9.0)]) == 6.0


def test_the_sum_never_falls() -> None:
    ledger = Ledger()
    sums = [
        ledger.update(accounts)
        for accounts in (
            [account(1, 0, 1.0), account(2, 1, 3.0)],
            [account(1, 0, 0.9), account(2, 1, 2.0)],
            [],
            [account(7, 1, 0.5)],
        )
    ]
    assert sums == sorted(sums)


def test_the_past_of_a_job_that_was_there_before_does_not_count() -> None:
    ledger = Ledger()
    assert ledger.update([account(1, 0, 100.0, reaped=50.0)], past_counts=False) == 0.0
    assert ledger.update([account(1, 0, 101.0, reaped=50.0), account(2, 1, 2.0)]) == 3.0
