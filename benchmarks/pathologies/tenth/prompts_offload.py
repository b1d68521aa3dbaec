"""Videos from words; the text encoder was offloaded to the CPU to save memory, of which most is free.

How long the prompts are is the dose. A perfect diagnosis: a part of the model computes on the CPU in every
step, and the GPU waits for what it says (marked below). Fix: the text encoder on the GPU, with the rest.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

WORDS, TEXT, FRAME = 5000, 128, 192


class TextEncoder(nn.Module):
    """Frozen; each word looks at all others of its prompt."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, TEXT)
        self.layer = nn.TransformerEncoderLayer(TEXT, 4, 4 * TEXT, batch_first=True, dropout=0.0)
        self.requires_grad_(False)

    def forward(self, prompts):
        return self.layer(self.words(prompts)).mean(1)


class VideoNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(FRAME, width), nn.Linear(width, FRAME)
        self.text = nn.Linear(TEXT, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, frames, text):
        h = self.enter(frames) + self.text(text)
        for layer in self.body:
            h = h + F.gelu(layer(h))
        return self.leave(h).float()


class Pipeline:
    def __init__(self, meter):
        self.meter, rows, self.prompts = meter, meter.pick(8192, 64), meter.pick(8, 2)
        self.net = VideoNet(*meter.pick((4096, 5), (160, 4))).to(meter.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-5, fused=meter.gpu)
        self.frames = torch.randn(rows, FRAME, device=meter.device)
        self.text_encoder = TextEncoder().to(meter.device)

    def offload(self):
        self.text_encoder.to("cpu")

    def encode_prompts(self, tokens):
        place = self.text_encoder.words.weight.device
        with torch.no_grad():
            text = self.text_encoder(tokens.to(place, non_blocking=True))  # planted
        text = text.pin_memory() if self.meter.gpu and text.device.type == "cpu" else text
        return text.to(self.meter.device, non_blocking=True)

    def step(self, tokens):
        text = self.encode_prompts(tokens)
        text = text.repeat_interleave(len(self.frames) // len(text), 0)
        noise = torch.randn_like(self.frames)
        with self.meter.autocast():
            guess = self.net(self.frames + noise, text)
        loss = F.mse_loss(guess, noise)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def prompts_of(pipeline, words):
    tokens = torch.randint(WORDS, (pipeline.prompts, words))
    return tokens.pin_memory() if pipeline.meter.gpu else tokens


def words_taking(pipeline, wanted_s):
    """The longest prompts that are done by then, in steps of 4 words."""
    words = 4
    while words < 4096:
        tokens = prompts_of(pipeline, words)
        if pipeline.meter.timed_s(lambda t=tokens: pipeline.encode_prompts(t), calls=4) >= wanted_s:
            break
        words = max(words + 4, words * 9 // 8)
    return words


def main():
    meter = Meter(__doc__)
    pipeline = Pipeline(meter)
    words, short = 4, prompts_of(pipeline, 4)
    meter.calibrate(lambda: pipeline.step(short))
    if meter.dose:
        pipeline.offload()
        words = words_taking(pipeline, meter.host_s)
    if not meter.sick:
        pipeline.text_encoder.to(meter.device)
    tokens = prompts_of(pipeline, words)
    while meter.going_on():
        pipeline.step(tokens)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
