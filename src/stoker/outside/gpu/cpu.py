"""The device where there is no GPU: nothing to ask. Its busy time is that of the host's compute phases."""

from __future__ import annotations

from stoker.outside.gpu.seam import Answers, Box


class CpuDevice:
    def __init__(self, reason: str) -> None:
        self._reason = reason

    def describe(self) -> Box:
        return Box("cpu", reason=self._reason)

    def ask(self, device: int, *, dear: bool) -> Answers:
        raise LookupError("a machine without a GPU has no devices to ask")

    def poll(self, device: int) -> bool:
        return False

    def close(self) -> None:
        pass
