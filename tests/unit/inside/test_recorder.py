"""The recorder alone: phases, ticks, stages, and what another thread reads of them."""

from __future__ import annotations

import pytest

from stoker.inside import wire
from stoker.inside.recorder import STOPPED_AFTER
from stoker.inside.wire import BACKWARD, DATA, ENV, FORWARD, GC, OPTIM, OTHER, SYNC


class Optimizer:
    pass


def totals(driven) -> dict[str, float]:
    sums = driven.recorder.snapshot().totals
    return {name: round(total, 6) for name, total in zip(wire.PHASES, sums, strict=False) if total > 1e-9}


@pytest.fixture
def recorder(driven):
    driven.recorder.adopt()
    return driven.recorder


def test_time_between_the_model_and_backward_is_the_loss(driven, recorder) -> None:
    driven.model(1.0)
    driven.clock.now += 2.0
    driven.spend(BACKWARD, 3.0)
    driven.clock.now += 4.0
    assert totals(driven) == {"other": 4.0, "forward": 1.0, "loss": 2.0, "backward": 3.0}


def test_time_between_the_model_and_an_env_step_is_not(driven, recorder) -> None:
    driven.model(1.0, graph=False)
    driven.clock.now += 2.0
    driven.spend(ENV, 3.0)
    assert totals(driven) == {"other": 2.0, "infer": 1.0, "env": 3.0}


@pytest.mark.parametrize(("phase", "name"), [(GC, "gc"), (SYNC, "sync")])
@pytest.mark.parametrize(("following", "gap"), [(BACKWARD, "loss"), (DATA, "other")])
def test_what_falls_into_the_gap_is_taken_out_of_it(phase, name, following, gap, driven, recorder) -> None:
    driven.model(1.0)
    driven.clock.now += 2.0
    start = driven.clock.now
    driven.clock.now += 0.5
    assert recorder.attribute(phase, start) == 0.5
    driven.clock.now += 1.0
    driven.spend(following, 1.0)
    found = totals(driven)
    assert (found[gap], found[name]) == (3.0, 0.5)


def test_closure_of_an_optimizer_is_not_its_own_time(driven, recorder) -> None:
    before = recorder.enter(OPTIM)
    driven.clock.now += 1.0
    driven.model(2.0)
    driven.spend(BACKWARD, 3.0)
    driven.clock.now += 4.0
    recorder.leave(before)
    assert totals(driven) == {"other": 1.0, "forward": 2.0, "backward": 3.0, "optim": 4.0}


def test_between_the_calls_of_its_closure_an_optimizer_is_at_work(driven, recorder) -> None:
    """LBFGS searches along a line."""
    before = recorder.enter(OPTIM)
    driven.clock.now += 1.0
    for _ in range(3):
        driven.model(2.0)
        driven.spend(BACKWARD, 3.0)
        driven.clock.now += 4.0
    recorder.leave(before)
    assert totals(driven) == {"other": 1.0, "forward": 6.0, "backward": 9.0, "optim": 12.0}


def test_a_failed_hook_leaves_nothing_open(driven, recorder) -> None:
    recorder.enter(FORWARD)
    driven.clock.now += 1.0
    recorder.recover()
    driven.clock.now += 1.0
    assert recorder.phase == OTHER
    assert sum(totals(driven).values()) == 2.0


def test_the_optimizer_that_steps_most_often_ticks(driven, recorder) -> None:
    generator, critic = Optimizer(), Optimizer()
    for _ in range(20):
        recorder.optimizer_stepped(generator)
        for _ in range(5):
            recorder.optimizer_stepped(critic)
    assert recorder.ticks == 100
    assert recorder.steps == [20, 100]


def test_two_that_step_equally_often_tick_once(driven, recorder) -> None:
    one, other = Optimizer(), Optimizer()
    for _ in range(30):
        recorder.optimizer_stepped(one)
        recorder.optimizer_stepped(other)
    assert recorder.ticks == 30


def test_long_turns_of_two_optimizers_tick_for_one(driven, recorder) -> None:
    """80 steps of the policy, then 80 of the value function, and again."""
    policy, value = Optimizer(), Optimizer()
    for _ in range(5):
        for optimizer in (policy, value):
            for _ in range(80):
                recorder.optimizer_stepped(optimizer)
    assert recorder.ticks == 400


def test_the_next_optimizer_ticks_when_the_last_has_stopped(driven, recorder) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(2000):
        recorder.optimizer_stepped(first)
    for _ in range(STOPPED_AFTER + 100):
        recorder.optimizer_stepped(second)
    assert recorder.ticks == 2000 + 100


def test_the_next_optimizer_ticks_when_the_last_is_gone(driven, recorder) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(50):
        recorder.optimizer_stepped(first)
    del first
    for _ in range(10):
        recorder.optimizer_stepped(second)
    assert recorder.ticks == 60


