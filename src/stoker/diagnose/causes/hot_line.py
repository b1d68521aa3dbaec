"""SK201: a line of the user's own Python code, outside model, loader and environment."""

from __future__ import annotations

import math

from stoker.diagnose.causes.allocator_thrash import emptying_line, hides_the_rest, thrashing
from stoker.diagnose.causes.cause import IN_THE_MODEL, Cause, finding, number, share
from stoker.diagnose.causes.checkpoint_stall import find as checkpoint_stall
from stoker.diagnose.causes.evaluation_stall import find as evaluation_stall
from stoker.diagnose.causes.held_interpreter import held_in_lines_frac
from stoker.diagnose.causes.main_process_loading import loaded
from stoker.diagnose.causes.serial_env import simulated
from stoker.diagnose.causes.signals import Signals
from stoker.diagnose.causes.single_inference import around_the_call
from stoker.diagnose.causes.single_inference import find as single_inference
from stoker.diagnose.causes.thresholds import (
    COMPUTES_FRAC,
    COMPUTES_LOOKS,
    INSIDE_FRAC,
    INSIDE_LOOKS,
    LAUNCHES_FRAC,
    LAUNCHES_LOOKS,
    LINE_PCT,
    LINE_SURE,
    LINES_APART,
    NEARLY_ALL_FRAC,
    WAITS_FRAC,
)
from stoker.diagnose.causes.turns import waited_in
from stoker.diagnose.places import LineShare, shown
from stoker.model.finding import Finding, Fix
from stoker.model.record import Line, Place

CODE, NAME = "SK201", "hot Python line"
_FIXES = (
    Fix(
        "where it goes over items one by one, one call on whole arrays",
        "total = sum(float(v) ** 2 for v in values)",
        "total = (values * values).sum()",
    ),
    Fix(
        "arrays, not lists, into tensors",
        "batch = torch.tensor([buffer[i] for i in picked])",
        "batch = torch.from_numpy(buffer[picked])  # buffer: one array, made once",
    ),
    Fix("do it less often, in another thread or process, or not at all (logging, copies, checks)"),
)
_REST_FIXES = (
    Fix("what it waits for (a file, the network, a service, a lock): ask for it ahead, beside the training"),
    Fix("a sleep in the loop: take it out"),
)
_WAIT_FIXES = (
    Fix(
        "ask before it is needed: two or more on their way while the model computes",
        "batch = queue.get()",
        "queue = mp.Queue(maxsize=8)  # filled by processes that run ahead\nbatch = queue.get()",
    ),
    Fix("more processes to make what it waits for, where cores are free"),
)


_INSIDE = {
    "forward": "Python that computes inside the model's forward pass",
    "infer": "Python that computes inside the model, asked without gradients",
    "backward": "Python that computes inside the backward pass",
    "optim": "Python that computes inside the optimizer's step",
}
_WHERE = {"loss": "between the model's call and backward()", **_INSIDE}


def find(found: Signals) -> Finding | None:
    group = _hottest(found)
    if not group or hides_the_rest(found):
        return None
    line, lost = group[0], _lost(found, group)
    several = f"{len(group)} lines {_belong_together(found, group)} take"
    what = "one line takes" if len(group) == 1 else several
    own = "your own Python code" if line.place.leaf == line.place.user else "Python code that your line calls"
    waits = line.waits_frac >= WAITS_FRAC
    rests = not waits and line.phase == "other" and found.own_code_rests()
    where = _WHERE.get(line.phase, own)
    where = "waiting for another process" if waits else where
    where = "mostly it waits: asleep, at a lock, for a file or the network" if rests else where
    return finding(
        CODE,
        NAME,
        f"{what} {100 * lost:.0f} % of the window: {where}",
        lost,
        found.lost_of if found.gpu or line.phase not in _INSIDE else IN_THE_MODEL,
        [
            share("of the training thread's time is in this line", line.pct / 100, "looks"),
            share("is in it and the lines beside or under it", sum(one.pct for one in group) / 100, "looks")
            if len(group) > 1
            else None,
            share("is in the whole phase", found.host_pct[line.phase] / 100, "host clock"),
            number("{} looks found it there", float(line.samples), "looks", "looks"),
        ],
        "leave it out, with what is told with it, or use a constant: ticks/s rise by up to the ceiling",
        _WAIT_FIXES if waits else _REST_FIXES if rests else _FIXES,
        line.place,
    )


def hot_launching(found: Signals) -> dict[str, float]:
    """Of the window, by phase: what the GPU waits in the hot lines for launches. Few lines that hold the
    thread up are the user's to mend, whether they launch kernels or count in Python."""
    hot = _hottest(found)
    return {hot[0].phase: _part(found, hot) * _launching(found, hot)} if hot else {}


