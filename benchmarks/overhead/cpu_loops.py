"""Trainings of one CPU thread whose cost of watching is measured (`inside_cost.py`)."""

from __future__ import annotations

from typing import Any

from turns import hooked


class OffPolicy:
    """Actor and critic, a replay sample, an env step, one update: the shape of an off-policy trainer."""

    def __init__(self, width: int, batch: int, device: str) -> None:
        import gymnasium
        import torch

        self.torch, self.device, self.width = torch, torch.device(device), width
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.actor, self.critic, self.target = self.net(3), self.net(4), self.net(4)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters())
        self.env = gymnasium.make("Pendulum-v1")
        self.observation, _ = self.env.reset(seed=0)
        self.data = self.remembered()
        self.batch = batch

    def net(self, inputs: int) -> Any:
        nn, width = self.torch.nn, self.width
        layers = [
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        ]
        return nn.Sequential(*layers).to(self.device)

    def remembered(self) -> Any:
        return self.torch.randn(10_000, 8)

    def seen(self) -> Any:
        """The observation, as the actor takes it."""
        return self.torch.as_tensor(self.observation, device=self.device)[None]

    def with_action(self, rows: Any, action: Any) -> Any:
        return self.torch.cat([rows, action], 1)

    def objects(self) -> list[object]:
        """What Stoker's hooks are about, in this loop."""
        return hooked(self)

    def tick(self) -> None:
        torch = self.torch
        with torch.no_grad():
            action = self.actor(self.seen())[0].cpu().numpy()
        self.observation, _, terminated, truncated, _ = self.env.step(action)
        if terminated or truncated:
            self.observation, _ = self.env.reset()
        rows = self.data[torch.randint(len(self.data), (self.batch,))].to(self.device)
        with torch.no_grad():
            goal = rows.flatten(1)[:, -1:] + 0.99 * self.target(rows[:, :4])
        loss = torch.nn.functional.mse_loss(self.critic(rows[:, :4]), goal)
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        policy = -self.critic(self.with_action(rows[:, :3], self.actor(rows[:, :3]))).mean()
        self.actor_optimizer.zero_grad()
        policy.backward()
        self.actor_optimizer.step()


class Pixels(OffPolicy):
    """The same from pictures. A tick of convolutions wanders less than one of large matrices, which wait for
    memory that the machine shares with others: 2 % instead of 7 % from one tick to the next."""

    SIDE = 12

    def net(self, inputs: int) -> Any:
        nn, width = self.torch.nn, self.width
        layers = [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)]
        layers += [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1)]
        return nn.Sequential(*layers).to(self.device)

    def remembered(self) -> Any:
        return self.torch.randn(400, 5, self.SIDE, self.SIDE)

    def seen(self) -> Any:
        return super().seen()[:, :, None, None].expand(1, 3, self.SIDE, self.SIDE)

    def with_action(self, rows: Any, action: Any) -> Any:
        return super().with_action(rows, action[:, :, None, None].expand(-1, 1, self.SIDE, self.SIDE))


class Supervised:
    """A loader in the training thread, one model, one optimizer."""

    EPOCH = 50

    def __init__(self, width: int, batch: int, device: str) -> None:
        import torch

        self.torch, self.device, self.batch = torch, torch.device(device), batch
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = [torch.nn.Linear(64, width)]
        for _ in range(4):
            layers += [torch.nn.ReLU(), torch.nn.Linear(width, width)]
        self.model = torch.nn.Sequential(*layers).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        rows = torch.utils.data.TensorDataset(torch.randn(self.EPOCH * batch, 64))
        sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(rows), batch, True)
        self.loader = torch.utils.data.DataLoader(rows, sampler=sampler, batch_size=None)
        self.batches = iter(self.loader)

    def objects(self) -> list[object]:
        return [self.optimizer, self.loader, self.batches, *self.model.modules()]

    def tick(self) -> None:
        rows = next(self.batches, None)
        if rows is None:
            self.batches = iter(self.loader)
            rows = next(self.batches)
        loss = self.model(rows[0].to(self.device)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