def test_runs_of_events(driven, recorder) -> None:
    for _ in range(2):
        for _ in range(3):
            recorder.env_stepped(4)
        driven.tick()
    assert recorder.symbols[1:] == ["e", 0, "e", 0]
    assert recorder.repeats[1:] == [3, 1, 3, 1]
    assert (recorder.env_steps, recorder.env_calls) == (24, 6)


def test_the_last_run_is_written_and_grows(driven, recorder) -> None:
    for count in (3, 2):
        for _ in range(count):
            driven.tick()
        driven.clock.now += 10
        driven.flush()
    assert driven.read().sequence == ((0, 5),)


def test_rank_is_kept_once_known(driven, recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    driven.flush()
    monkeypatch.delenv("RANK")
    driven.flush()
    assert (driven.read().rank, driven.read().world) == (3, 8)


def test_evaluation_starts_after_the_last_tick_and_ends_with_the_next_batch(driven, recorder) -> None:
    driven.tick(1.0)
    for _ in range(3):
        recorder.leave(recorder.data_begins())
        driven.model(1.0, graph=False, training=False)
    driven.clock.now += 0.25  # printing the score
    before = recorder.data_begins()
    recorder.leave(before)
    driven.model(1.0)
    assert [(stage, at.time - 1000.0) for stage, at in recorder.marks] == [
        ("train", 1.0),
        ("eval", 1.0),
        ("train", 4.25),
    ]


def test_an_evaluation_starts_after_the_training_took_down_its_workers(driven, recorder) -> None:
    driven.tick(1.0)
    driven.clock.now += 0.5
    recorder.batches_ended()
    for _ in range(3):
        recorder.leave(recorder.data_begins())
        driven.model(1.0, graph=False, training=False)
    driven.tick(1.0)
    recorder.leave(recorder.data_begins())
    driven.model(1.0, graph=False, training=False)
    recorder.leave(recorder.data_begins())
    begun = [at.time - 1000.0 for stage, at in recorder.marks if stage == "eval"]
    assert begun == [1.5, 5.5], "and where none were taken down since the last tick, there"


def test_the_batch_after_an_evaluation_in_memory_is_the_trainings(driven, recorder) -> None:
    driven.tick(1.0)
    driven.model(1.0, graph=False, training=False)
    driven.model(1.0, graph=False, training=False)
    before = recorder.data_begins()
    driven.clock.now += 0.5
    recorder.samples += 64
    recorder.leave(before)
    driven.model(1.0)
    (_, evaluated), (stage, resumed) = recorder.marks[-2:]
    assert (stage, resumed.time - evaluated.time, resumed.samples) == ("train", pytest.approx(2.0), 0)


def test_stages_that_flap_are_given_up(driven, recorder) -> None:
    driven.tick()
    for _ in range(wire.MARKS_MAX):
        recorder.named_eval_begins()
        recorder.named_eval_ends()
        driven.tick()
    assert recorder.stage is wire.TRAIN
    assert len(recorder.marks) <= wire.MARKS_MAX + 1


class Torn(list):
    """Sums as another thread finds them between two lines of `enter`: changed, while `since` is not yet."""

    looks = 0

    def copy(self):
        Torn.looks += 1
        return [total + (5.0 if Torn.looks < 4 and n == OTHER else 0.0) for n, total in enumerate(self)]


def test_a_look_from_outside_is_repeated_until_it_is_whole(driven, recorder) -> None:
    driven.clock.now += 1.0
    driven.spend(DATA, 2.0)
    recorder.totals = Torn(recorder.totals)
    seen, _, _ = recorder.snapshot_from_outside()
    assert sum(seen.totals) == pytest.approx(3.0)
    assert Torn.looks == 4


def test_a_new_process_begins_from_nothing(driven, recorder) -> None:
    driven.model(1.0)
    driven.tick()
    driven.agent.forked()
    assert (recorder.owner, recorder.ticks, recorder.steps, sum(recorder.totals)) == (None, 0, [], 0.0)
    assert recorder.stage is wire.STARTUP


def test_time_between_two_calls_without_gradients_is_no_loss(driven, recorder) -> None:
    driven.model(0.001, graph=False)
    driven.clock.advance(0.005)
    driven.model(0.001, graph=False)
    driven.clock.advance(0.003)
    driven.model(0.002)
    driven.clock.advance(0.004)
    driven.model(0.001, graph=False)
    driven.clock.advance(0.006)
    driven.spend(BACKWARD, 0.001)
    assert totals(driven) == {
        "infer": 0.003,
        "other": 0.008,
        "forward": 0.002,
        "loss": 0.01,
        "backward": 0.001,
    }