def _hottest(found: Signals) -> list[LineShare]:
    """The lines of one piece of code, costliest first: a loop, its body, and what it calls are one thing to
    mend."""
    own = [line for line in found.lines if line.phase in ("other", *_WHERE) and line.place.leaf]
    others = _told_elsewhere(found)
    lines = [line for line in own if not found.waits_for_gpu(line) and line not in others]
    beside = [line for line in lines if line.phase not in _INSIDE]
    whole = [_with_siblings(found, group, lines, others) for group in neighbours(beside)]
    whole += [_computing_inside([line for line in lines if line.phase == phase]) for phase in _INSIDE]
    groups = [_costliest_first(found, group) for group in whole if group]
    groups = [
        group
        for group in groups
        if not _launches(found, group) and not _may_be_training(found, group) and _is_no_work(found, group)
    ]
    hot = max(groups, key=lambda group: _lost(found, group), default=[])
    return hot if _lost(found, hot) > 0 and 100 * _surely_lost(found, hot) >= LINE_PCT else []


def _told_elsewhere(found: Signals) -> list[LineShare]:
    others = [*waited_in(found), *around_the_call(found), *simulated(found), *loaded(found)]
    others += found.beside_saving() if checkpoint_stall(found) is not None else []
    evaluated = found.own_evaluation is not None and evaluation_stall(found) is not None
    if evaluated or single_inference(found) is not None:
        others += [line for line in found.lines if line.phase == "infer"]
    emptying = emptying_line(found) if thrashing(found) else None
    return others + ([emptying] if emptying else [])


def _with_siblings(
    found: Signals, group: list[LineShare], lines: list[LineShare], others: list[LineShare]
) -> list[LineShare]:
    """And what else is under the same call, where that is a piece of code by itself: neither the loop nor
    what calls the model. Of such calls the innermost that has nearly all of what the outermost has."""
    lead = max(group, key=lambda line: line.pct)
    if lead.phase != "other":
        return group
    calls = [call for call in _calls_around(found, lead) if not any(_is_under(one, call) for one in others)]
    within = _under(calls[-1], lines) if calls else []
    inside = {call: _under(call, within) for line in within for call in _calls_around(found, line)}
    enough = [under for under in inside.values() if _pct(under) >= NEARLY_ALL_FRAC * _pct(within)]
    under = min(enough, key=_pct, default=[])
    return group + [line for line in under if line not in group] if lead in under or not under else under


def _computing_inside(lines: list[LineShare]) -> list[LineShare]:
    """Of the lines in a phase of the model's: the smallest piece, a function or what is under one call, that
    has most of the looks that tell of Python, and enough of them. A larger one has torch's part in it."""
    functions = {_where(line)[:2] for line in lines}
    pieces = [[line for line in lines if _where(line)[:2] == function] for function in functions]
    calls = {call for line in lines for call in line.under}
    pieces += [[line for line in lines if _where_under(line, call)] for call in calls]
    computing = [piece for piece in pieces if _computes(piece, INSIDE_LOOKS, INSIDE_FRAC)]
    return max(
        computing, key=lambda piece: (sum(line.computes or 0 for line in piece), -_pct(piece)), default=[]
    )


def _under(call: Line, lines: list[LineShare]) -> list[LineShare]:
    return [line for line in lines if _is_under(line, call)]


def _pct(lines: list[LineShare]) -> float:
    return sum(line.pct for line in lines)


def _calls_around(found: Signals, line: LineShare) -> list[Line]:
    """And itself, from the inside out; without those that lead to the model as well."""
    return [call for call in _calls(line) if call not in found.step_lines]


def _calls(line: LineShare) -> list[Line]:
    return [call for call in (line.place.leaf, *line.under) if call]


def _is_under(line: LineShare, call: Line) -> bool:
    return line.phase == "other" and _where_under(line, call)


def _where_under(line: LineShare, call: Line) -> bool:
    return line.place.leaf == call or call in line.under


def _belong_together(found: Signals, group: list[LineShare]) -> str:
    """In words: by their function, or by the innermost call that leads to those of other functions."""
    lead = group[0]
    elsewhere = [line for line in group if _where(line)[:2] != _where(lead)[:2]]
    calls = _calls(lead) if lead.phase in _INSIDE else _calls_around(found, lead)
    call = next((call for call in calls if all(_where_under(one, call) for one in elsewhere)), None)
    return f"under {shown(Place(call, call))}" if elsewhere and call else "of a function"


