"""PPO whose rollout asks the policy for one environment at a time.

The environments themselves are cheap: one tensor operation for all. A perfect diagnosis: inference of batch
size one, many times a step, at the line marked below; the GPU does next to nothing in it. Fix: one call of
the policy for all environments. An iteration is a rollout and `EPOCHS` updates; a tick is an update.
"""

import itertools

import torch
from meter import Meter
from torch import nn
from torch.distributions import Categorical

ENVS, STATE, ACTIONS, EPOCHS = 32, 16, 6, 4


class Drift:
    """All environments at once, on the device: the state drifts, an action pushes it back."""

    def __init__(self, device):
        self.state = torch.randn(ENVS, STATE, device=device)
        self.push = torch.randn(ACTIONS, STATE, device=device)

    def step(self, actions):
        self.state = 0.98 * self.state + 0.1 * self.push[actions]
        return self.state, -self.state.square().mean(1)


class Policy(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        sizes = [STATE] + [width] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.logits, self.value = nn.Linear(width, ACTIONS), nn.Linear(width, 1)

    def forward(self, state):
        for layer in self.layers:
            state = torch.relu(layer(state))
        return Categorical(logits=self.logits(state).float()), self.value(state).float().squeeze(-1)


@torch.no_grad()
def choose(policy, states, one_by_one):
    if not one_by_one:
        return policy(states)[0].sample()
    actions = []
    for state in states:
        actions.append(policy(state[None])[0].sample().item())  # planted
    return torch.tensor(actions, device=states.device)


def rollout(meter, policy, env, steps, one_by_one):
    kept = []
    for _ in range(steps):
        state = env.state
        with meter.injecting():
            actions = choose(policy, state, one_by_one)
        _, reward = env.step(actions)
        kept.append((state, actions, reward))
    return [torch.cat(column) for column in zip(*kept, strict=True)]


def update(meter, policy, optimizer, states, actions, rewards, rows):
    """The rollout repeated with noise to a full batch, as an augmentation."""
    chosen = torch.randint(len(states), (rows,), device=states.device)
    with meter.autocast():
        dist, value = policy(states[chosen] + 0.01 * torch.randn(rows, STATE, device=states.device))
    gain = rewards[chosen] - value.detach()
    ratio = (dist.log_prob(actions[chosen]) - dist.log_prob(actions[chosen]).detach()).exp()
    loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
    loss = loss + (value - rewards[chosen]).square().mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    meter = Meter(__doc__)
    policy = Policy(*meter.pick((2048, 6), (128, 3))).to(meter.device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-5, fused=meter.gpu)
    env, rows = Drift(meter.device), meter.pick(65536, 256)
    batch = rollout(meter, policy, env, 4, one_by_one=False)
    healthy_s = meter.calibrate(lambda: update(meter, policy, optimizer, *batch, rows))
    step_s = meter.timed_s(lambda: choose(policy, env.state, one_by_one=True))
    steps = max(2, round(EPOCHS * meter.share * healthy_s / step_s))
    losses = []
    while meter.going_on():
        batch = rollout(meter, policy, env, steps, one_by_one=meter.sick)
        for _ in range(EPOCHS):
            loss = update(meter, policy, optimizer, *batch, rows)
            meter.ticked()
        losses.append(loss.item())
    meter.report()


if __name__ == "__main__":
    main()
