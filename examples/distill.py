"""A small distillation: a transformer learns to say what a teacher says, from the teacher's own data.

    python examples/distill.py --steps 200 --num-workers 2

The teacher is fixed and scripted: what comes next depends on the last two tokens of a sequence. The data set
plays it and keeps its soft answers, as recorded data would; the student sees the tokens alone and is judged
by how far its answers are from the teacher's. The loss is the Kullback-Leibler divergence: 0 is a perfect
student. With the same seed and the same number of workers two runs on one CPU thread give the same losses to
the last bit; `--losses FILE` writes them down.
"""

import argparse
import os
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

TOKENS, HEAD_WIDTH = 16, 32
SHARPNESS = 2.0


class Teacher:
    """A table of answers, one for each pair of tokens; always the same one."""

    def __init__(self) -> None:
        scores = SHARPNESS * np.random.default_rng(0).normal(size=(TOKENS, TOKENS, TOKENS))
        odds = np.exp(scores)
        self.answers = (odds / odds.sum(axis=2, keepdims=True)).astype(np.float32)
        self.cumulative = self.answers.cumsum(axis=2)

    def play(self, length: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A sequence of its own, and its answer at each place of it."""
        tokens = np.zeros(length + 1, dtype=np.int64)
        tokens[:2] = rng.integers(TOKENS, size=2)
        for place, chance in enumerate(rng.random(length - 1), start=2):
            row = self.cumulative[tokens[place - 2], tokens[place - 1]]
            tokens[place] = min(int(np.searchsorted(row, chance)), TOKENS - 1)
        return tokens[1:], self.answers[tokens[:-1], tokens[1:]]


class Demonstrations(Dataset):
    """Sequence number i is the same in every run, whoever asks for it."""

    def __init__(self, count: int, length: int) -> None:
        self.count, self.length, self.teacher = count, length, Teacher()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, answers = self.teacher.play(self.length, np.random.default_rng(index))
        return torch.from_numpy(tokens), torch.from_numpy(answers)


class Block(nn.Module):
    """Attention over what came before, then a small network on each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // HEAD_WIDTH)
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attention_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Student(nn.Module):
    def __init__(self, layers: int, width: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(TOKENS, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def make_loader(args: argparse.Namespace) -> DataLoader:
    return DataLoader(
        Demonstrations(args.sequences, args.seq_len),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.num_workers,
        persistent_workers=args.num_workers > 0,
        pin_memory=args.device.startswith("cuda"),
        generator=torch.Generator().manual_seed(args.seed),
    )


def distillation_loss(scores: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    said = F.log_softmax(scores.float(), dim=-1)
    return F.kl_div(said.flatten(0, 1), answers.flatten(0, 1), reduction="batchmean")


def endless(loader: DataLoader):
    while True:
        yield from loader


def train(args: argparse.Namespace) -> None:
    student = Student(args.layers, args.width, args.seq_len).to(args.device)
    call = torch.compile(student) if args.compile else student
    optimizer = torch.optim.AdamW(student.parameters(), lr=args.lr)
    losses = open(args.losses, "a") if args.losses else None  # noqa: SIM115
    kind = torch.device(args.device).type
    since, told = time.perf_counter(), 0
    for step, (tokens, answers) in enumerate(endless(make_loader(args)), start=1):
        tokens = tokens.to(args.device, non_blocking=True)
        answers = answers.to(args.device, non_blocking=True)
        with torch.autocast(kind, torch.bfloat16, enabled=args.bf16):
            loss = distillation_loss(call(tokens), answers)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if losses:
            print(loss.item().hex(), file=losses, flush=True)
        if step % 20 == 0 or step in (1, args.steps):
            divergence, now = loss.item(), time.perf_counter()  # the first waits for the device
            speed = (step - told) * args.batch_size / (now - since)
            print(f"step {step}  loss {divergence:.3f}  {speed:.0f} samples/s", flush=True)
            since, told = now, step
        if step == args.steps:
            break


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="sequences in a batch (default 32)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--num-workers", type=int, default=2, help="DataLoader workers (default 2)")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64, help="of the student (default 64)")
    parser.add_argument("--seq-len", type=int, default=64, help="tokens in a sequence (default 64)")
    parser.add_argument("--sequences", type=int, default=4096, help="in the data set (default 4096)")
    parser.add_argument("--steps", type=int, default=300, help="optimizer steps (default 300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bf16", action="store_true", help="the student computes in bfloat16")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default 1 on a CPU)")
    parser.add_argument("--losses", metavar="FILE", help="append the exact loss of each step, in hex")
    args = parser.parse_args()
    if args.sequences < args.batch_size:
        parser.error("--sequences must be at least --batch-size: only whole batches are used")
    if args.width % max(1, args.width // HEAD_WIDTH):
        parser.error(f"--width must be a multiple of {HEAD_WIDTH} (or less than {2 * HEAD_WIDTH})")
    return args


if __name__ == "__main__":
    args = parse_arguments()
    if args.threads or args.device == "cpu":
        torch.set_num_threads(args.threads or 1)
    if args.losses:  # the same losses again on a GPU too; it costs some speed there
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    torch.manual_seed(args.seed)
    train(args)
