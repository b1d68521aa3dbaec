"""Which GPUs a process uses: asked of torch alone, never changing anything, failing alone."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.inside import devices
from stoker.inside.devices import Devices

GIB = 2**30


class Cuda:
    """torch.cuda of a machine with several GPUs; counts what is asked of it."""

    def __init__(self, reserved: dict[int, int], count: int = 2, backend: str = "native") -> None:
        self.reserved, self.count, self.backend = reserved, count, backend
        self.initialized = True
        self.retries = self.frees = 0
        self.asked: list[tuple[str, int]] = []

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        assert self.initialized, "before the script's own use CUDA is not touched"
        return self.count

    def get_allocator_backend(self) -> str:
        return self.backend

    def memory_stats_as_nested_dict(self, index: int) -> dict[str, Any]:
        assert self.backend == "native", "the other allocator asks CUDA"
        self.asked.append(("stats", index))
        held = self.reserved.get(index, 0)
        stat = {"current": held, "peak": held, "allocated": 0, "freed": 0}
        half = {**stat, "current": held // 2, "peak": held // 2}
        return {
            "reserved_bytes": {"all": stat},
            "allocated_bytes": {"all": half},
            "num_alloc_retries": self.retries,
            "num_ooms": 0,
            "num_device_alloc": 7 + self.frees,
            "num_device_free": self.frees,
        }

    def get_device_properties(self, index: int) -> object:
        self.asked.append(("properties", index))
        return SimpleNamespace(uuid=f"aaaa-{index}", name="NVIDIA A100", total_memory=80 * GIB)

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"torch.cuda.{name} was touched")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(cuda: object) -> None:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    return put


def test_torch_is_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = Devices()
    assert found.rows(1.0) == []
    assert found.error is None
    assert "torch" not in sys.modules


@pytest.mark.parametrize("cuda", [None, SimpleNamespace()], ids=["no cuda", "half imported"])
def test_a_torch_that_is_not_ready_is_no_failure(torch: Any, cuda: object) -> None:
    torch(cuda)
    found = Devices()
    assert found.rows(1.0) == []
    assert found.error is None


def test_nothing_is_asked_before_the_script_uses_cuda(torch: Any) -> None:
    cuda = Cuda({0: GIB})
    cuda.initialized = False
    torch(cuda)
    found = Devices()
    assert found.rows(1.0) == []
    assert found.error is None
    assert cuda.asked == []


def test_no_device_is_no_failure(torch: Any) -> None:
    torch(SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 0))
    found = Devices()
    assert found.rows(1.0) == []
    assert found.error is None


def test_only_a_device_with_memory_is_in_use(torch: Any) -> None:
    cuda = Cuda({1: GIB})
    torch(cuda)
    (row,) = Devices().rows(1.0)
    assert (row["index"], row["uuid"], row["name"]) == (1, "GPU-aaaa-1", "NVIDIA A100")
    assert (row["reserved_bytes"], row["allocated_max_bytes"], row["retries"]) == (GIB, GIB // 2, 0)
    assert ("properties", 0) not in cuda.asked, "a device that is not used is left alone"


def test_rows_are_few(torch: Any) -> None:
    cuda = Cuda({0: GIB})
    torch(cuda)
    found = Devices()
    written = [bool(found.rows(100.0 + second)) for second in range(20)]
    assert written == [second % 10 == 0 for second in range(20)]
    cuda.reserved[0] += devices.NOTICEABLE - 1
    assert not found.rows(120.0 - 0.5)
    cuda.reserved[0] += 1
    assert found.rows(120.0 - 0.4)
    cuda.retries += 1
    assert found.rows(120.0 - 0.3)
    assert not found.rows(120.0 - 0.2)
    assert found.rows(120.0 - 0.1, last=True)
    assert cuda.asked.count(("properties", 0)) == 1, "looked up once"


def test_the_other_allocator_is_left_alone(torch: Any) -> None:
    torch(Cuda({}, count=1, backend="cudaMallocAsync"))
    (row,) = Devices().rows(1.0)
    assert (row["uuid"], row["allocator"]) == ("GPU-aaaa-0", "cudaMallocAsync")
    assert "reserved_bytes" not in row
    torch(Cuda({}, count=2, backend="cudaMallocAsync"))
    several = Devices()
    assert several.rows(1.0) == []
    assert "cannot be told" in several.error


def test_it_fails_alone_and_once(torch: Any, driven: Any) -> None:
    class Broken(Cuda):
        def memory_stats_as_nested_dict(self, index: int) -> dict[str, Any]:
            self.asked.append(("stats", index))
            raise RuntimeError("not implemented for this allocator")

    cuda = Broken({0: GIB})
    torch(cuda)
    driven.tick()
    driven.flush()
    driven.clock.advance(1.0)
    driven.flush()
    record = driven.read()
    assert len(cuda.asked) == 1
    assert [failure.name for failure in record.hook_failures] == ["devices"]
    assert "not implemented" in record.hook_failures[0].error
    assert len(record.seconds) == 2, "the rest goes on"


def test_a_training_names_its_gpus(torch: Any, driven: Any) -> None:
    torch(Cuda({0: GIB, 1: 2 * GIB}))
    driven.tick()
    driven.flush()
    first, second = driven.read().devices
    assert (first.index, first.uuid, first.reserved_max_bytes) == (0, "GPU-aaaa-0", GIB)
    assert (second.total_bytes, second.ooms, second.t_s) == (80 * GIB, 0, driven.clock.now)


def test_the_child_of_a_fork_starts_anew(torch: Any, driven: Any) -> None:
    cuda = Cuda({0: GIB})
    torch(cuda)
    driven.tick()
    driven.flush()
    driven.agent.forked()
    cuda.initialized = False  # torch says so in the child
    assert driven.agent.devices.rows(5.0) == []
    assert driven.agent.devices.written == {}


def test_uuid_as_nvml_writes_it() -> None:
    assert devices._uuid("MIG-1") == "MIG-1"
    assert devices._uuid("ab-1") == "GPU-ab-1"
    assert devices._uuid(None) is None


def test_memory_given_back_to_the_driver_is_worth_a_row(torch: Any) -> None:
    cuda = Cuda({0: GIB}, count=1)
    torch(cuda)
    found = Devices()
    first = found.rows(1.0)
    assert (first[0]["driver_allocs"], first[0]["driver_frees"]) == (7, 0)
    cuda.frees = devices.MANY_FREES - 1
    assert found.rows(2.0) == []
    cuda.frees += 1
    assert [row["driver_frees"] for row in found.rows(3.0)] == [devices.MANY_FREES]
