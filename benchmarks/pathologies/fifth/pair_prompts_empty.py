"""Two faults: prompts become bags of words in Python lists, and the cache of GPU memory is emptied often.

Each takes three quarters of a dose. A perfect diagnosis names both: the counting on the training thread
(first marked line) and an allocator that gives memory back to ask for it again (second). Fix: prompts are
counted once and kept, and nothing is emptied. Needs a GPU.
"""

import random

import torch
import torch.nn.functional as F
from stopwatch import Meter
from torch import nn

PART, WORDS, PIXELS, PROMPT = 0.75, 512, 768, 24


class Prompts:
    def __init__(self, count, seed=0):
        rng = random.Random(seed)
        self.texts = [rng.choices(range(WORDS), k=PROMPT) for _ in range(count)]
        self.known = {}

    def bag(self, number):
        text = self.texts[number % len(self.texts)]
        return [text.count(word) for word in range(0, WORDS, 4)]  # planted

    def kept_bag(self, number):
        number %= len(self.texts)
        if number not in self.known:
            self.known[number] = self.bag(number)
        return self.known[number]

    def batch(self, count, bag):
        return torch.tensor([bag(n) for n in range(max(1, count))], dtype=torch.float32)


class Painter(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.noise, self.words = nn.Linear(64, width), nn.Linear(WORDS // 4, width)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.pixels = nn.Linear(width, PIXELS)

    def forward(self, noise, bags):
        h = self.noise(noise) + self.words(bags)
        for layer in self.body:
            h = h + F.leaky_relu(layer(h), 0.2)
        return self.pixels(h).tanh()


class Critic(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter, self.leave = nn.Linear(PIXELS, width), nn.Linear(width, 1)
        self.body = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, pictures):
        h = self.enter(pictures)
        for layer in self.body:
            h = h + F.leaky_relu(layer(h), 0.2)
        return self.leave(h)


class Studio:
    def __init__(self, meter):
        self.meter, shape, self.rows = meter, meter.pick((3072, 3), (48, 1)), meter.pick(8192, 32)
        self.painter, self.critic = (kind(*shape).to(meter.device) for kind in (Painter, Critic))
        self.paint_opt, self.critic_opt = (
            torch.optim.Adam(net.parameters(), 1e-5, betas=(0.0, 0.99), fused=meter.gpu)
            for net in (self.painter, self.critic)
        )
        self.pictures = torch.rand(self.rows, PIXELS, device=meter.device)

    def learn(self, loss, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def tick(self, bags, emptied=False):
        bags = (bags.pin_memory() if self.meter.gpu else bags).to(self.meter.device, non_blocking=True)
        bags = bags.repeat(-(-self.rows // len(bags)), 1)[: self.rows]
        noise = torch.randn(self.rows, 64, device=self.meter.device)
        with self.meter.autocast():
            painted = self.painter(noise, bags)
            real, fake = self.critic(self.pictures), self.critic(painted.detach())
        self.learn(F.softplus(-real.float()).mean() + F.softplus(fake.float()).mean(), self.critic_opt)
        with self.meter.autocast():
            judged = self.critic(painted)
        self.learn(F.softplus(-judged.float()).mean(), self.paint_opt)
        if emptied:
            del painted, real, fake, judged, noise
            torch.cuda.empty_cache()  # planted


def main():
    meter = Meter(__doc__)
    studio, prompts = Studio(meter), Prompts(5000)
    one = prompts.batch(1, prompts.bag)
    healthy_s = meter.calibrate(lambda: studio.tick(one))
    part_s, count, every = PART * meter.added_s, 1, 0
    if meter.dose:
        bag_s = meter.timed_s(lambda: prompts.batch(50, prompts.bag)) / 50
        count = max(1, round((part_s + (healthy_s if meter.gpu else 0.0)) / bag_s))
    if meter.sick and meter.gpu:
        fresh_s = meter.timed_s(lambda: studio.tick(one, emptied=True), calls=6) - healthy_s
        every = max(1, round(fresh_s / part_s))
    bag = prompts.bag if meter.sick else prompts.kept_bag
    while meter.going_on():
        studio.tick(prompts.batch(count, bag), emptied=bool(every) and meter.ticks % every == 0)
        meter.ticked()
    meter.report(excess=True)


if __name__ == "__main__":
    main()
