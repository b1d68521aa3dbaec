"""A small on-policy trainer: PPO over a simulator that moves thousands of environments at once.

    python examples/onpolicy.py --num-envs 64 --iterations 30
    python examples/onpolicy.py --num-envs 4096 --method amp

`--method amp` adds a discriminator that tells a reference motion from the policy's and pays the policy for
being taken for it; `ase` adds to that a latent skill for each environment and an encoder that has to read the
skill from the motion. The simulator lives on the training device and is not a Gymnasium environment, so
Stoker has to be told which call it is:

    stoker run --env __main__:Swarm.step -- python examples/onpolicy.py

With the same seed two runs on one CPU thread give the same losses to the last bit; `--losses FILE` writes
them down.
"""

import argparse
import time
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

GAMMA, LAMBDA, CLIP = 0.97, 0.95, 0.2
ENTROPY_BONUS, PENALTY = 1e-3, 2.0
STYLE_WEIGHT, SKILL_WEIGHT = 0.3, 0.1
TIME_STEP_S, PUSH, DRAG, EPISODE_STEPS = 0.05, 4.0, 0.5, 64
STATE, ACTION, SKILL = 4, 2, 8  # a state is the way to the target and the velocity, in the plane


def moved(state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """The physics: a point mass of one kilogram, pushed and dragged, one step later."""
    offset, velocity = state.split(2, dim=1)
    velocity = velocity + TIME_STEP_S * (PUSH * action.clamp(-1, 1) - DRAG * velocity)
    return torch.cat((offset - TIME_STEP_S * velocity, velocity), dim=1)


class Swarm:
    """Point masses that each have a target; an episode lasts EPISODE_STEPS, then a new target is drawn."""

    def __init__(self, num_envs: int, device: str) -> None:
        self.num_envs, self.device = num_envs, device
        self.state = self.beginnings()
        self.age = torch.randint(EPISODE_STEPS, (num_envs,), device=device)  # they do not all end at once

    def beginnings(self) -> torch.Tensor:
        offset = torch.rand(self.num_envs, 2, device=self.device) * 4 - 2
        return torch.cat((offset, torch.zeros_like(offset)), dim=1)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The state after it, the reward, and whose episode is over; those stand at a new beginning then."""
        after = moved(self.state, action)
        reward = torch.exp(-2 * after[:, :2].norm(dim=1)) - 0.01 * action.square().sum(dim=1)
        self.age += 1
        over = self.age >= EPISODE_STEPS
        self.state = torch.where(over[:, None], self.beginnings(), after)
        self.age = torch.where(over, torch.zeros_like(self.age), self.age)
        return after, reward, over


def reference_motion(num_envs: int, device: str) -> torch.Tensor:
    """Pairs of states of somebody who goes to the target in a wide curve, at a steady pace."""
    state, pairs = Swarm(num_envs, device).state, []
    for _ in range(EPISODE_STEPS):
        offset, velocity = state.split(2, dim=1)
        aside = torch.stack((-offset[:, 1], offset[:, 0]), dim=1)
        wanted = F.normalize(offset + 0.6 * aside, dim=1) * offset.norm(dim=1, keepdim=True).clamp(max=0.8)
        after = moved(state, 2 * (wanted - velocity))
        pairs.append(torch.cat((state, after), dim=1))
        state = after
    return torch.cat(pairs)


def mlp(inputs: int, outputs: int, hidden: int) -> nn.Sequential:
    layers = (nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


class Agent(nn.Module):
    """Actor and critic, and for the other two methods a discriminator and an encoder, in one module."""

    def __init__(self, method: str, hidden: int) -> None:
        super().__init__()
        inputs = STATE + (SKILL if method == "ase" else 0)
        self.actor, self.critic = mlp(inputs, ACTION, hidden), mlp(inputs, 1, hidden)
        self.log_std = nn.Parameter(torch.full((ACTION,), -0.5))
        self.discriminator = mlp(2 * STATE, 1, hidden) if method != "ppo" else None
        self.encoder = mlp(2 * STATE, SKILL, hidden) if method == "ase" else None

    def forward(self, seen: torch.Tensor) -> tuple[torch.distributions.Normal, torch.Tensor]:
        policy = torch.distributions.Normal(self.actor(seen), self.log_std.exp(), validate_args=False)
        return policy, self.critic(seen).squeeze(-1)

    @torch.no_grad()
    def style_reward(self, pair: torch.Tensor, skill: torch.Tensor) -> torch.Tensor:
        """What the method pays beside the task."""
        reward = torch.zeros(pair.shape[:-1], device=pair.device)
        if self.discriminator is not None:
            reward = reward + STYLE_WEIGHT * F.softplus(self.discriminator(pair).squeeze(-1))
        if self.encoder is not None:
            reward = reward + SKILL_WEIGHT * (F.normalize(self.encoder(pair), dim=-1) * skill).sum(dim=-1)
        return reward

    def style_loss(self, pair: torch.Tensor, skill: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """The discriminator says yes to the reference and no to the policy, with a gradient penalty."""
        reference = reference.requires_grad_()
        real, fake = self.discriminator(reference), self.discriminator(pair)
        (slope,) = torch.autograd.grad(real.sum(), reference, create_graph=True)
        loss = F.softplus(-real).mean() + F.softplus(fake).mean() + PENALTY * slope.square().sum(dim=1).mean()
        if self.encoder is not None:
            loss = loss - (F.normalize(self.encoder(pair), dim=1) * skill).sum(dim=1).mean()
        return loss


@dataclass
class Rollout:
    """`horizon` steps of all environments; each field is (horizon, num_envs, …), or flat to learn from it."""

    seen: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    pair: torch.Tensor
    skill: torch.Tensor
    advantage: torch.Tensor
    gain: torch.Tensor

    def rows(self, which: torch.Tensor) -> "Rollout":
        return Rollout(*(column.flatten(0, 1)[which] for column in vars(self).values()))


class Collector:
    """Plays the policy in the environments and works out what each action was worth."""

    def __init__(self, args: argparse.Namespace, agent: Agent) -> None:
        self.env, self.agent, self.horizon = Swarm(args.num_envs, args.device), agent, args.horizon
        self.skill = self.skills()
        self.mean_reward = torch.zeros((), device=args.device)  # of the task alone, in the last rollout

    def skills(self) -> torch.Tensor:
        size = SKILL if self.agent.encoder is not None else 0
        return F.normalize(torch.randn(self.env.num_envs, size, device=self.env.device), dim=1)

    @torch.no_grad()
    def collect(self) -> Rollout:
        steps = [self.step() for _ in range(self.horizon)]
        seen, action, log_prob, pair, skill, reward, over = map(torch.stack, zip(*steps, strict=True))
        self.mean_reward = reward.mean()  # not read back here: that would wait for the device
        reward = reward + self.agent.style_reward(pair, skill)
        after = torch.cat((pair[..., STATE:], skill), dim=-1)
        advantage, value = self.advantages(seen, after, reward, over)
        return Rollout(seen, action, log_prob, pair, skill, advantage, advantage + value)

    def step(self) -> tuple[torch.Tensor, ...]:
        state, skill = self.env.state, self.skill
        seen = torch.cat((state, skill), dim=1)
        policy, _ = self.agent(seen)
        action = policy.sample()
        after, reward, over = self.env.step(action)
        self.skill = torch.where(over[:, None], self.skills(), skill)
        log_prob = policy.log_prob(action).sum(dim=1)
        return seen, action, log_prob, torch.cat((state, after), dim=1), skill, reward, over

    def advantages(self, seen, after, reward, over) -> tuple[torch.Tensor, torch.Tensor]:
        """Generalised advantages; an episode that ends by its length still has a future worth something."""
        (_, value), (_, next_value) = self.agent(seen), self.agent(after)
        surprise = reward + GAMMA * next_value - value
        advantage, behind = torch.empty_like(surprise), torch.zeros_like(surprise[0])
        for t in reversed(range(self.horizon)):
            behind = surprise[t] + GAMMA * LAMBDA * ~over[t] * behind
            advantage[t] = behind
        return advantage, value


def ppo_loss(agent: Agent, rows: Rollout) -> torch.Tensor:
    policy, value = agent(rows.seen)
    ratio = (policy.log_prob(rows.action).sum(dim=1) - rows.log_prob).exp()
    better = (rows.advantage - rows.advantage.mean()) / (rows.advantage.std() + 1e-6)
    gained = torch.min(ratio * better, ratio.clamp(1 - CLIP, 1 + CLIP) * better).mean()
    return F.mse_loss(value, rows.gain) - gained - ENTROPY_BONUS * policy.entropy().sum(dim=1).mean()


def train(args: argparse.Namespace) -> None:
    agent = Agent(args.method, args.hidden).to(args.device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr)
    collector = Collector(args, agent)
    reference = reference_motion(256, args.device)
    losses = open(args.losses, "a") if args.losses else None  # noqa: SIM115
    samples = args.num_envs * args.horizon
    for iteration in range(args.iterations):
        start = time.perf_counter()
        rollout = collector.collect()
        for _ in range(args.epochs):
            for which in torch.randperm(samples, device=args.device).chunk(args.minibatches):
                rows = rollout.rows(which)
                loss = ppo_loss(agent, rows)
                if agent.discriminator is not None:
                    shown = reference[torch.randint(len(reference), (len(which),), device=args.device)]
                    loss = loss + agent.style_loss(rows.pair, rows.skill, shown)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 1.0)
                optimizer.step()
                if losses:
                    print(loss.item().hex(), file=losses, flush=True)
        mean_return = EPISODE_STEPS * collector.mean_reward.item()  # waits for the device
        speed = samples / (time.perf_counter() - start)
        print(
            f"iteration {iteration}  {speed:.0f} samples/s  return {mean_return:.2f}  loss {loss.item():.3f}",
            flush=True,
        )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=("ppo", "amp", "ase"), default="ppo")
    parser.add_argument("--num-envs", type=int, default=64, help="environments in the swarm (default 64)")
    parser.add_argument("--horizon", type=int, default=32, help="steps of each environment an iteration")
    parser.add_argument("--epochs", type=int, default=4, help="passes over a rollout (default 4)")
    parser.add_argument("--minibatches", type=int, default=4, help="updates in a pass (default 4)")
    parser.add_argument("--hidden", type=int, default=128, help="width of the networks (default 128)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default 1 on a CPU)")
    parser.add_argument("--losses", metavar="FILE", help="append the exact loss of each update, in hex")
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_arguments()
    if args.threads or args.device == "cpu":
        torch.set_num_threads(args.threads or 1)
    torch.manual_seed(args.seed)
    train(args)
