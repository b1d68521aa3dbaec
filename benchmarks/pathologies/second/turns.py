"""An evolution-flavoured policy search: two worker processes roll out, the learner waits, then they wait.

The rollouts are batched and in processes of their own; but the learner asks for one and stands still until it
is there. A perfect diagnosis: rollout and update take turns, the GPU is idle during the rollout while the
training thread waits for other processes at the line marked below. Fix: the next rollout is asked for before
the updates on this one, so that both run at once.
"""

import multiprocessing
import time

import numpy as np
import torch
from meter import Meter
from torch import nn

STATE, UPDATES, WORKERS = 32, 4, 2


def roll_out(weights, seconds, rng):
    """Point masses that a linear policy pushes; as many steps as the time allows."""
    state = rng.normal(size=(64, STATE)).astype(np.float32)
    end_s = time.perf_counter() + seconds
    while True:
        state = 0.95 * state + 0.1 * np.tanh(state @ weights)
        if time.perf_counter() >= end_s:
            return state, -np.square(state).mean(1)


def worker(pipe, seed):
    rng = np.random.default_rng(seed)
    while (asked := pipe.recv()) is not None:
        pipe.send(roll_out(*asked, rng))


class Crew:
    def __init__(self):
        context = multiprocessing.get_context("fork")
        self.pipes, self.processes = [], []
        for seed in range(WORKERS):
            mine, theirs = context.Pipe()
            process = context.Process(target=worker, args=(theirs, seed), daemon=True)
            process.start()
            self.pipes.append(mine)
            self.processes.append(process)

    def ask(self, weights, seconds):
        for pipe in self.pipes:
            pipe.send((weights, seconds))

    def answer(self):
        states, paid = zip(*[pipe.recv() for pipe in self.pipes], strict=True)  # planted
        return torch.from_numpy(np.concatenate(states)), torch.from_numpy(np.concatenate(paid))

    def dismiss(self):
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(None)
            process.join()


def main():
    meter = Meter(__doc__)
    crew = Crew()  # before the GPU is touched: the workers are forked
    width = meter.pick(4096, 128)
    body = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(meter.pick(6, 2))]
    critic = nn.Sequential(nn.Linear(STATE, width), *body, nn.Linear(width, 1)).to(meter.device)
    optimizer = torch.optim.SGD(critic.parameters(), lr=1e-4)
    rows = meter.pick(16384, 256)

    def update(states, paid):
        chosen = torch.randint(len(states), (rows,), device=meter.device)
        with meter.autocast():
            loss = (critic(states[chosen]).squeeze(1) - paid[chosen]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def policy():
        return critic[0].weight[:STATE].detach().float().cpu().numpy()

    still = torch.zeros(64, STATE, device=meter.device), torch.zeros(64, device=meter.device)
    meter.calibrate(lambda: update(*still))
    seconds = UPDATES * meter.added_s
    crew.ask(policy(), seconds)
    states, paid = crew.answer()
    if meter.fixed:
        crew.ask(policy(), seconds)
    while meter.going_on():
        if not meter.fixed:
            weights = policy()
            with meter.injecting():  # the weights have come from the GPU: it has nothing left to do
                crew.ask(weights, seconds)
                states, paid = crew.answer()
        states, paid = states.to(meter.device), paid.to(meter.device)
        for _ in range(UPDATES):
            update(states, paid)
            meter.ticked()
        if meter.fixed:
            states, paid = crew.answer()
            crew.ask(policy(), seconds)
    if meter.fixed:
        crew.answer()
    crew.dismiss()
    meter.report()


if __name__ == "__main__":
    main()
