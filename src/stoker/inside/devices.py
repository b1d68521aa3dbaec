"""Which GPUs this process uses, and what torch's allocator holds there. Asked once a second by the pulse.

It must not change anything: torch is not imported, CUDA is not initialised, no device gets a context, and it
may run while the script captures a CUDA graph. So it asks torch alone, and only what torch answers from the
host's memory (read in torch 2.13, c10/cuda/CUDACachingAllocator.cpp): the statistics of the native allocator
are a structure behind a mutex, of every device, used or not. Those of the cudaMallocAsync allocator are not:
they set the device and ask CUDA, so there they are left alone. Properties of all devices are read by torch
itself when it initialises CUDA, and kept; here they are looked up once, of devices in use.

In use means: memory is reserved there. The current device does not tell, each thread has its own.
"""

import sys

from . import wire

EVERY_S = 10.0
NOTICEABLE = 16 * 1024 * 1024
"""Bytes by which a figure must have changed to be worth a row before that."""
MANY_FREES = 8
"""Blocks given back to the driver since the last row: in a steady training there are none."""


class Devices:
    name = "devices"

    def __init__(self):
        self.error = self.failed_at = None
        self.facts = {}
        self.written = {}

    def rows(self, now, last=False):
        """What is to be written now; whatever goes wrong ends this for good, and nothing else."""
        if self.error is not None:
            return []
        try:
            cuda = _initialised_cuda()
            return [] if cuda is None else self._due(list(self._look(cuda)), now, last)
        except Exception as error:
            self.error, self.failed_at = repr(error)[:500], "running"
            return []

    def _look(self, cuda):
        count = cuda.device_count()
        if not count:
            return
        backend = getattr(cuda, "get_allocator_backend", lambda: "native")()
        if backend != "native":
            if count > 1:
                raise LookupError("which devices are used cannot be told: the allocator is %s" % backend)
            yield dict(self._facts(cuda, 0), allocator=backend)
            return
        for index in range(min(count, wire.DEVICES_MAX)):
            stats = cuda.memory_stats_as_nested_dict(index)
            reserved = _stat(stats, "reserved_bytes")
            if not reserved.get("peak"):
                continue
            allocated = _stat(stats, "allocated_bytes")
            yield dict(
                self._facts(cuda, index),
                allocated_bytes=allocated.get("current"),
                allocated_max_bytes=allocated.get("peak"),
                reserved_bytes=reserved.get("current"),
                reserved_max_bytes=reserved.get("peak"),
                retries=stats.get("num_alloc_retries"),
                ooms=stats.get("num_ooms"),
                driver_allocs=stats.get("num_device_alloc"),
                driver_frees=stats.get("num_device_free"),
            )

    def _facts(self, cuda, index):
        if index not in self.facts:
            properties = cuda.get_device_properties(index)
            self.facts[index] = {
                "index": index,
                "uuid": _uuid(getattr(properties, "uuid", None)),
                "name": getattr(properties, "name", None),
                "total_bytes": getattr(properties, "total_memory", None),
            }
        return self.facts[index]

    def _due(self, rows, now, last):
        due = []
        for row in rows:
            before_s, before = self.written.get(row["index"], (0.0, None))
            if last or before is None or now - before_s >= EVERY_S or _changed(before, row):
                self.written[row["index"]] = (now, row)
                due.append(dict(row, t=round(now, 6)))
        return due


def _initialised_cuda():
    """torch.cuda, where the script has imported torch and used CUDA. (After a fork it says it has not.)"""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    asked = getattr(cuda, "is_initialized", None)
    return cuda if asked is not None and asked() else None


def _stat(stats, name):
    return stats.get(name, {}).get("all", {})


def _uuid(uuid):
    """As NVML writes it. (Of a MIG slice the prefix would be MIG-; readers compare without it.)"""
    if uuid is None:
        return None
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else "GPU-" + text


def _changed(before, row):
    """What is allocated changes all the time, within a step: only its peak counts."""
    if any(row.get(name) != before.get(name) for name in ("retries", "ooms")):
        return True
    if (row.get("driver_frees") or 0) - (before.get("driver_frees") or 0) >= MANY_FREES:
        return True
    names = ("allocated_max_bytes", "reserved_bytes", "reserved_max_bytes")
    return any(abs((row.get(name) or 0) - (before.get(name) or 0)) >= NOTICEABLE for name in names)