def _costliest_first(found: Signals, group: list[LineShare]) -> list[LineShare]:
    """One that only leads there comes after one that has half of its share."""
    ordered = sorted(group, key=found.line_lost, reverse=True)
    itself = next((line for line in ordered if not line.inclusive), ordered[0])
    if found.line_lost(itself) >= found.line_lost(ordered[0]) / 2:
        ordered.remove(itself)
        ordered.insert(0, itself)
    return ordered


def _is_no_work(found: Signals, group: list[LineShare]) -> bool:
    """Of the loss. On a GPU it costs what the GPU idles for it; on a CPU it is work, unless it takes longer
    than the model, or is Python that computes by itself."""
    own = group[0].phase in ("other", *_INSIDE) or found.gpu is not None
    return own or not found.loss_is_work or _computes(group)


def _may_be_training(found: Signals, group: list[LineShare]) -> bool:
    """A model made of functions, or what changes its weights by hand: it neither computes in Python itself
    nor waits for long."""
    waits = group[0].waits_frac >= WAITS_FRAC or found.own_code_rests()
    return found.own_code_trains and not waits and not _computes(group)


def _launches(found: Signals, group: list[LineShare]) -> bool:
    """Kernel after kernel, as a deep window saw, or of a model made of functions, and no look found Python at
    work: that is SK402, in this line. (Of looks alone, NumPy and a read of a file do not compute either.)"""
    if found.gpu is None or not (found.gpu.own_launches or found.of_functions) or found.own_code_rests():
        return False
    looks, lost = sum(line.samples for line in group), found.own_code_lost()
    known = looks >= LAUNCHES_LOOKS and all(line.computes == 0 for line in group)
    return known and lost > 0 and found.own_launching() >= LAUNCHES_FRAC * lost


def _computes(group: list[LineShare], at_least: int = COMPUTES_LOOKS, of_all: float = COMPUTES_FRAC) -> bool:
    """In Python itself. It is found so now and then only: else at the end of a call, as torch is."""
    looks = _told_of_python(group)
    return looks >= at_least and looks >= of_all * sum(line.samples for line in group)


def _told_of_python(group: list[LineShare]) -> int:
    return sum(line.computes or 0 for line in group)


def neighbours(lines: list[LineShare]) -> list[list[LineShare]]:
    """Lines of one function that follow each other."""
    groups: list[list[LineShare]] = []
    for line in sorted(lines, key=lambda one: (one.phase, *_where(one))):
        last = groups[-1][-1] if groups else None
        near = last is not None and last.phase == line.phase and _where(last)[:2] == _where(line)[:2]
        if last is not None and near and _where(line)[2] - _where(last)[2] <= LINES_APART:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _where(line: LineShare) -> tuple[str, str, int]:
    path, number, function = line.place.leaf or ("", 0, "")
    return path, function, number


def _lost(found: Signals, group: list[LineShare]) -> float:
    if not group:
        return 0.0
    beside = _launching(found, group) if group[0].phase in _WHERE else 0.0
    held = held_in_lines_frac(found, group)
    return max(0.0, sum(map(found.line_lost, group)) + beside * _part(found, group) - held)


def _launching(found: Signals, group: list[LineShare]) -> float:
    """Of the window, in its phase. In loss and model the user's own only where Python computes."""
    if group[0].phase == "other":
        return found.own_launching()
    if found.gpu is None or found.reads_storm() or not _computes(group):
        return 0.0
    return found.gpu.launching_pct.get(group[0].phase, 0.0) / 100


def _part(found: Signals, group: list[LineShare]) -> float:
    """Of its phase."""
    whole = found.host_pct[group[0].phase] if group else 0.0
    return min(1.0, sum(line.pct for line in group) / whole) if whole > 0 else 0.0


def _surely_lost(found: Signals, group: list[LineShare]) -> float:
    """With so few looks into the phase as there are: the lower bound of its part (Wilson's), were all looks
    into a warm-up its own."""
    part = _part(found, group)
    looks, early = sum(line.samples for line in group) / part, found.early_own_frac
    late = (part - early) / (1 - early) if group[0].phase == "other" and early < 1 else part
    return _lost(found, group) * _at_least(late, looks) / part if late > 0 else 0.0


def _at_least(part: float, looks: float) -> float:
    spread = LINE_SURE**2 / looks
    half = LINE_SURE * math.sqrt(part * (1 - part) / looks + spread / (4 * looks))
    return (part + spread / 2 - half) / (1 + spread)


CAUSE = Cause(CODE, NAME, find)
