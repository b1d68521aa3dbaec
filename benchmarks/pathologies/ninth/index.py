"""What is in this folder: each script, the fault it plants in plain words, and where it makes sense.

Needs the folder above on the path: a script is described as in `second/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from second.index import MARKER
from second.index import Script as EarlierScript

__all__ = ["MARKER", "SCRIPTS", "Fault", "Script"]


class Fault(StrEnum):
    NOTED = "losses read from the GPU one by one"
    RANKED = "errors fetched from the GPU at once, and ranked while it waits"
    STEPWISE = "a loop of small kernels over steps or words"
    RELATIONS = "a loop of small products over relations"
    WINDOWS = "large blocking copies from pageable memory"
    NO_BUFFER = "a table copied in every forward pass"
    PAPER = "a batch too small for the GPU"
    OUTSIDE = "large products in full fp32"
    FORGOTTEN = "a part that stayed on the CPU"
    GUARD = "the allocator's cache emptied again and again"
    UNCUT = "a graph that is kept for good and grows"
    FADING = "many elementwise passes over large tensors"
    DEFAULTS = "loading by the training thread"
    WHOLE_SHEETS = "a worker on every core, and too much work for each sample"
    POINTS = "points turned one by one in the collate function"
    FEW_FRAMES = "workers started anew for each short epoch"
    DEQUE = "a batch drawn from the middle of a deque"
    OTHER_LENGTHS = "shapes that the compiler takes for constants"
    VIEWER = "a thread that encodes JSON all the time"
    SAILED_HERE = "an environment stepped by the training thread"
    BOXES = "a question to the GPU for each box"
    ALONE = "an inference for each of many elevators"
    TESTED = "evaluations much too often"
    SAVED = "checkpoints much too often"
    TIDYING = "garbage collected by hand, with many objects alive"


@dataclass(frozen=True, slots=True)
class Script(EarlierScript):
    """`lines`: how many are marked, where several are equally right."""

    lines: int = 0

    @property
    def planted_lines(self) -> int:
        return self.lines or len(self.faults)


SCRIPTS = (
    Script("sleep_windows.py", (Fault.DEFAULTS,), on_cpu=True, lines=2),
    Script("herbarium_cores.py", (Fault.WHOLE_SHEETS,), on_cpu=True),
    Script("crossing_scenes.py", (Fault.POINTS,), on_cpu=True, lines=2),
    Script("surgery_epochs.py", (Fault.FEW_FRAMES,), on_cpu=True, lines=2),
    Script("signal_deque.py", (Fault.DEQUE,), on_cpu=True),
    Script("subgraph_compiled.py", (Fault.OTHER_LENGTHS,), on_cpu=True),
    Script("teleop_viewer.py", (Fault.VIEWER,), on_cpu=True),
    Script("sailing_course.py", (Fault.SAILED_HERE,), on_cpu=True, lines=2),
    Script("intent_curriculum.py", (Fault.NOTED,), on_cpu=False),
    Script("grasp_priorities.py", (Fault.RANKED,), on_cpu=False),
    Script("locomotion_gae.py", (Fault.STEPWISE,), on_cpu=False, lines=3),
    Script("relations_gcn.py", (Fault.RELATIONS,), on_cpu=False),
    Script("pixels_window.py", (Fault.WINDOWS,), on_cpu=False),
    Script("grid_walks.py", (Fault.NO_BUFFER,), on_cpu=False),
    Script("decision_batch.py", (Fault.PAPER,), on_cpu=False, speed="samples_per_s"),
    Script("mean_teacher.py", (Fault.OUTSIDE,), on_cpu=False, lines=2),
    Script("guided_planner.py", (Fault.FORGOTTEN,), on_cpu=False, lines=2),
    Script("room_guard.py", (Fault.GUARD,), on_cpu=False),
    Script("uncut_memory.py", (Fault.UNCUT,), on_cpu=False, lines=2),
    Script("cold_diffusion.py", (Fault.FADING,), on_cpu=False),
    Script("pair_labels_eval.py", (Fault.STEPWISE, Fault.TESTED), on_cpu=False),
    Script("pair_hazards_save.py", (Fault.BOXES, Fault.SAVED), on_cpu=False),
    Script("pair_covariance_eval.py", (Fault.OUTSIDE, Fault.TESTED), on_cpu=False),
    Script("pair_reward_save.py", (Fault.FORGOTTEN, Fault.SAVED), on_cpu=False),
    Script("pair_elevators_gc.py", (Fault.ALONE, Fault.TIDYING), on_cpu=True),
    Script("control_spectra.py", (), on_cpu=True),
    Script("control_printed_loss.py", (), on_cpu=True),
    Script("control_exact_head.py", (), on_cpu=True),
    Script("control_tables_loader.py", (), on_cpu=True),
    Script("control_rare_chores.py", (), on_cpu=True),
    Script("control_filling_memory.py", (), on_cpu=True),
)
