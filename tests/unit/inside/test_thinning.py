"""Where ticks are short, few stretches are looked at closely; what the others hold is told from those."""

from __future__ import annotations

from functools import partial, wraps
from types import SimpleNamespace

import pytest

from stoker.inside import thinning, wire
from stoker.inside.hooks.optimizers import ClipHook
from stoker.inside.thinning import CLOSELY_MIN, TICKS_MIN
from stoker.inside.wire import BACKWARD, DATA, ENV, OPTIM, OTHER, THIN


class Loop:
    """Rollouts of slow acting among short updates, as an on-policy trainer makes them."""

    def __init__(self, driven) -> None:
        self.driven, self.recorder = driven, driven.recorder
        self.true: dict[str, float] = dict.fromkeys(wire.PHASES, 0.0)
        self.recorder.adopt()

    def _spent(self, name: str, seconds: float) -> float:
        self.true[name] += seconds
        return seconds

    def rollout(self, steps: int = 8) -> None:
        for _ in range(steps):
            self.driven.model(self._spent("infer", 0.0005), graph=False)
            length = self._spent("env", 0.0002)
            work = partial(self.driven.clock.advance, length)
            self.driven.spend_on(ENV, work, ends=lambda _: self.recorder.env_stepped(1))

    def act_without_env_calls(self, steps: int = 20) -> None:
        """An environment nobody has named: all of it one stretch, with the first update."""
        for _ in range(steps):
            self.driven.model(self._spent("infer", 0.001), graph=False)
            self.driven.clock.advance(self._spent("other", 0.0005))

    def update(self) -> None:
        self.driven.model(self._spent("forward", 0.0004))
        self.driven.spend(BACKWARD, self._spent("backward", 0.0006))
        self.driven.step(self._spent("optim", 0.0001))

    def run(self, iterations: int, act) -> dict[str, float]:
        """Found and true shares, from a point where the loop is known."""
        before, self.true = self.found(), dict.fromkeys(wire.PHASES, 0.0)
        for _ in range(iterations):
            act()
            for _ in range(10):
                self.update()
            if self.recorder.thinning.reviewed is None or self.driven.clock.now - self.last > 1.0:
                self.last = self.driven.clock.now
                self.driven.flush()
        after = self.found()
        return {name: after[name] - before[name] for name in wire.PHASES}

    last = 0.0

    def found(self) -> dict[str, float]:
        return dict(
            zip(
                wire.PHASES,
                self.recorder.thinning.spread(self.recorder.snapshot().totals),
                strict=True,
            )
        )


@pytest.fixture
def loop(driven) -> Loop:
    return Loop(driven)


@pytest.mark.parametrize("act", ["rollout", "act_without_env_calls"])
def test_shares_are_those_of_the_whole(loop: Loop, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "SHARE_MAX", 0.0005)
    loop.run(1000, getattr(loop, act))
    assert loop.recorder.thinning.closely_frac < 0.3
    found = loop.run(1000, getattr(loop, act))
    total = sum(loop.true.values())
    assert sum(found.values()) == pytest.approx(total)
    for name in wire.PHASES:
        assert found[name] / total == pytest.approx(loop.true[name] / total, abs=0.01), name
    assert found["env"] == pytest.approx(loop.true["env"])


def test_a_rare_long_pause_is_other_even_if_never_looked_at(driven) -> None:
    """A plot every thousand ticks: forward and backward do not grow by it."""
    loop, state = Loop(driven), driven.recorder.thinning
    loop.run(200, loop.update)
    state.closely_frac, state.twice_mean = CLOSELY_MIN, 100
    loop.run(100, loop.update)
    while driven.recorder.phase != THIN or driven.recorder.left < 3:
        loop.update()
    before, loop.true = loop.found(), dict.fromkeys(wire.PHASES, 0.0)
    driven.clock.advance(loop._spent("other", 1.0))
    loop.update()
    driven.recorder.replay()
    state.settle()
    after = loop.found()
    for name in ("other", "forward", "backward", "optim"):
        assert after[name] - before[name] == pytest.approx(loop.true[name], abs=0.03), name


def test_the_window_ends_with_sums_that_are_settled(driven) -> None:
    """What was passed over in the last second is given to the phases in the written record, too."""
    loop = Loop(driven)
    loop.run(300, loop.update)
    driven.flush()
    while driven.recorder.phase != THIN or driven.recorder.left < 3:
        loop.update()
    driven.clock.advance(2.0)
    loop.update()
    driven.recorder.training_ended()
    (after,) = (sums for stage, sums in driven.recorder.marks if stage is wire.AFTER)
    assert driven.recorder.thinning.spread(after.totals)[OTHER] == pytest.approx(2.0, abs=0.05)


