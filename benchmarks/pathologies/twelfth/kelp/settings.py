"""What can be set: on a card, and on the first laptop it ran on; not every value was changed since."""

from dataclasses import dataclass, field


@dataclass
class LoaderSettings:
    batch_size: int = 16
    num_workers: int = 0
    shuffle: bool = True
    pin_memory: bool = False


@dataclass
class Settings:
    side: int = 32
    patch: int = 4
    width: int = 80
    depth: int = 4
    species: int = 9
    rate: float = 1e-5
    loader: LoaderSettings = field(default_factory=LoaderSettings)


LAPTOP = Settings()
CARD = Settings(side=128, patch=8, width=1536, depth=7, loader=LoaderSettings(batch_size=32, pin_memory=True))
