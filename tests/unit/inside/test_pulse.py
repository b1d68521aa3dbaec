"""Looking at the training thread, and leaving no trace of it."""

from __future__ import annotations

import concurrent.futures
import dis
import gc
import multiprocessing.connection
import multiprocessing.pool
import multiprocessing.process
import sys
import threading
from types import SimpleNamespace

import pytest

from stoker.inside import pulse, wire
from stoker.inside.places import LIBRARY, PLUMBING, USER, Places
from stoker.inside.pulse import SAMPLE_S, WAITING_DEPTH, Pulse, stack_of


@pytest.fixture
def quiet_pulse(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulse, "sleep", lambda seconds: None)
    watch = Pulse(looked_at(), Places(), lambda: None, {})
    yield watch
    watch.collections.end()


def looked_at() -> SimpleNamespace:
    """A recorder of this thread."""
    recorder = SimpleNamespace(owner=threading.get_ident(), phase=wire.OTHER, want_shapes=[False])
    recorder.after_model, recorder.modeled, recorder.collected = False, False, ()
    return recorder


def test_a_script_that_puts_back_what_it_found_in_a_nap_gets_what_it_had(quiet_pulse, monkeypatch) -> None:
    before, found = sys.getswitchinterval(), []
    monkeypatch.setattr(pulse, "sleep", lambda seconds: found.append(sys.getswitchinterval()))
    try:
        quiet_pulse._look_at(pulse.perf_counter() + 1.0)
        sys.setswitchinterval(found[0])
        quiet_pulse._look_at(pulse.perf_counter() + 1.0)
        assert sys.getswitchinterval() == before
    finally:
        sys.setswitchinterval(before)


