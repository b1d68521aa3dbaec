"""An MLP-Mixer: patches are mixed, then channels, by turns."""

import torch.nn.functional as F
from torch import nn


class MixerLayer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, tokens), nn.GELU(), nn.Linear(tokens, tokens))
        self.within = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, h):
        h = h + self.across(self.before(h).transpose(1, 2)).transpose(1, 2)
        return h + self.within(self.after(h))


class Mixer(nn.Module):
    def __init__(self, settings):
        super().__init__()
        tokens = (settings.side // settings.patch) ** 2
        self.stem = nn.Conv2d(3, settings.width, settings.patch, stride=settings.patch)
        self.layers = nn.Sequential(*(MixerLayer(tokens, settings.width) for _ in range(settings.depth)))
        self.head = nn.Linear(settings.width, settings.species)

    def forward(self, photos):
        h = self.stem(photos.float() / 255).flatten(2).transpose(1, 2)
        return self.head(F.gelu(self.layers(h)).mean(1))
