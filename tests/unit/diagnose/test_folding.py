"""Small lines are told by the line that leads to them, large ones by themselves."""

from __future__ import annotations

from typing import Any

from stoker.diagnose.folding import TOLD_MIN, fold, told_frac
from stoker.diagnose.places import line_shares
from stoker.diagnose.window import training_window
from stoker.model.record import Line, Place, Sampled

Make = Any


def line(text: str) -> Line:
    function, _, number = text.partition(":")
    return ("/home/me/project/train.py", int(number), function)


def stack(text: str) -> tuple[Line, ...]:
    """`read:3 sample:9 main:1`, from the inside out."""
    return tuple(line(part) for part in text.split())


def folded(looks: dict[str, int]) -> dict[str, int]:
    """Looks at each line after folding."""
    stacks = {stack(text): count for text, count in looks.items()}
    found: dict[str, int] = {}
    for lines, depth in fold(stacks).items():
        name = f"{lines[depth][2]}:{lines[depth][1]}"
        found[name] = found.get(name, 0) + stacks[lines]
    return found


def test_three_lines_that_tell_enough_stay_as_they_are() -> None:
    looks = {"read:3 main:1": 50, "log:4 main:1": 30, "f:7 g:8 main:1": 10, "g:9 main:1": 10}
    assert folded(looks) == {"read:3": 50, "log:4": 30, "f:7": 10, "g:9": 10}


def test_small_lines_go_to_their_caller() -> None:
    looks = {f"sample:{n} update:30 main:1": 10 for n in range(6)} | {
        f"add:{n} store:40 main:1": 10 for n in range(2)
    }
    found = folded({**looks, "big:5 other:50 main:1": 40})
    assert told_frac(list(found.values())) >= TOLD_MIN
    assert found["big:5"] == 40
    assert found["update:30"] >= 40


def test_a_caller_waits_for_the_small_lines_it_leads_to() -> None:
    """Else the first and smallest of them would take it along, further out."""
    angle = {f"norm:{n} angle:20 shaped:30 loop:40 main:1": 4 for n in range(50, 56)}
    looks = {**angle, "smooth:5 shaped:31 loop:40 main:1": 14, "contact:6 shaped:32 loop:40 main:1": 14}
    found = folded({**looks, "seed:8 main:1": 4, "read:9 loop:40 main:1": 4})
    assert found["angle:20"] >= 20


def test_no_line_through_which_all_comes_is_told() -> None:
    looks = {f"f{n}:{n} main:1 module:2": 10 for n in range(20)}
    found = folded(looks)
    assert "main:1" not in found
    assert "module:2" not in found
    assert len(found) == 20


def test_a_line_that_all_looks_fell_into() -> None:
    assert folded({"f:3 main:1": 9}) == {"f:3": 9}
    assert fold({}) == {}


def test_other_is_folded_and_other_phases_are_not(make: Make) -> None:
    stacks = [stack(f"sample:{n} update:{30 + n // 5} main:1") for n in range(10)]
    looks = tuple(
        Sampled(phase, "train", Place(lines[0], lines[0]), 10, lines[1:])
        for phase in ("other", "loss")
        for lines in stacks
    )
    record = make.training({"other": 0.5, "loss": 0.5}, sampled=looks)
    found = line_shares(record, training_window(record).content)
    other = [share for share in found if share.phase == "other"]
    assert sum(share.pct for share in other[:3]) >= 0.8 * 50
    assert other[0].inclusive
    assert other[0].place.leaf is not None
    assert other[0].place.leaf[2] == "update"
    assert other[0].place.user == other[0].place.leaf
    assert len([share for share in found if share.phase == "loss" and not share.inclusive]) == 10


def test_a_line_is_under_what_had_called_it_at_every_look(make: Make) -> None:
    looks = tuple(
        Sampled("other", "train", Place(lines[0], lines[0]), 10, lines[1:])
        for lines in (stack("mean:4 encode:9 known:2 main:1"), stack("mean:4 known:2 main:1"))
    )
    record = make.training({"other": 1.0}, sampled=looks)
    (mean,) = line_shares(record, training_window(record).content)
    assert mean.under == (line("known:2"), line("main:1"))


def test_of_a_stack_too_deep_to_be_kept_the_users_line_is_still_known(make: Make) -> None:
    """The lines furthest out are cut off: what is left is all of a library."""
    user = ("/home/me/project/fit.py", 7, "main")
    looks = tuple(
        Sampled("other", "train", Place(line(f"callback:{n}"), user), 1, stack(f"event:{n % 2} fit:3"))
        for n in range(10)
    )
    record = make.training({"other": 1.0}, sampled=looks)
    found = line_shares(record, training_window(record).content)
    assert {share.place for share in found if share.inclusive} >= {Place(line("event:0"), user)}
    assert {share.place.user for share in found} == {user}


def test_a_comprehension_is_part_of_its_line(make: Make) -> None:
    inner, outer = line("sample.<locals>.<listcomp>:9"), line("sample:9")
    looks = (
        Sampled("data", "train", Place(inner, inner), 6, (outer, line("main:1"))),
        Sampled("data", "train", Place(outer, outer), 4, (line("main:1"),)),
    )
    record = make.training({"data": 1.0}, sampled=looks)
    (share,) = line_shares(record, training_window(record).content)
    assert (share.place, share.samples) == (Place(outer, outer), 10)
