"""A small MuZero of sliding stones: trees are searched with a learnt model, a tree for each of many games.

In every simulation each game asks the model for its own leaf, with a batch of one. How many games there
are is the dose. A perfect diagnosis: one inference per environment (any line marked below). Fix: in each
simulation the leaves of all games are asked together.
"""

import math

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

SEEN, STATE, MOVES, SIMULATIONS, LEARNT, UNROLL = 16, 64, 4, 3, 256, 3


class Node:
    __slots__ = ("children", "prior", "reward", "state", "value_sum", "visits")

    def __init__(self, prior):
        self.prior, self.state, self.children = prior, None, []
        self.visits, self.value_sum, self.reward = 0, 0.0, 0.0

    def value(self):
        return self.value_sum / self.visits if self.visits else 0.0

    def expand(self, state, reward, priors, value):
        self.state, self.reward = state, reward
        self.children = [Node(prior) for prior in priors]
        return value

    def best_child(self):
        root = math.sqrt(self.visits + 1)
        scores = [
            child.reward + 0.97 * child.value() + 1.25 * child.prior * root / (1 + child.visits)
            for child in self.children
        ]
        move = max(range(MOVES), key=scores.__getitem__)
        return move, self.children[move]


def descend(root):
    path, node, move = [root], root, 0
    while node.children:
        move, node = node.best_child()
        path.append(node)
    return path, move


def back_up(path, value):
    for node in reversed(path):
        node.visits += 1
        node.value_sum += value
        value = node.reward + 0.97 * value


class MuNet(nn.Module):
    def __init__(self, size=256):
        super().__init__()
        self.represent = nn.Sequential(nn.Linear(SEEN, size), nn.ReLU(), nn.Linear(size, STATE))
        self.dynamics = nn.Sequential(nn.Linear(STATE + MOVES, size), nn.ReLU(), nn.Linear(size, STATE + 1))
        self.predict = nn.Sequential(nn.Linear(STATE, size), nn.ReLU(), nn.Linear(size, MOVES + 1))

    def initial(self, seen):
        state = self.represent(seen).tanh()
        return state, self.predict(state)

    def recurrent(self, state, moves):
        out = self.dynamics(torch.cat([state, F.one_hot(moves, MOVES).float()], 1))
        state = out[:, 1:].tanh()
        return state, out[:, 0], self.predict(state)


@torch.inference_mode()
def roots_of(net, seen):
    states, predicted = net.initial(seen)
    roots = []
    for state, priors in zip(states, predicted[:, :MOVES].softmax(1).tolist(), strict=True):
        root = Node(1.0)
        root.expand(state, 0.0, priors, 0.0)
        roots.append(root)
    return roots


def told(states, rewards, predicted):
    priors = predicted[:, :MOVES].softmax(1).tolist()
    return zip(states, rewards.tolist(), priors, predicted[:, MOVES].tolist(), strict=True)


class SearchOfOne:
    def __init__(self, net):
        self.net = net

    @torch.inference_mode()
    def simulate(self, root):
        path, move = descend(root)
        state = path[-2].state[None]
        out = self.net.recurrent(state, torch.tensor([move], device=state.device))  # planted
        back_up(path, path[-1].expand(*next(told(*out))))

    def __call__(self, seen):
        roots = roots_of(self.net, seen)
        for root in roots:
            for _ in range(SIMULATIONS):
                self.simulate(root)  # planted
        return roots


class SearchOfAll:
    def __init__(self, net):
        self.net = net

    @torch.inference_mode()
    def __call__(self, seen):
        roots = roots_of(self.net, seen)
        for _ in range(SIMULATIONS):
            paths, moves = zip(*map(descend, roots), strict=True)
            states = torch.stack([path[-2].state for path in paths])
            out = self.net.recurrent(states, torch.tensor(moves, device=states.device))
            for path, leaf in zip(paths, told(*out), strict=True):
                back_up(path, path[-1].expand(*leaf))
        return roots


class SelfPlay:
    def __init__(self, games, device):
        self.boards, self.device = torch.rand(games, SEEN, device=device), device
        self.memory = torch.rand(LEARNT, SEEN + MOVES + 1, device=device)

    def advance(self, search):
        roots = search(self.boards)
        visits = torch.tensor([[child.visits for child in root.children] for root in roots]).to(self.device)
        values = torch.tensor([root.value() for root in roots], device=self.device)
        shares = visits / visits.sum(1, keepdim=True).clamp(min=1)
        self.memory = torch.cat([self.memory, torch.cat([self.boards, shares, values[:, None]], 1)])[-LEARNT:]
        moved = self.boards.roll(1, 1) * 0.9 + 0.1 * shares.argmax(1, keepdim=True)
        self.boards = moved.remainder(1)


def learner(net):
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)

    def learn(memory):
        seen, shares, values = memory.split((SEEN, MOVES, 1), 1)
        state, predicted = net.initial(seen)
        loss = F.cross_entropy(predicted[:, :MOVES], shares) + F.mse_loss(predicted[:, MOVES:], values)
        for _ in range(UNROLL):
            state, reward, predicted = net.recurrent(state, shares.argmax(1))
            loss = loss + F.cross_entropy(predicted[:, :MOVES], shares) + 0.1 * reward.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return learn


def main():
    meter, games = Meter(__doc__), 6
    net = MuNet().to(meter.device)
    learn, one, every = learner(net), SearchOfOne(net), SearchOfAll(net)

    def tick(play, search):
        with meter.injecting():
            play.advance(search)  # planted
        learn(play.memory)

    play = SelfPlay(games, meter.device)
    meter.calibrate(lambda: tick(play, every))
    if meter.dose:

        def asking(count):
            seen = torch.rand(count, SEEN, device=meter.device)
            return lambda: one(seen)

        games = amount_taking(meter, asking, 4, 24, meter.added_s)
    play, search = SelfPlay(games, meter.device), one if meter.sick else every
    meter.injected_s = 0.0
    while meter.going_on():
        tick(play, search)
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
