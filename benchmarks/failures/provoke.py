"""Make training scripts fail in known ways, and keep what they said: the corpus of tests/corpus/failures.

    python benchmarks/failures/provoke.py --out DIR [--gpu] [--only NAME …]

Writes DIR/<name>.log and DIR/<name>.json (class, what it looks like, origin, script, exit). A case that
hangs is ended after a minute, and its entry says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
TAIL_BYTES = 20_000
LIMIT_S = 60.0


def provoke(name: str, case: tuple[str, str, str, str], out: Path, where: str, limit_s: float) -> None:
    family, kind, like, code = case
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / f"train_{family}.py"
        script.write_text(code, encoding="utf-8")
        text, returned, hung = run(script, min(limit_s, 8.0) if kind == "hang" else limit_s)
        text = re.sub(re.escape(folder), "/home/user/project", text)
    text = re.sub(re.escape(sys.prefix), "/home/user/venv", text)
    entry = {
        "class": kind,
        "looks_like": like,
        "script": family,
        "origin": f"provoked on {where}, {platform.python_version()}",
        "code": returned if returned is not None and returned >= 0 else None,
        "signal": -returned if returned is not None and returned < 0 else None,
        "hung": hung,
    }
    (out / f"{name}.log").write_text(text[-TAIL_BYTES:], encoding="utf-8")
    (out / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")


def run(script: Path, limit_s: float) -> tuple[str, int | None, bool]:
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=script.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit_s)
        return output.decode("utf-8", "replace"), process.returncode, False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return output.decode("utf-8", "replace"), process.returncode, True


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gpu", action="store_true", help="the cases that need a GPU, instead of the others")
    parser.add_argument("--only", nargs="*")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.gpu:
        import torch
        from cases_gpu import CASES

        where = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    else:
        from cases_cpu import CASES

        where = "a CPU"
    for name, case in CASES.items():
        if not args.only or name in args.only:
            provoke(name, case, args.out, where, LIMIT_S)
            print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
