"""Questions worth an answer on a GPU, each one `stoker ab`: run what is missing, within a time.

    python benchmarks/ab/answers.py --out FOLDER [--minutes 25] [--pairs 3] [--window 6s] [--only NAME]

One folder per question with its answer and the journal with every trial; a question that has an answer is not
asked again, one that was cut off goes on at the missing trial. Short windows, few pairs: for differences of
some 10 % and more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
LEAST_S = 120.0
"""A question is not begun with less time left."""


@dataclass(frozen=True)
class Question:
    name: str
    asks: str
    a: str
    b: str
    command: str
    more: tuple[str, ...] = ()

    def argv(self, pairs: int, window: str, limit_s: float) -> list[str]:
        arms = ([f"--a={self.a}"] if self.a else []) + [f"--b={self.b}"]
        how = ["--window", window, "--pairs", str(pairs), "--time", f"{limit_s:.0f}s"]
        own = [*how, "--yes", "--json", *self.more]
        return [PYTHON, "-m", "stoker", "ab", *arms, *own, "--", PYTHON, *self.command.split()]


OFFPOLICY = "examples/offpolicy.py --steps 10000000 --print-every 100 --seed 0"
SLOW_DISK = "examples/vision.py --epochs 100000 --read-latency-ms 4 --image-size 96 --images 4096 --seed 0"
FAST_DISK = "examples/vision.py --epochs 100000 --num-workers 12 --image-size 96 --images 4096 --seed 0"
ONPOLICY = "examples/onpolicy.py --iterations 1000000 --num-envs 4096 --seed 0"
SWARM = ("--env", "__main__:Swarm.step")
DISTILL = "examples/distill.py --steps 10000000 --num-workers 12 --width 256 --layers 6 --seed 0"

QUESTIONS = (
    *(
        Question(
            f"offpolicy_interval_{n}",
            f"N updates after every N env steps, N = {n} against 1: promised is 24 % busy to 81 %",
            "flag:--update-interval=1",
            f"flag:--update-interval={n}",
            OFFPOLICY,
        )
        for n in (5, 10, 20)
    ),
    Question(
        "vision_workers_8", "8 workers against 2, slow disk", "num_workers=2", "num_workers=8", SLOW_DISK
    ),
    Question(
        "vision_block_shuffle",
        "blocks of 32 neighbours in random order, on a slow disk that reads 32 neighbours at once",
        "",
        "block_shuffle=32",
        f"{SLOW_DISK} --num-workers 8 --read-ahead 32",
    ),
    Question(
        "onpolicy_heavier_agent",
        "a heavier agent: utilisation up, throughput down?",
        "",
        "flag:--epochs=20,flag:--hidden=512",
        ONPOLICY,
        SWARM,
    ),
    Question(
        "distill_batch_4",
        "batch x4 with learning rate x2 (square root)",
        "",
        "flag:--batch-size=128,flag:--lr=2e-3",
        DISTILL,
    ),
    Question(
        "distill_batch_4_lr_3",
        "batch x4 with learning rate x3.3",
        "",
        "flag:--batch-size=128,flag:--lr=3.3e-3",
        DISTILL,
    ),
    *(
        Question(
            f"{name}_{knob}", f"{knob} on {name}", "", knob, command, SWARM if name == "onpolicy" else ()
        )
        for knob in ("bf16", "compile", "fused")
        for name, command in (
            ("distill", DISTILL),
            ("vision", FAST_DISK),
            ("onpolicy", ONPOLICY),
            ("offpolicy", OFFPOLICY),
        )
    ),
)


def ask(question: Question, out: Path, pairs: int, window: str, limit_s: float) -> dict[str, object] | None:
    """The answer, also one that is already there; None where the time did not suffice for one."""
    folder = out / question.name
    folder.mkdir(parents=True, exist_ok=True)
    answer = folder / "answer.json"
    if answer.exists() and (known := json.loads(answer.read_text())).get("verdict"):
        return known  # type: ignore[no-any-return]
    env = {**os.environ, "STOKER_HOME": str(folder / "stoker"), "PYTHONUNBUFFERED": "1"}
    argv = question.argv(pairs, window, limit_s)
    if list((folder / "stoker" / "ab").glob("*/journal.jsonl")):
        argv = [*argv[:4], "--resume", "--yes", "--json", "--time", f"{limit_s:.0f}s"]
    with (folder / "progress.txt").open("a") as progress:
        done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=progress, text=True, check=False)
    if not done.stdout.strip():
        print(f"  {question.name}: {(folder / 'progress.txt').read_text()[-600:]}", flush=True)
        return None
    answer.write_text(done.stdout)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--pairs", type=int, default=3, help="at most; 3 to 16")
    parser.add_argument("--window", default="6s", help="of steady training in each trial")
    parser.add_argument("--only", action="append", help="questions whose name begins so; again for more")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    args = parser.parse_args()
    chosen = [question for question in QUESTIONS if question.name.startswith(tuple(args.only or [""]))]
    if args.list:
        for question in chosen:
            print(
                f"{question.name}: {question.asks}\n  {' '.join(question.argv(args.pairs, args.window, 300))}"
            )
        return 0
    end_at = time.monotonic() + 60 * args.minutes
    if any("vision.py" in question.command for question in chosen):
        # Once for all: what a trial writes is thrown away with it.
        subprocess.run([PYTHON, "examples/vision.py", "--steps", "1", "--images", "4096"], check=True)
    for question in chosen:
        left_s = end_at - time.monotonic()
        if left_s < LEAST_S:
            print(f"{question.name}: not asked, the time is up", flush=True)
            continue
        found = ask(question, args.out, args.pairs, args.window, left_s)
        print(f"{question.name}: {found['sentence'] if found else 'no answer'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