def test_where_proc_does_not_tell_of_threads_looks_go_on(quiet_pulse, monkeypatch) -> None:
    asked = []

    def missing(path: str) -> str:
        asked.append(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(pulse.os, "readlink", missing)
    quiet_pulse.stopping = True
    quiet_pulse.start()
    assert quiet_pulse.gone.acquire(timeout=10)
    assert asked == ["/proc/thread-self"]
    assert quiet_pulse.error is None


def test_a_nap_puts_the_switch_interval_back(quiet_pulse) -> None:
    before = sys.getswitchinterval()
    quiet_pulse._look_at(pulse.perf_counter() + 1.0)
    assert sys.getswitchinterval() == before


def test_a_fork_in_the_middle_of_a_nap_puts_it_back_too(quiet_pulse, monkeypatch) -> None:
    """The child has no pulse thread that would."""
    before, during = sys.getswitchinterval(), []

    def forked(seconds: float) -> None:
        during.append(sys.getswitchinterval())
        quiet_pulse.wake()
        during.append(sys.getswitchinterval())

    monkeypatch.setattr(pulse, "sleep", forked)
    quiet_pulse._look_at(pulse.perf_counter() + 1.0)
    assert during[0] < before
    assert during[1] == sys.getswitchinterval() == before


def test_an_interval_the_script_chose_meanwhile_stays(quiet_pulse, monkeypatch) -> None:
    before = sys.getswitchinterval()
    monkeypatch.setattr(pulse, "sleep", lambda seconds: sys.setswitchinterval(0.02))
    try:
        quiet_pulse._look_at(pulse.perf_counter() + 1.0)
        assert sys.getswitchinterval() == pytest.approx(0.02)
    finally:
        sys.setswitchinterval(before)


def test_the_moment_of_a_look_does_not_depend_on_when_the_lock_came(monkeypatch) -> None:
    """The long sleep ends early enough; what is left is slept with a short switch interval."""
    clock = SimpleNamespace(now=100.0, late_s=0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds
        if sys.getswitchinterval() > 10 * pulse.SWITCH_S:
            clock.now += clock.late_s

    monkeypatch.setattr(pulse, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(pulse, "sleep", sleep)
    watch, ends = Pulse(looked_at(), Places(), lambda: None, {}), []
    watch.held = SimpleNamespace(acquire=lambda _, seconds: sleep(seconds))
    for late_s in (0.0, 0.004, 0.001, 0.005, 0.0):
        clock.late_s, moment = late_s, clock.now + watch._gap_s()
        watch._sleep_before(moment)
        assert clock.now < moment
        watch._look_at(moment)
        ends.append(watch.stacks[-1][0] - moment)
    watch.collections.end()
    assert ends == pytest.approx([0.0] * 5)


def test_beside_a_thread_that_wants_the_interpreter_it_is_handed_over_as_ever(
    quiet_pulse, monkeypatch
) -> None:
    """Sooner, and the training would run faster for it: the look comes when the lock does."""
    slept: list[float] = []
    monkeypatch.setattr(pulse, "perf_counter", lambda: 100.0)
    monkeypatch.setattr(pulse, "sleep", lambda seconds: pytest.fail("a nap"))
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: pytest.fail("handed over sooner"))
    quiet_pulse.held = SimpleNamespace(acquire=lambda _, seconds: slept.append(seconds))
    quiet_pulse._sleep_before(100.5, True)
    quiet_pulse._look_at(100.5, True)
    assert slept == [0.5]
    assert len(quiet_pulse.stacks) == 1


def test_a_late_lock_says_nothing_of_calls_where_another_thread_had_it(quiet_pulse, monkeypatch) -> None:
    begins = [(code("/home/me/train.py"), 7, -1), (code("/home/me/train.py"), 9, -1)]
    monkeypatch.setattr(pulse, "_frames", lambda thread: iter(begins))
    monkeypatch.setattr(quiet_pulse.places, "begins", lambda stack: True)
    for shared in (False, True):
        quiet_pulse._look_at(pulse.perf_counter() - 1.0, shared)
    assert [len(stack) for _, _, _, stack in quiet_pulse.stacks] == [1, 2]


@pytest.mark.parametrize(
    ("notes", "looked"),
    [
        ([(5.0, 7), (9.0, 7)], True),
        ([(1.0, 7), (2.0, 7), (5.0, 7), (9.0, 7)], True),
        ([(5.0, 7), (6.0, 7)], False),
        ([(5.0, 8), (9.0, 8)], False),
        ([(5.0, 7)], False),
        ([], False),
    ],
)
def test_a_look_right_after_a_collection_it_was_meant_for_is_the_collectors(
    quiet_pulse, monkeypatch, notes: list[tuple[float, int]], looked: bool
) -> None:
    monkeypatch.setattr(pulse, "_frames", lambda thread: iter([(code("/home/me/train.py"), 7, -1)]))
    quiet_pulse.recorder.owner, quiet_pulse.recorder.collected = 7, notes
    quiet_pulse.look(8.0)
    assert quiet_pulse.stacks[0][1] == (wire.GC if looked else wire.OTHER)
    quiet_pulse.read_stacks()
    assert quiet_pulse.recent[0][1] == (wire.GC if looked else wire.OTHER)


def test_a_look_stands_where_the_nap_ended(quiet_pulse, monkeypatch) -> None:
    """State and stack are of one moment: nobody else runs between the nap and them."""
    recorder = quiet_pulse.recorder
    monkeypatch.setattr(pulse, "sleep", lambda seconds: setattr(recorder, "phase", wire.ENV))
    quiet_pulse._look_at(pulse.perf_counter() + 1.0)
    assert [phase for _, phase, *_ in quiet_pulse.stacks] == [wire.ENV]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no instruction begins a function")
@pytest.mark.parametrize(("late_s", "line"), [(0.02, 9), (0.0, 2)])
def test_where_a_call_held_the_lock_the_next_function_is_not_at_work_yet(
    quiet_pulse, monkeypatch, late_s: float, line: int
) -> None:
    """What held it was a call that came before: the line that calls is nearer to it."""
    resumes = next(one.offset for one in dis.get_instructions(counting) if one.opname == "RESUME")
    stack = [(counting.__code__, 2, resumes), (code("/home/me/train.py"), 9, -1)]
    monkeypatch.setattr(pulse, "_frames", lambda thread: iter(stack))
    monkeypatch.setattr(pulse, "perf_counter", lambda: 100.0)
    quiet_pulse.look(100.0 - late_s)
    assert quiet_pulse.stacks[0][3][0][1] == line


def test_a_moment_that_has_passed_is_looked_at_without_a_nap(quiet_pulse, monkeypatch) -> None:
    monkeypatch.setattr(pulse, "sleep", lambda seconds: pytest.fail("it naps"))
    quiet_pulse._look_at(pulse.perf_counter() - 0.01)
    assert len(quiet_pulse.stacks) == 1


def test_where_the_lock_comes_at_once_the_nap_is_short(quiet_pulse, monkeypatch) -> None:
    monkeypatch.setattr(pulse, "perf_counter", lambda: 100.0)
    slept: list[float] = []
    quiet_pulse.held = SimpleNamespace(acquire=lambda _, seconds: slept.append(seconds))
    for _ in range(1000):
        quiet_pulse.late_s *= 0.99
    quiet_pulse._sleep_before(101.0)
    assert 1.0 - slept[-1] == pytest.approx(pulse.NAP_MIN_S, abs=1e-4)


def test_a_dear_look_makes_looks_rare(quiet_pulse) -> None:
    for _ in range(100):
        quiet_pulse._limit(0.003)
    assert quiet_pulse.interval_s > 10 * SAMPLE_S
    for _ in range(200):
        quiet_pulse._limit(0.0001)
    assert quiet_pulse.interval_s == pytest.approx(SAMPLE_S)


def code(filename: str):
    return compile("0", filename, "eval")


@pytest.mark.parametrize(
    ("filename", "kind"),
    [
        ("/home/me/train.py", USER),
        ("<stdin>", USER),
        ("<string>", PLUMBING),
        ("<frozen importlib._bootstrap>", PLUMBING),
        (sys.modules["json"].__file__ if "json" in sys.modules else __import__("json").__file__, PLUMBING),
        ("/other/venv/lib/python3.9/site-packages/torch/nn/modules/linear.py", PLUMBING),
        ("/other/venv/lib/python3.9/site-packages/stable_baselines3/ppo/ppo.py", LIBRARY),
        ("/usr/lib/python3/dist-packages/numpy/core/x.py", PLUMBING),
        (pulse.__file__, PLUMBING),
        ("/tmp/torchinductor_me/xy/cxyz.py", PLUMBING),
    ],
)
def test_whose_code_it_is(filename: str, kind: int) -> None:
    assert Places().kind(code(filename)) == kind


@pytest.mark.parametrize("name", ["__torch_function__", "__torch_dispatch__"])
def test_what_every_operation_goes_through_is_plumbing_where_it_is_a_librarys(name: str) -> None:
    places, library, own = Places(), code("/env/site-packages/lib/tensors.py"), code("/home/me/tensors.py")
    assert [places.kind(one) for one in (library, own)] == [LIBRARY, USER]
    passed = [places.kind(one.replace(co_name=name)) for one in (library, own)]
    assert passed == [PLUMBING, USER]


def test_who_waits_for_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by the innermost code: the standard library's, not a file of the same name."""
    places = Places()
    recv = multiprocessing.connection.Connection._recv.__code__
    lock, event = threading.Condition.wait.__code__, threading.Event.wait.__code__
    pool, mine = multiprocessing.pool.ApplyResult.wait.__code__, code("/home/me/train.py")
    future = concurrent.futures.Future.result.__code__

    def waits(*codes) -> bool:
        return places.waits([(one, 1, 0) for one in codes])

    monkeypatch.setattr(multiprocessing.process, "_children", {"a process"})
    assert waits(recv, mine)
    assert waits(lock, event, pool, mine)
    assert waits(lock, future, mine)
    assert not waits(lock, event, mine), "a thread of its own may be waited for"
    monkeypatch.setattr(multiprocessing.process, "_children", set())
    assert not waits(lock, event, pool, mine), "a pool of threads"
    assert not waits(lock, future, mine), "the same"
    assert not waits(pool, mine), "it does something"
    assert not waits(code("/home/me/threading.py"), mine)
    assert not waits(mine)
    assert not waits(lock)


def test_looks_that_waited_are_counted_beside(driven) -> None:
    pulse, line = driven.agent.pulse, (code("/home/me/train.py"), 7, -1)
    waiting = multiprocessing.connection.Connection._recv.__code__
    pulse.stacks = [(0.0, wire.OTHER, False, [(waiting, 1, 2), line]), (0.0, wire.OTHER, False, [line])]
    pulse.settle(last=True)
    assert (list(pulse.lines.values()), list(pulse.waits.values())) == ([2], [1])


def counting() -> int:
    total = 0
    for number in range(3):
        total += number
    return total


def waiting() -> int:
    total = 0
    while total < 3:
        total += 1
    return total


def jump_of(function) -> int:
    found = list(dis.get_instructions(function))
    return next(one.offset for one in found if "JUMP_BACKWARD" in one.opname)


def test_python_that_computes_is_told_by_where_it_lets_go() -> None:
    """At a jump back; code of torch is not asked."""
    found, jump = list(dis.get_instructions(counting)), jump_of(counting)
    call = next(one.offset for one in found if one.opname.startswith("CALL"))
    of_torch = counting.__code__.replace(co_filename="/env/lib/python3.12/site-packages/torch/functional.py")
    of_python = counting.__code__.replace(co_filename=dis.__file__)
    found = [(counting.__code__, jump), (of_python, jump), (counting.__code__, call), (of_torch, jump)]
    assert [Places().computes([(one, 1, at)]) for one, at in found] == [True, True, False, False]
    assert not Places().computes([(counting.__code__, 1, -1)]), "it has not begun"
    assert Places().computes([(waiting.__code__, 1, jump_of(waiting))])


def test_looks_that_computed_are_counted_beside(driven) -> None:
    line = (counting.__code__, 1, jump_of(counting))
    driven.tick()
    driven.flush()
    driven.agent.pulse.stacks = [(0.0, wire.OTHER, False, [one]) for one in (line, (*line[:2], -1))]
    driven.agent._flush_last()
    assert [(one.count, one.computes) for one in driven.read().sampled] == [(2, 1)]


def test_a_wait_of_torch_with_python_code_within_is_a_wait(driven) -> None:
    """torch.cuda.synchronize() is a function of Python, inside of ours."""
    pulse, wrapper, line = driven.agent.pulse, code("/wrapper.py"), (code("/home/me/train.py"), 7, -1)
    driven.agent.codes[id(wrapper)] = wire.SYNC
    within = (code("/env/site-packages/torch/cuda/__init__.py"), 3, -1)
    deep = [within] * WAITING_DEPTH
    stacks = [[within, (wrapper, 5, -1), line], [*deep, (wrapper, 5, -1), line], [line]]
    pulse.stacks = [(0.0, wire.OTHER, False, stack) for stack in stacks]
    pulse.read_stacks()
    assert [phase for _, phase, *_ in pulse.recent] == [wire.SYNC, wire.OTHER, wire.OTHER]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_in_a_stretch_passed_over_the_line_that_calls_the_model_tells_inference(driven, elsewhere) -> None:
    """A stack does not: inside the model both look the same."""
    own, call = driven.agent.pulse, code("/env/site-packages/torch/nn/modules/module.py")
    driven.agent.codes[id(call)] = wire.FORWARD
    inside, test, learn = (code(f"/home/me/{name}.py") for name in ("net", "test", "learn"))
    evaluated, learnt = (
        [(inside, line, -1), (call, 9, -1), (inside, 30, -1), (call, 9, -1), (caller, 7, -1)]
        for line, caller in ((4, test), (5, learn))
    )
    told = [(0.0, wire.INFER, False, [(inside, 1, -1), *evaluated[1:]]), (0.0, wire.FORWARD, False, learnt)]
    if elsewhere:  # the same line calls it with gradients, too
        own.called_at(test, 7, wire.FORWARD)
    own.stacks = [*told, (0.0, wire.THIN, False, evaluated), (0.0, wire.THIN, True, learnt)]
    own.read_stacks()
    found = [phase % pulse.THIN_OTHER for _, phase, *_ in own.recent]
    assert found == [wire.INFER, wire.FORWARD, wire.FORWARD if elsewhere else wire.INFER, wire.FORWARD]


def test_lines_that_call_models_are_limited(driven, monkeypatch) -> None:
    monkeypatch.setattr(pulse, "SITES_MAX", 3)
    for line in range(10):
        driven.agent.pulse.called_at(inner.__code__, line, wire.INFER)
    assert len(driven.agent.pulse.sites) == 3


def test_an_instruction_without_a_line_is_of_its_function() -> None:
    places = Places()
    places.with_callers([(code("/home/me/train.py"), None, 0)])
    assert places.new[0]["leaf"][:2] == ("/home/me/train.py", 1)


def test_places_and_files_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PLACES_MAX", 5)
    monkeypatch.setattr(wire, "FILES_MAX", 5)
    places = Places()
    for number in range(50):
        places.kind(code(f"/made/on/the/fly/{number}.py"))
        places._id(("file", number, "function"), None)
    assert len(places._kinds) <= 5
    assert len(places.new) == 5
    assert places._id(("file", 49, "function"), None) == 0


def inner(look):
    return look(stack_of(threading.get_ident())[1:])


def _worker_loop(look):
    return inner(look)


def test_a_look_knows_the_lines_that_led_there() -> None:
    places = Places()
    for _ in range(2):
        assert inner(places.with_callers) == 1
    (place,) = places.new
    functions = [line[2] for line in place["callers"]]
    assert place["leaf"][2] == "inner"
    assert place["user"] == place["leaf"]
    assert functions[0] == "test_a_look_knows_the_lines_that_led_there"
    assert len(functions) < wire.STACK_MAX


def test_below_the_loop_of_a_worker_the_stack_is_not_its_own(monkeypatch) -> None:
    places = Places()
    judged = places.kind
    monkeypatch.setattr(places, "kind", lambda code: 0 if code.co_name == "_worker_loop" else judged(code))
    _worker_loop(places.with_callers)
    assert places.new[0]["leaf"][2] == "inner"
    assert places.new[0]["callers"] == ()


def test_many_ways_to_one_line_are_not_all_kept(monkeypatch) -> None:
    monkeypatch.setattr(wire, "STACKS_MAX", 3)
    places, line = Places(), ("file", 1, "function")
    numbers = [places._id(line, line, (("caller", number, "f"),)) for number in range(10)]
    assert numbers == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert places.new[-1]["callers"] == ()


def test_thestack_of_a_thread_is_told_from_the_inside_out_and_keeps_no_frame() -> None:
    here, done = threading.Event(), threading.Event()

    def outer() -> None:
        here.set()
        done.wait()

    thread = threading.Thread(target=outer)
    thread.start()
    here.wait()
    stack = stack_of(thread.ident)
    names = [code.co_name for code, _, _ in stack]
    done.set()
    thread.join()
    assert names.index("wait") < names.index("outer") < names.index("_bootstrap")
    assert (outer.__code__, outer.__code__.co_firstlineno + 2) in [(code, line) for code, line, _ in stack]
    assert all(type(code) is type(outer.__code__) for code, _, _ in stack)
    assert not any(ref for ref in gc.get_referrers(outer.__code__) if hasattr(ref, "f_back"))


def test_collections_go_on_after_a_walk_that_failed(monkeypatch) -> None:
    thresholds = gc.get_threshold()
    monkeypatch.setattr(pulse, "_WHERE", lambda frame: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        stack_of(threading.get_ident())
    assert gc.get_threshold() == thresholds


def test_a_thread_that_is_gone_has_no_stack() -> None:
    assert stack_of(-1) == []
