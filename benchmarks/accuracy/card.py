"""What a result is of: the card, with a plain word where there is none, and the code of Stoker."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stoker"


def need_a_gpu() -> None:
    """Ends the script where torch cannot use a GPU."""
    script = Path(sys.argv[0]).name
    try:
        import torch
    except ImportError:
        _leave(f"{script} needs torch, which this Python does not have")
    if not torch.cuda.is_available():
        _leave(f"{script} needs an NVIDIA GPU: torch {torch.__version__} finds none here")


def _leave(why: str) -> None:
    print(why, file=sys.stderr)
    sys.exit(2)


def card() -> dict[str, object]:
    import pynvml
    import torch

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": command(),
        "gpu": _text(pynvml.nvmlDeviceGetName(handle)),
        "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
        "cuda": torch.version.cuda,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: installed(name) for name in ("torch", "nvidia-ml-py")},
        "code": measured_code(),
        "load_1m_at_start": os.getloadavg()[0],
    }


def measured_code(source: Path = SOURCE) -> str:
    """Twelve digits of all that Python reads of Stoker: a machine that measures may have no git."""
    found = hashlib.sha256()
    for path in sorted(source.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(source).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()[:12]


def command() -> str:
    return " ".join(["python", shown(sys.argv[0]), *(Path(word).name for word in sys.argv[1:])])


def shown(script: str) -> str:
    """Without the machine's folders."""
    parts = Path(script).resolve().parts
    return "/".join(parts[parts.index("benchmarks") :]) if "benchmarks" in parts else parts[-1]


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
