"""Tests of this folder are skipped where there is no GPU. That is asked of NVML: to import torch for it would
take five seconds in each of the processes that `together.py` starts."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from stoker.outside.gpu.nvml import find_gpus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    reason = missing() if here else ""
    for item in here if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str:
    if find_spec("torch") is None or version("torch").endswith("+cpu"):
        return "no torch for a GPU"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides the GPUs"
    gpus = find_gpus()
    found = gpus.describe()
    gpus.close()
    return "" if found.devices else f"no GPU: {found.reason}"
