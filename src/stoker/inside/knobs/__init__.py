"""Runtime knobs: settings applied inside the training process, without a change to its script.

Imported only where Stoker was asked to turn something, or to tell the facts that two runs are compared by.
Every knob is a hook: it fails alone, is listed, and then the training goes on as the script has it. Each
tells what it really did, which is what counts as turned.
"""

import json
import os

from .compiling import Compile
from .copying import NonBlocking
from .facts import Facts
from .loading import LoaderKnobs
from .models import Bf16, ChannelsLast, ModelCalls
from .optimizers import OptimizerCalls
from .process import CudnnBenchmark, Tf32, Threads, Variables
from .shuffling import BlockShuffle

VARIABLE = "STOKER_KNOBS"
_ALONE = (NonBlocking, Threads, Tf32, CudnnBenchmark, BlockShuffle)


class Knobs:
    """All that was asked for; `inner` has to be in place before Stoker's hooks, `outer` comes on top."""

    def __init__(self, agent):
        wanted = json.loads(os.environ[VARIABLE])
        values = {str(name): str(value) for name, value in wanted.get("knobs", {}).items()}
        self.facts = Facts(wanted.get("variables", ()), agent.places)
        loading = LoaderKnobs(agent, values)
        alone = [kind(agent, values[kind.knob]) for kind in _ALONE if kind.knob in values]
        models = [
            kind(agent, values[kind.knob]) for kind in (ChannelsLast, Compile, Bf16) if kind.knob in values
        ]
        optimizers = OptimizerCalls(agent, values, self.facts)
        variables = [Variables(agent, name) for name in ("allocator", "nccl") if name in values]
        self.inner = [loading]
        self.outer = [*alone, *models, ModelCalls(agent, models, self.facts), optimizers, *variables]
        self.told = [*loading.told, *alone, *models, *optimizers.told, *variables]

    @property
    def hooks(self):
        return [*self.inner, *self.outer]

    def row(self):
        return {"knobs": [knob.row() for knob in self.told], "facts": self.facts.row()}
