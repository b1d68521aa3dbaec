"""`threads`, `tf32`, `cudnn_benchmark`, and the variables of `allocator` and `nccl`.

What concerns the GPU is set when the script has started CUDA, never before; what it found then tells whether
the script had set it itself.
"""

import functools
import os
import sys

from .base import RuntimeKnob

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_NCCL = ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE", "NCCL_CUMEM_ENABLE", "TORCH_NCCL_ASYNC_ERROR_HANDLING")


class Threads(RuntimeKnob):
    """The script's own `set_num_threads` is answered with ours; a loader's worker keeps its one thread."""

    knob = "threads"

    def install(self, module):
        original, wanted, hook = module.set_num_threads, int(self.value), self
        before = module.get_num_threads()

        @functools.wraps(original)
        def set_num_threads(number):
            if hook.agent.worker_process or hook.error is not None:
                return original(number)
            hook.did("the script's own set_num_threads(%s) is not followed" % number)
            return original(wanted)

        self.patch(module, "set_num_threads", set_num_threads)
        original(wanted)
        if before == wanted:
            self.found("torch.get_num_threads() is %d anyway" % wanted)
        else:
            self.did("torch.get_num_threads() %d -> %d" % (before, wanted))

    def undone(self):
        now = sys.modules["torch"].get_num_threads()
        return "" if now == int(self.value) else "torch.get_num_threads() is %d all the same" % now


class _OnceCudaRuns(RuntimeKnob):
    modules = ("torch.cuda",)
    unused = "CUDA was not used"

    def install(self, module):
        if module.is_initialized():
            self.apply()
            return
        original, hook = module._lazy_init, self
        applied = []

        @functools.wraps(original)
        def _lazy_init():
            result = original()
            if not applied and hook.error is None and not getattr(module, "_is_in_bad_fork", _no)():
                applied.append(True)
                try:
                    hook.apply()
                except Exception as error:
                    hook.fail(error, "install")
            return result

        module._lazy_init = _lazy_init

    def apply(self):
        raise LookupError("a knob without apply()")


class Tf32(_OnceCudaRuns):
    knob = "tf32"

    def apply(self):
        if self.tripwire is not None:
            self.tripwire()
        torch = sys.modules["torch"]
        if torch.cuda.get_device_capability()[0] < 8:
            self.refuse("this GPU has no TF32")
            return
        wanted = "high" if self.value == "on" else "highest"
        before = torch.get_float32_matmul_precision()
        if before == wanted:
            self.found("already set by the script: float32 products are %s" % before)
            return
        torch.set_float32_matmul_precision(wanted)  # convolutions use TF32 unless told otherwise
        self.did("float32 products %s -> %s" % (before, wanted))

    def undone(self):
        wanted = "high" if self.value == "on" else "highest"
        now = sys.modules["torch"].get_float32_matmul_precision() if self.applied else wanted
        return "" if now == wanted else "the script set float32 products back to %s" % now


class CudnnBenchmark(_OnceCudaRuns):
    knob = "cudnn_benchmark"

    def apply(self):
        if self.tripwire is not None:
            self.tripwire()
        torch = sys.modules["torch"]
        cudnn, wanted = torch.backends.cudnn, self.value == "on"
        if cudnn.benchmark == wanted:
            self.found("already set by the script: cudnn.benchmark is %s" % wanted)
        elif wanted and (cudnn.deterministic or torch.are_deterministic_algorithms_enabled()):
            self.refuse("the script asks for deterministic algorithms")
        else:
            cudnn.benchmark = wanted
            self.did("cudnn.benchmark %s -> %s" % (not wanted, wanted))

    def undone(self):
        back = self.applied and sys.modules["torch"].backends.cudnn.benchmark != (self.value == "on")
        return "the script set cudnn.benchmark back" if back else ""


class Variables(RuntimeKnob):
    """Set before the process; here only the question whether anything reads them."""

    def __init__(self, agent, name):
        self.knob = name
        super().__init__(agent, "")
        self.value = {"allocator": "expandable", "nccl": "safe"}[name]

    def install(self, module):
        self.torch = module

    def undone(self):
        reason = self._allocator() if self.knob == "allocator" else self._nccl()
        if not reason and not self.applied:
            names = _ALLOCATOR if self.knob == "allocator" else _NCCL
            present = ["%s=%s" % (name, os.environ[name]) for name in names if name in os.environ]
            self.did("the process has " + " ".join(present))
        return reason

    def _allocator(self):
        if not self.torch.cuda.is_initialized():
            return "CUDA was not used"
        present = "".join(os.environ.get(name, "") for name in _ALLOCATOR)
        gone = "expandable_segments:True" not in present
        return "the script or its launcher took the variable away" if gone else ""

    def _nccl(self):
        distributed = self.torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            return "" if self.applied else "no process group was made"
        if "nccl" not in str(distributed.get_backend()):
            return "the process group is %s" % distributed.get_backend()
        return "" if _NCCL[0] in os.environ else "the script or its launcher took the variables away"


def _no():
    return False
