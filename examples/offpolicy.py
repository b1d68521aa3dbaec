"""A small off-policy trainer: SAC or DDPG on a Gymnasium environment, with a NumPy replay buffer.

    python examples/offpolicy.py --steps 3000 --num-envs 4 --update-interval 8

`--update-interval N` makes N updates after every N environment steps, so the number of updates per
environment step stays one. `--env-latency-ms` plays an expensive simulator. With the same seed two runs on
one CPU thread give the same losses to the last bit; `--losses FILE` writes them down.
"""

import argparse
import copy
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

try:
    import gymnasium as gym
except ImportError:
    print("offpolicy.py needs Gymnasium: pip install gymnasium", file=sys.stderr)
    sys.exit(2)

GAMMA, POLYAK, LEARNING_RATE = 0.99, 0.005, 1e-3


class SlowSimulator(gym.Wrapper):
    def __init__(self, env: gym.Env, latency_s: float) -> None:
        super().__init__(env)
        self.latency_s = latency_s

    def step(self, action):
        time.sleep(self.latency_s)
        return self.env.step(action)


class ReplayBuffer:
    def __init__(self, capacity: int, observation_size: int, action_size: int, seed: int) -> None:
        self.observations = np.zeros((capacity, observation_size), dtype=np.float32)
        self.next_observations = np.zeros((capacity, observation_size), dtype=np.float32)
        self.actions = np.zeros((capacity, action_size), dtype=np.float32)
        self.rewards = np.zeros(capacity, dtype=np.float32)
        self.terminated = np.zeros(capacity, dtype=np.float32)
        self.rng = np.random.default_rng(seed)
        self.capacity, self.size, self.next_row = capacity, 0, 0

    def add(self, observation, action, reward, next_observation, terminated) -> None:
        row = self.next_row
        self.observations[row], self.next_observations[row] = observation, next_observation
        self.actions[row], self.rewards[row], self.terminated[row] = action, reward, terminated
        self.next_row = (row + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size: int, device: str) -> list[torch.Tensor]:
        rows = self.rng.integers(self.size, size=batch_size)
        columns = (self.observations, self.actions, self.rewards, self.next_observations, self.terminated)
        return [torch.from_numpy(column[rows]).to(device, non_blocking=True) for column in columns]


def mlp(inputs: int, outputs: int, hidden: int = 128) -> nn.Sequential:
    layers = (nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


class TwoCritics(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first, self.second = mlp(inputs, 1), mlp(inputs, 1)

    def forward(self, observation: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.cat((observation, action), dim=1)
        return self.first(both).squeeze(1), self.second(both).squeeze(1)


def follow(target: nn.Module, online: nn.Module) -> None:
    """The target network moves a little towards the one that is trained."""
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(fast, POLYAK)


class SAC:
    """Two critics, a squashed Gaussian actor, and a temperature that keeps the entropy near -action_size."""

    def __init__(self, observation_size: int, action_size: int, device: str) -> None:
        self.actor = mlp(observation_size, 2 * action_size).to(device)
        self.critics = TwoCritics(observation_size + action_size).to(device)
        self.target_critics = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.zeros(1, device=device, requires_grad=True)
        self.target_entropy = -float(action_size)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=LEARNING_RATE)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), lr=LEARNING_RATE)
        self.temperature_optimizer = torch.optim.Adam([self.log_temperature], lr=LEARNING_RATE)

    def sample_action(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.actor(observation).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        raw = normal.rsample()
        squash = 2 * (np.log(2) - raw - F.softplus(-2 * raw))  # log of the derivative of tanh
        return raw.tanh(), (normal.log_prob(raw) - squash).sum(dim=1)

    @torch.no_grad()
    def act(self, observation: torch.Tensor) -> torch.Tensor:
        return self.sample_action(observation)[0]

    def update(self, observation, action, reward, next_observation, terminated) -> torch.Tensor:
        temperature = self.log_temperature.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = self.sample_action(next_observation)
            next_value = torch.min(*self.target_critics(next_observation, next_action))
            goal = reward + GAMMA * (1 - terminated) * (next_value - temperature * next_log_prob)
        first, second = self.critics(observation, action)
        critic_loss = F.mse_loss(first, goal) + F.mse_loss(second, goal)
        descend(critic_loss, self.critic_optimizer)

        new_action, log_prob = self.sample_action(observation)
        actor_loss = (temperature * log_prob - torch.min(*self.critics(observation, new_action))).mean()
        descend(actor_loss, self.actor_optimizer)

        entropy_gap = (log_prob.detach() + self.target_entropy).mean()
        descend((-self.log_temperature * entropy_gap).sum(), self.temperature_optimizer)
        follow(self.target_critics, self.critics)
        return critic_loss.detach()


class DDPG:
    """One critic, a deterministic actor explored with Gaussian noise, a target of each."""

    def __init__(self, observation_size: int, action_size: int, device: str) -> None:
        self.actor = nn.Sequential(mlp(observation_size, action_size), nn.Tanh()).to(device)
        self.critic = mlp(observation_size + action_size, 1).to(device)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=LEARNING_RATE)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=LEARNING_RATE)

    @torch.no_grad()
    def act(self, observation: torch.Tensor) -> torch.Tensor:
        action = self.actor(observation)
        return (action + 0.1 * torch.randn_like(action)).clamp(-1, 1)

    def update(self, observation, action, reward, next_observation, terminated) -> torch.Tensor:
        with torch.no_grad():
            next_pair = torch.cat((next_observation, self.target_actor(next_observation)), dim=1)
            goal = reward + GAMMA * (1 - terminated) * self.target_critic(next_pair).squeeze(1)
        critic_loss = F.mse_loss(self.critic(torch.cat((observation, action), dim=1)).squeeze(1), goal)
        descend(critic_loss, self.critic_optimizer)
        descend(
            -self.critic(torch.cat((observation, self.actor(observation)), dim=1)).mean(),
            self.actor_optimizer,
        )
        follow(self.target_critic, self.critic)
        follow(self.target_actor, self.actor)
        return critic_loss.detach()


