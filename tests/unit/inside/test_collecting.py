"""Thresholds of the collector: out of reach while the thread that looks is at work, else the script's."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import pytest

from stoker.inside.collecting import BASE, NoCollections, at_once


@pytest.fixture
def collections() -> Iterator[NoCollections]:
    before, enabled = gc.get_threshold(), gc.isenabled()
    yield NoCollections()
    gc.set_threshold(*before)
    (gc.enable if enabled else gc.disable)()


def rest(collections: NoCollections, wait: Callable[[], object] = lambda: None) -> None:
    assert at_once((), collections.resting(wait)) == []


def out_of_reach() -> bool:
    return all(number >= BASE for number in gc.get_threshold())


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
    during: list[tuple[int, ...]] = []
    rest(collections, lambda: during.append(gc.get_threshold()))
    gc.set_threshold(7_000, 5, 5)
    rest(collections, lambda: during.append(gc.get_threshold()))
    assert during == [(50_000, 20, 30), (7_000, 5, 5)]


@pytest.mark.parametrize("rests", [True, False])
def test_one_of_them_is_changed_while_they_are_out_of_reach(collections: NoCollections, rests: bool) -> None:
    """`gc.set_threshold(n)` leaves the others as they are: as the script has them."""
    usual, during = gc.get_threshold(), []
    rest(collections)
    gc.set_threshold(9)
    if rests:
        rest(collections, lambda: during.append(gc.get_threshold()))
        assert during == [(9, *usual[1:])]
    collections.end()
    assert gc.get_threshold() == (9, *usual[1:])


def test_a_choice_right_before_the_rest_is_not_written_over(collections: NoCollections) -> None:
    rest(collections)
    steps = collections.resting(lambda: None)
    gc.set_threshold(50_000, 20, 30)
    at_once((), steps)
    collections.end()
    assert gc.get_threshold() == (50_000, 20, 30)


def test_a_script_that_puts_back_ours_gets_what_it_had_when_it_read_them(collections: NoCollections) -> None:
    usual = gc.get_threshold()
    rest(collections)
    read_meanwhile, during = gc.get_threshold(), []
    rest(collections, lambda: gc.set_threshold(0))
    rest(collections, lambda: gc.set_threshold(*read_meanwhile))
    rest(collections, lambda: during.append(gc.get_threshold()))
    assert during == [usual]


def test_a_long_call_is_made_with_the_scripts_thresholds(collections: NoCollections) -> None:
    usual = gc.get_threshold()
    rest(collections)
    assert collections.calling(lambda number: (number, gc.get_threshold()), 7) == (7, usual)
    assert out_of_reach()
    with pytest.raises(OSError):
        collections.calling(fails)
    assert gc.isenabled()
    collections.end()
    assert gc.get_threshold() == usual


def fails() -> None:
    raise OSError(28, "full")


def test_a_collector_that_is_switched_off_stays_off(collections: NoCollections) -> None:
    gc.disable()
    rest(collections)
    assert not gc.isenabled()
    rest(collections, gc.enable)
    assert gc.isenabled()
    rest(collections, gc.disable)
    assert not gc.isenabled()


def test_the_child_of_a_fork_gets_them_back(collections: NoCollections) -> None:
    """Also of one in the middle of noting what was found."""
    rest(collections)
    rest(collections, lambda: gc.set_threshold(50_000, 20, 30))
    child = os.fork()
    if not child:
        collections.end()
        os._exit(gc.get_threshold() == (50_000, 20, 30) and gc.isenabled())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert out_of_reach()
