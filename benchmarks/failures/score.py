# ruff: noqa: E501
"""Score the classes of failures on the corpus.

    python benchmarks/failures/score.py [--held-out] [FOLDER]

Split by script family: of those not looked at before, three fifths (by a hash of the name) are held out and
scored once, when nothing is changed any more. Prints what is wrong and the share that is right.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from stoker.model.exit import EndedBy, Exit
from stoker.trials.failures import classify_failure

SEEN = frozenset(
    [
        "anomaly",
        "clip",
        "distribution",
        "diverge",
        "diverge_quiet",
        "fork_limit",
        "huge",
        "limit",
        "loader_exit",
        "loader_file",
        "loader_key",
        "loader_kill",
        "loader_memory",
        "loader_segv",
        "loader_shape",
        "lock",
        "memory_error",
        "nan",
        "nan_quiet",
        "q_cgroup",
        "q_cublas",
        "q_cuda_failure",
        "q_cudnn",
        "q_cudnn_bn",
        "q_cudnn_rank",
        "q_ecc",
        "q_invalid",
        "q_killed",
        "q_launch",
        "q_lost",
        "q_oom",
        "q_oom_rank1",
        "q_peer",
        "q_remote",
        "q_shm",
        "q_system",
        "q_warp",
        "q_watchdog",
        "q_watchdog_user",
        "q_xid",
        "queue",
        "shm_bus",
        "shm_files",
        "shm_main",
        "shm_text",
        "sleep",
    ]
)
"""Families that were looked at while the classes were made: never held out."""
CORPUS = Path(__file__).resolve().parents[2] / "tests" / "corpus" / "failures"


@dataclass(frozen=True, slots=True)
class Tail:
    name: str
    kind: str
    looks_like: str
    script: str
    origin: str
    exit: Exit
    hung: bool
    text: str

    @property
    def held_out(self) -> bool:
        return self.script not in SEEN and hashlib.sha256(self.script.encode()).digest()[0] % 5 < 3


def corpus(folder: Path = CORPUS) -> list[Tail]:
    found = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_text(encoding="utf-8"))
        by = EndedBy.STOKER if entry["hung"] else EndedBy.ITSELF
        text = path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        exit = Exit(entry["code"], entry["signal"], by)
        found.append(
            Tail(
                path.stem,
                entry["class"],
                entry["looks_like"],
                entry["script"],
                entry["origin"],
                exit,
                entry["hung"],
                text,
            )
        )
    return found


def given(tail: Tail) -> str:
    failure = classify_failure(tail.text, tail.exit, hung=tail.hung)
    return failure.kind.value if failure else "none"


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    tails = list(corpus(Path(words[0]) if words else CORPUS))
    chosen = [tail for tail in tails if tail.held_out == ("--held-out" in sys.argv)]
    wrong = [(tail, answer) for tail in chosen if (answer := given(tail)) != tail.kind]
    for tail, answer in wrong:
        print(f"{tail.name}: is {tail.kind}, called {answer}")
    print(
        f"{len(chosen) - len(wrong)} of {len(chosen)} right ({100 - 100 * len(wrong) / max(1, len(chosen)):.1f} %)"
    )
    print("classes:", dict(sorted(Counter(tail.kind for tail in tails).items())))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