def descend(loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def make_envs(args: argparse.Namespace) -> gym.vector.VectorEnv:
    def make() -> gym.Env:
        return SlowSimulator(gym.make(args.env), args.env_latency_ms / 1000)

    envs = gym.vector.SyncVectorEnv([make for _ in range(args.num_envs)])
    if not isinstance(envs.single_action_space, gym.spaces.Box):
        print(f"{args.env} has no continuous actions; try --env Pendulum-v1", file=sys.stderr)
        sys.exit(2)
    return envs


def train(args: argparse.Namespace) -> None:
    envs = make_envs(args)
    low, high = envs.single_action_space.low, envs.single_action_space.high
    sizes = (int(np.prod(envs.single_observation_space.shape)), int(np.prod(low.shape)))
    agent = {"sac": SAC, "ddpg": DDPG}[args.algo](*sizes, args.device)
    replay = ReplayBuffer(100_000, *sizes, seed=args.seed)
    losses = open(args.losses, "a") if args.losses else None  # noqa: SIM115
    observations, _ = envs.reset(seed=args.seed)
    over = np.zeros(args.num_envs, dtype=bool)
    returns, finished = np.zeros(args.num_envs), []
    owed, loss = 0, None
    for step in range(args.num_envs, args.steps + 1, args.num_envs):
        if step <= args.warmup_steps:
            actions = replay.rng.uniform(-1, 1, size=(args.num_envs, sizes[1])).astype(np.float32)
        else:
            seen = torch.as_tensor(observations, dtype=torch.float32).to(args.device)
            actions = agent.act(seen).cpu().numpy()
        scaled = low + (actions.reshape(-1, *low.shape) + 1) / 2 * (high - low)
        next_observations, rewards, terminated, truncated, _ = envs.step(scaled)
        for i in np.flatnonzero(~over):  # where an episode was over, this step was its reset
            replay.add(observations[i], actions[i], rewards[i], next_observations[i], terminated[i])
            returns[i] += rewards[i]
        over = terminated | truncated
        finished += returns[over].tolist()
        returns[over] = 0
        observations = next_observations
        owed += args.num_envs if step > args.warmup_steps else 0
        if owed >= args.update_interval:
            for _ in range(owed):
                loss = agent.update(*replay.sample(args.batch_size, args.device))
                if losses:
                    print(loss.item().hex(), file=losses, flush=True)
            owed = 0
        last = step + args.num_envs > args.steps
        if (last or step % args.print_every < args.num_envs) and finished and loss is not None:
            print(
                f"step {step}  return {np.mean(finished[-10:]):.0f}  critic loss {loss.item():.3f}",
                flush=True,
            )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algo", choices=("sac", "ddpg"), default="sac")
    parser.add_argument(
        "--env", default="Pendulum-v1", help="a Gymnasium environment with continuous actions"
    )
    parser.add_argument("--num-envs", type=int, default=1, help="environments stepped together (default 1)")
    parser.add_argument(
        "--update-interval",
        type=int,
        default=1,
        help="N updates after every N env steps (default 1; whole vector steps)",
    )
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=10_000, help="environment steps in all (default 10000)")
    parser.add_argument("--warmup-steps", type=int, default=500, help="env steps with random actions first")
    parser.add_argument("--env-latency-ms", type=float, default=0.0, help="play an expensive simulator")
    parser.add_argument("--print-every", type=int, default=1000, metavar="N", help="env steps (default 1000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, help="torch threads (default 1 on a CPU)")
    parser.add_argument(
        "--losses", metavar="FILE", help="append the exact critic loss of each update, in hex"
    )
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_arguments()
    if args.threads or args.device == "cpu":
        torch.set_num_threads(args.threads or 1)
    torch.manual_seed(args.seed)
    train(args)