def test_a_hook_that_fails_in_a_stretch_passed_over_counts_nothing_twice(driven) -> None:
    loop, recorder = Loop(driven), driven.recorder
    loop.run(300, loop.update)
    while recorder.phase != THIN or recorder.left < 3:
        loop.update()
    loop.update()
    loop.update()
    recorder.recover()
    loop.update()
    recorder.replay()
    recorder.thinning.settle()
    snapshot = recorder.snapshot()
    assert snapshot.totals[THIN] > -1e-9
    assert sum(recorder.thinning.spread(snapshot.totals)) == pytest.approx(snapshot.time - recorder.origin)


def test_hooks_that_take_longer_after_a_pause_are_not_taken_for_other(driven) -> None:
    """As in a real process: the first stretch that is looked at after others pays for it, in `other`."""
    loop, state, paused = Loop(driven), driven.recorder.thinning, True
    for _ in range(TICKS_MIN):
        loop.update()
    state.active, state.closely_frac, state.twice_mean = True, 1 / 8, 60
    state.let_go("nobody")
    taken = []
    for _ in range(5000):
        closely = driven.recorder.phase == OTHER
        if closely and paused:
            driven.clock.advance(0.0005)
        taken.append(closely)
        paused = not closely
        loop.update()
    driven.recorder.replay()
    state.settle()
    rows = "".join("c" if closely else "." for closely in taken[20:]).strip("c").split(".")
    assert min(len(row) for row in rows if row) == thinning.IN_A_ROW
    (shares,) = (shares for shares in state.closely.values() if sum(shares) > 0)
    assert shares[thinning.SPLIT.index(OTHER)] / sum(shares) < 0.02


def test_shares_stay_right_where_somebody_looks_at_everything_now_and_then(driven) -> None:
    """The lead does, for some ticks at a time: an earlier sum once moved on with those of now, and the phases
    of a loop of three optimizers made up 160 % of its time."""
    loop, recorder, state = Loop(driven), driven.recorder, driven.recorder.thinning
    held = 0

    def sample() -> None:
        nonlocal held
        if held == 0 and recorder.ticks % 41 == 0 and state.active:
            state.hold("a sample")
            held = 10
        elif held:
            held -= 1
            if not held:
                state.let_go("a sample")

    recorder.at_lead = sample
    loop.run(400, loop.rollout)
    found = loop.run(1000, loop.rollout)
    total = sum(loop.true.values())
    assert sum(found.values()) == pytest.approx(total)
    for name in wire.PHASES:
        assert found[name] / total == pytest.approx(loop.true[name] / total, abs=0.01), name


def test_all_who_hold_it_must_let_go(driven) -> None:
    recorder, state = thinned(driven), driven.recorder.thinning
    state.hold("a sample of the lead")
    state.hold("a deep window")
    state.let_go("a deep window")
    driven.step(0.001)
    assert (recorder.deferring, recorder.phase) == (False, OTHER)
    state.let_go("a sample of the lead")
    assert recorder.deferring


def test_counts_and_tick_times_stay_exact(loop: Loop, driven) -> None:
    loop.run(500, loop.rollout)
    driven.flush()
    record = driven.read()
    assert record.last is not None
    assert (record.last.ticks, record.last.env_steps, record.last.backwards) == (5000, 4000, 5000)
    assert record.seconds[-1].closely_frac < 0.7
    by_length = {round(tick.duration_s, 5) for tick in record.ticks[-50:]}
    assert by_length == {0.0011, 0.0067}
    assert {tick.phase_s is None for tick in record.ticks} == {True, False}


def test_acting_is_scaled_with_inference(loop: Loop) -> None:
    loop.run(1000, loop.rollout)
    loop.recorder.thinning.settle()
    assert loop.recorder.acting() == pytest.approx(loop.recorder.totals[wire.INFER], rel=0.02)


def test_long_ticks_are_all_looked_at(driven) -> None:
    for _ in range(3 * TICKS_MIN):
        driven.tick(seconds=0.1)
        driven.flush()
    assert not driven.recorder.thinning.active


def thinned(driven):
    """A loop of which few stretches are looked at, standing at the start of one that is passed over."""
    state = driven.recorder.thinning
    driven.recorder.adopt()
    state.active, state.closely_frac, state.twice_mean = True, CLOSELY_MIN, 1000
    driven.step(0.001)
    state.let_go("nobody")
    driven.step(0.001)
    driven.step(0.001)
    assert driven.recorder.phase == THIN
    return driven.recorder


