"""A small supervised trainer: JPEGs from disk, decode and augment, a small ResNet, SGD.

    python examples/vision.py --steps 100 --num-workers 2

The pictures (a disc, a ring, a square or a cross on a noisy ground) are made on first use and kept in the
temporary folder. `--read-latency-ms` plays a slow disk, `--read-ahead` one that brings neighbours along. With
the same seed and the same number of workers two runs on one CPU thread give the same losses to the last bit;
`--losses FILE` writes them down.
"""

import argparse
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = ("disc", "ring", "square", "cross")
STORED_SIZE = 160  # pixels a side on disk; decoding costs something, as it does in life


def draw(label: int, rng: np.random.Generator) -> Image.Image:
    ground = rng.integers(0, 110, size=3) + rng.normal(0, 12, size=(STORED_SIZE, STORED_SIZE, 3))
    picture = Image.fromarray(ground.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    colour = tuple(int(c) for c in rng.integers(130, 256, size=3))
    radius = int(rng.integers(28, 50))
    x, y = (int(c) for c in rng.integers(55, STORED_SIZE - 55, size=2))
    box = (x - radius, y - radius, x + radius, y + radius)
    if CLASSES[label] == "disc":
        pen.ellipse(box, fill=colour)
    elif CLASSES[label] == "ring":
        pen.ellipse(box, outline=colour, width=9)
    elif CLASSES[label] == "square":
        pen.rectangle(box, fill=colour)
    else:
        pen.line((x - radius, y, x + radius, y), fill=colour, width=13)
        pen.line((x, y - radius, x, y + radius), fill=colour, width=13)
    return picture


def make_jpegs(count: int) -> Path:
    """A folder of `count` pictures, always the same ones; made beside its final name, then moved there."""
    folder = Path(tempfile.gettempdir()) / f"vision-jpegs-{os.getuid()}-{count}"
    if folder.is_dir():
        return folder
    print(f"making {count} JPEGs in {folder}", flush=True)
    rng = np.random.default_rng(0)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    for index in range(count):
        label = index % len(CLASSES)
        draw(label, rng).save(unfinished / f"{index:05d}_{CLASSES[label]}.jpg", quality=90)
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(unfinished)  # another run was quicker
    return folder


class Pictures(Dataset):
    def __init__(self, paths: list[Path], augment: bool, args: argparse.Namespace) -> None:
        self.paths, self.image_size, self.augment = paths, args.image_size, augment
        self.read_latency_s, self.read_ahead = args.read_latency_ms / 1000, args.read_ahead
        self.at_hand = -1  # which stretch of neighbours was read last

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        picture = self.read(index)
        pixels = self.augmented(picture) if self.augment else self.resized(picture)
        label = CLASSES.index(self.paths[index].stem.split("_")[1])
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), label

    def read(self, index: int) -> Image.Image:
        if index // self.read_ahead != self.at_hand:
            time.sleep(self.read_latency_s)
            self.at_hand = index // self.read_ahead
        return Image.open(self.paths[index]).convert("RGB")

    def resized(self, picture: Image.Image, box: tuple[int, int, int, int] | None = None) -> np.ndarray:
        small = picture.resize((self.image_size, self.image_size), Image.Resampling.BILINEAR, box=box)
        return np.asarray(small, dtype=np.float32) / 127.5 - 1.0

    def augmented(self, picture: Image.Image) -> np.ndarray:
        side = random.randint(int(0.8 * STORED_SIZE), STORED_SIZE)
        left, top = random.randint(0, STORED_SIZE - side), random.randint(0, STORED_SIZE - side)
        pixels = self.resized(picture, (left, top, left + side, top + side))
        if random.random() < 0.5:
            pixels = pixels[:, ::-1]
        contrast, brightness = random.uniform(0.8, 1.2), random.uniform(-0.1, 0.1)
        noise = np.random.normal(0.0, 0.02, size=pixels.shape).astype(np.float32)
        return pixels * np.float32(contrast) + np.float32(brightness) + noise


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class SmallResNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (16, 32, 64)) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, stride=2, padding=1)
        pairs = zip((widths[0], *widths), widths, strict=False)
        self.blocks = nn.Sequential(*[Block(inputs, outputs, stride=2) for inputs, outputs in pairs])
        self.head = nn.Linear(widths[-1], len(CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(F.relu(self.stem(x))).mean(dim=(2, 3)))


def seed_worker(_worker: int) -> None:
    """Each worker draws its own augmentations: torch has seeded itself per worker, the others follow it."""
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


def make_loaders(args: argparse.Namespace) -> tuple[DataLoader, DataLoader]:
    paths = sorted(make_jpegs(args.images).glob("*.jpg"))
    held_out = len(paths) // 8
    common = {
        "batch_size": args.batch_size,
        "num_workers": args.num_workers,
        "persistent_workers": args.num_workers > 0,
        "pin_memory": args.device.startswith("cuda"),
        "worker_init_fn": seed_worker,
    }
    train = Pictures(paths[held_out:], augment=True, args=args)
    test = Pictures(paths[:held_out], augment=False, args=args)
    order = torch.Generator().manual_seed(args.seed)
    return DataLoader(train, shuffle=True, generator=order, **common), DataLoader(test, **common)


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader, device: str) -> float:
    model.eval()
    right = total = 0
    for images, labels in loader:
        guesses = model(images.to(device, non_blocking=True)).argmax(dim=1).cpu()
        right, total = right + int((guesses == labels).sum()), total + len(labels)
    model.train()
    return right / total


def train(args: argparse.Namespace) -> None:
    train_loader, test_loader = make_loaders(args)
    model = SmallResNet().to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    losses = open(args.losses, "a") if args.losses else None  # noqa: SIM115
    step = 0
    for epoch in range(args.epochs):
        for images, labels in train_loader:
            images = images.to(args.device, non_blocking=True)
            labels = labels.to(args.device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if losses:
                print(loss.item().hex(), file=losses, flush=True)
            if step == args.steps:
                break
        accuracy = evaluate(model, test_loader, args.device)
        print(f"epoch {epoch}  step {step}  loss {loss.item():.3f}  accuracy {accuracy:.2f}", flush=True)
        if args.out:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, args.out
            )
        if step == args.steps:
            break


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-workers", type=int, default=2, help="DataLoader workers (default 2)")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="stop after this many optimizer steps")
    parser.add_argument(
        "--read-latency-ms", type=float, default=0.0, help="play a slow disk: wait at each read"
    )
    parser.add_argument(
        "--read-ahead", type=int, default=1, metavar="N", help="a read brings the N neighbours it lies among"
    )
    parser.add_argument(
        "--image-size", type=int, default=64, help="pixels a side the network sees (default 64)"
    )
    parser.add_argument("--images", type=int, default=384, help="how many pictures to make (default 384)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default 1 on a CPU)")
    parser.add_argument("--out", help="write a checkpoint here after each epoch")
    parser.add_argument("--losses", metavar="FILE", help="append the exact loss of each step, in hex")
    args = parser.parse_args()
    if args.images < 16:
        parser.error("--images must be at least 16: one in eight is held out for the evaluation")
    if args.read_ahead < 1:
        parser.error("--read-ahead must be at least 1")
    return args


if __name__ == "__main__":
    args = parse_arguments()
    if args.threads or args.device == "cpu":
        torch.set_num_threads(args.threads or 1)
    torch.backends.cudnn.deterministic = True  # the same losses again on a GPU too
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    train(args)
