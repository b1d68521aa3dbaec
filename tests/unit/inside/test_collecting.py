"""Thresholds of the collector: out of reach while the thread that looks is at work, else the script's."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from stoker.inside.collecting import OUT_OF_REACH, NoCollections
from stoker.inside.pulse import at_once


@pytest.fixture
def collections() -> Iterator[NoCollections]:
    before, enabled = gc.get_threshold(), gc.isenabled()
    yield NoCollections()
    gc.set_threshold(*before)
    (gc.enable if enabled else gc.disable)()


def rest(collections: NoCollections, wait: Callable[[], object] = lambda: None) -> None:
    assert at_once((), collections.resting(wait)) == []


def out_of_reach() -> bool:
    return gc.get_threshold()[0] == OUT_OF_REACH[0]


def test_at_rest_they_are_the_scripts(collections: NoCollections) -> None:
    usual, during = gc.get_threshold(), []
    for _ in range(3):
        rest(collections, lambda: during.append((gc.get_threshold(), gc.isenabled())))
        assert out_of_reach()
        assert gc.isenabled()
    assert during == [(usual, True)] * 3
    collections.end()
    assert gc.get_threshold() == usual


def test_what_the_script_chooses_stays(collections: NoCollections) -> None:
    """At rest, or while the other thread is at work."""
    rest(collections)
    rest(collections, lambda: gc.set_threshold(50_000, 20, 30))
    during: list[int] = []
    rest(collections, lambda: during.append(gc.get_threshold()[0]))
    gc.set_threshold(7_000, 5, 5)
    rest(collections, lambda: during.append(gc.get_threshold()[0]))
    assert during == [50_000, 7_000]
    gc.set_threshold(0)
    collections.end()
    assert gc.get_threshold()[0] == 0


def test_a_script_that_puts_back_ours_gets_its_own_soon(collections: NoCollections) -> None:
    usual = gc.get_threshold()
    rest(collections)
    read_meanwhile, during = gc.get_threshold(), []
    rest(collections, lambda: gc.set_threshold(*read_meanwhile))
    rest(collections, lambda: during.append(gc.get_threshold()))
    assert during == [usual]


def test_a_collector_that_is_switched_off_stays_off(collections: NoCollections) -> None:
    gc.disable()
    rest(collections)
    assert not gc.isenabled()
    rest(collections, gc.enable)
    assert gc.isenabled()
    rest(collections, gc.disable)
    assert not gc.isenabled()


def test_the_child_of_a_fork_gets_them_back(collections: NoCollections) -> None:
    usual = gc.get_threshold()
    rest(collections)
    collections.end()
    collections.end()
    assert gc.get_threshold() == usual