def test_however_many_are_passed_over_they_are_told_of_in_groups(driven) -> None:
    recorder = thinned(driven)
    waiting = []
    for _ in range(20 * thinning.TOLD_TOGETHER):
        driven.step(0.001)
        waiting.append(len(recorder.log))
    assert max(waiting) <= 2 * thinning.TOLD_TOGETHER + thinning.IN_A_ROW


def test_what_waits_to_be_told_of_is_counted(driven) -> None:
    """A training that is killed never tells of the last; and its speed would be that of a second ago."""
    recorder = thinned(driven)

    def ends(_env) -> None:
        recorder.env_stepped(4)

    ends.counts = {id(driven.optimizer): 4}
    before = recorder.ticks + sum(1 for entry in recorder.log)
    for _ in range(10):
        driven.spend_on(ENV, partial(driven.clock.advance, 0.001), ends=ends)
        driven.step(0.001)
    assert (recorder.ticks, recorder.env_steps) < (before, 40), "they wait"
    seen, env_calls, steps = recorder.snapshot_from_outside()
    assert (seen.ticks, seen.env_steps, env_calls, steps) == (before + 10, 40, 10, [before + 10])
    recorder.replay()
    assert (recorder.ticks, recorder.env_steps, recorder.env_calls) == (before + 10, 40, 10)
    assert recorder.snapshot_from_outside()[0].ticks == before + 10


def test_what_was_drawn_for_short_ticks_does_not_last_where_they_become_long(driven) -> None:
    recorder, state = thinned(driven), driven.recorder.thinning
    for _ in range(TICKS_MIN):
        driven.step(0.001)
    recorder.left, state.more = 64, 500
    state.review()
    driven.step(10.0)
    recorder.replay()
    state.review()
    assert state.closely_frac == 1.0
    driven.step(10.0)
    assert recorder.phase == OTHER


def test_a_step_inside_a_step_is_one_tick(driven) -> None:
    recorder = thinned(driven)
    before = recorder.snapshot().ticks
    driven.step(0.001, inside=lambda: driven.step(0.001))
    assert recorder.snapshot().ticks == before + 1


def test_a_step_inside_backward_ends_no_stretch(driven) -> None:
    recorder = thinned(driven)
    recorder.replay()
    recorder.left, recorder.thinning.more = 1, 0  # the next end would be followed by a close look
    driven.spend_on(BACKWARD, lambda: driven.step(0.001))
    assert recorder.phase == THIN
    driven.step(0.001)
    assert recorder.phase == OTHER


def test_what_may_be_an_evaluation_is_looked_at_whole(driven) -> None:
    recorder = thinned(driven)
    recorder.thinning.look_closely()
    driven.spend(DATA, 0.001)
    driven.model(0.003, graph=False, training=False)
    before = recorder.data_begins()
    recorder.leave(before)
    assert recorder.stage is wire.EVAL
    assert recorder.totals[wire.INFER] == pytest.approx(0.003)


@pytest.mark.parametrize("training", [True, False])
def test_an_evaluation_in_a_stretch_looked_at_anyway_is_no_share_of_it(driven, training: bool) -> None:
    """Tensors in memory: that it was one is known when the next batch is asked for."""
    recorder = thinned(driven)
    while recorder.phase == THIN:
        driven.step(0.001)
    driven.step(0.001)  # of the first in a row no shares are taken
    driven.model(0.3, graph=False, training=training)
    recorder.leave(recorder.data_begins())
    assert recorder.stage is (wire.TRAIN if training else wire.EVAL)
    driven.model(0.001)
    driven.step(0.001)
    recorder.replay()
    assert recorder.stage is wire.TRAIN
    known = dict(zip(thinning.SPLIT, recorder.thinning.known(), strict=True))
    assert known[wire.INFER] == pytest.approx(0.3 if training else 0.0)


def test_time_not_yet_given_to_phases_is_spread_as_what_is_known(driven) -> None:
    totals, state = [0.0] * (THIN + 1), driven.recorder.thinning
    assert state.spread([0.0] * THIN + [2.0])[OTHER] == 2.0
    totals[wire.INFER], totals[BACKWARD], totals[ENV], totals[THIN] = 1.0, 3.0, 5.0, 8.0
    first = state.spread(totals)
    assert (first[wire.INFER], first[BACKWARD], first[ENV]) == (3.0, 9.0, 5.0), "nothing is known yet"
    driven.recorder.marks.append((wire.EVAL, None))
    assert state.spread(totals)[BACKWARD] == 11.0, "that was an evaluation"
    driven.recorder.marks.clear()
    for length in (-8, -7):
        state.closely[length] = [0.1 if one in (wire.FORWARD, BACKWARD) else 0.0 for one in thinning.SPLIT]
    shared = state.spread(totals)
    assert (shared[wire.FORWARD], shared[BACKWARD], shared[ENV], shared[wire.INFER]) == (4.0, 7.0, 5.0, 1.0)


