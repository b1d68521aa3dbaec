"""timm's own training pieces on a GPU for some seconds: model, loader, augmentation, loss, optimizer.

    stoker run -- python benchmarks/public_trainers/timm_pieces.py [--seconds 20] [--workers 8]

The loop follows timm's train.py, which is not in its wheel. The pictures are a few JPEGs of noise, made in
memory and decoded for every sample; the loader is timm's with its prefetcher (a CUDA stream of its own).
"""

from __future__ import annotations

import argparse
import io
import sys
import time

import numpy as np
import torch
from PIL import Image

PICTURES, CLASSES = 64, 100


class Noise(torch.utils.data.Dataset):
    """timm's loader sets `transform`."""

    def __init__(self, count: int) -> None:
        self.count, self.transform = count, None
        rng = np.random.default_rng(0)
        self.files = [encoded(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)) for _ in range(PICTURES)]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple:
        picture = Image.open(io.BytesIO(self.files[index % PICTURES])).convert("RGB")
        return self.transform(picture), index % CLASSES


def encoded(pixels: np.ndarray) -> bytes:
    """Coarse noise, as large as a usual photograph of a data set."""
    file = io.BytesIO()
    Image.fromarray(pixels).resize((500, 375)).save(file, "JPEG", quality=90)
    return file.getvalue()


def train(args: argparse.Namespace) -> None:
    import timm.data
    import timm.loss
    import timm.optim
    import timm.utils

    model = timm.create_model(args.model, pretrained=False, num_classes=CLASSES).cuda()
    loader = timm.data.create_loader(
        Noise(200_000),
        input_size=(3, 224, 224),
        batch_size=args.batch_size,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        num_workers=args.workers,
        pin_memory=True,
    )
    loss_of = timm.loss.LabelSmoothingCrossEntropy(smoothing=0.1)
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    scaler, seen = timm.utils.NativeScaler(), timm.utils.AverageMeter()
    model.train()
    end = time.perf_counter() + args.seconds
    for step, (pictures, labels) in enumerate(loader):
        with torch.autocast("cuda", torch.float16):
            loss = loss_of(model(pictures), labels)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        if step % 50 == 0:
            seen.update(loss.item(), len(pictures))
            print(f"step {step}  loss {seen.val:.3f}  mean {seen.avg:.3f}", flush=True)
        if time.perf_counter() > end:
            break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--model", default="resnet50")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("timm_pieces.py needs an NVIDIA GPU: torch finds none here", file=sys.stderr)
        return 2
    torch.manual_seed(0)
    train(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