def test_a_look_into_a_stretch_passed_over_finds_its_phase_on_the_stack(driven) -> None:
    pulse = driven.agent.pulse
    code = object()
    driven.agent.codes[id(code)] = BACKWARD
    assert pulse._on_stack([(object(), 1, 0), (code, 2, 0), (object(), 3, 0)]) == BACKWARD
    assert pulse._on_stack([(object(), 1, 0)]) == OTHER
    step = object()
    driven.agent.codes[id(step)] = OPTIM
    assert pulse._on_stack([(object(), 1, 0), (step, 2, 0)]) == OPTIM
    looked = [(code, 1, 0), (object(), 2, 0), (step, 3, 0)]
    assert pulse._on_stack(looked) == BACKWARD, "in the closure of a step"


def test_a_look_into_clipping_finds_the_optimizer(driven) -> None:
    """By the code of the function itself: that of its decorator is shared with others."""

    def clip_grad_norm_() -> None: ...

    @wraps(clip_grad_norm_)
    def decorated() -> None: ...

    utils = SimpleNamespace(clip_grad_norm_=decorated)
    ClipHook(driven.agent).install(SimpleNamespace(nn=SimpleNamespace(utils=utils)))
    assert utils.clip_grad_norm_ is not decorated
    assert driven.agent.pulse._on_stack([(clip_grad_norm_.__code__, 1, 0), (object(), 2, 0)]) == OPTIM
    assert driven.agent.pulse._on_stack([(decorated.__code__, 1, 0)]) == OTHER


def test_a_look_between_model_and_backward_finds_the_loss(driven) -> None:
    recorder, pulse = thinned(driven), driven.agent.pulse

    def looked() -> int:
        pulse.look()
        pulse.read_stacks()
        return pulse.recent[-1][1]

    assert looked() == OTHER
    driven.model(0.001, graph=False)
    assert looked() == OTHER, "no loss comes of it"
    driven.model(0.001)
    assert looked() == wire.LOSS
    driven.spend(BACKWARD, 0.001)
    assert looked() == OTHER
    driven.model(0.001)
    driven.spend(ENV, 0.001)
    assert looked() == OTHER
    driven.model(0.001)
    driven.step(0.001)
    assert looked() == OTHER
    assert recorder.phase == THIN


def test_the_place_tells_inference_from_forward(driven) -> None:
    pulse = driven.agent.pulse
    thin = 100  # see pulse.THIN_OTHER
    assert pulse._phase_of(wire.INFER, place=7) == wire.INFER
    assert pulse._phase_of(thin + wire.FORWARD, place=7) == wire.INFER
    assert pulse._phase_of(thin + wire.FORWARD, place=8) == wire.FORWARD
    assert pulse._phase_of(thin + OPTIM, place=7) == OPTIM
    assert pulse._phase_of(thin + OPTIM, place=9) == OPTIM, "never seen while phases were told apart"
    assert pulse._phase_of(thin + OTHER, place=9) == OTHER


def test_a_close_look_that_begins_inside_a_step_keeps_tick_and_time(driven) -> None:
    recorder = thinned(driven)
    before = recorder.snapshot()
    driven.step(0.001, inside=recorder.thinning.look_closely)
    after = recorder.snapshot()
    assert after.ticks == before.ticks + 1
    assert sum(after.totals) - sum(before.totals) == pytest.approx(after.time - before.time)
    assert recorder.tick_end == after.time


def test_a_collection_while_the_log_is_told_leaves_earlier_sums_alone(driven) -> None:
    recorder = thinned(driven)
    driven.step(0.002)
    now, told, tick_end = driven.clock.now, recorder.optimizer_stepped, driven.clock.now

    def collected(subject: object) -> None:
        driven.clock.advance(0.5)
        recorder.attribute(wire.GC, now)
        told(subject)

    recorder.log[-1] = (collected, *recorder.log[-1][1:])
    recorder.replay()
    assert recorder.tick_end == tick_end
    assert sum(recorder.snapshot().totals) == pytest.approx(driven.clock.now - recorder.origin)


def test_sums_settled_between_two_ends_are_not_settled_again(driven) -> None:
    """Nothing but what is passed over goes on meanwhile: the copy made for the last end would be used."""
    recorder = thinned(driven)
    state = recorder.thinning
    state.closely[0] = [1.0] * len(thinning.SPLIT)
    for _ in range(3):
        driven.step(0.001)
        recorder.replay()
        state.settle()
    assert sum(recorder.snapshot().totals) == pytest.approx(driven.clock.now - recorder.origin)
    assert min(recorder.snapshot().totals) > -1e-9
