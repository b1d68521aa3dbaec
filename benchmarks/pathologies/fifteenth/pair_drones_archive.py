"""Two faults: drones of a swarm ask their recurrent policy one by one, and the swarm is saved too often.

Each takes three quarters of a dose. A perfect diagnosis names both: one inference per agent (first marked
line), and saving (second). Fix: one inference for the swarm, and an archive every few thousand steps.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

PART, SEEN, MOVES, SIZE, LEARNT, RARELY = 0.75, 9, 3, 48, 256, 5000


class Sky:
    """Places and speeds of all drones, as arrays; each sees the middle of the swarm."""

    def __init__(self, drones):
        rng = np.random.default_rng(5)
        self.place, self.speed = rng.normal(size=(2, drones, 3)).astype(np.float32)

    def observe(self):
        middle = np.broadcast_to(self.place.mean(0), self.place.shape)
        return np.hstack([self.place, self.speed, middle])

    def advance(self, moves):
        self.speed = 0.95 * self.speed + 0.05 * np.tanh(moves)
        self.place = np.clip(self.place + 0.1 * self.speed, -5, 5)
        return -np.linalg.norm(self.place - self.place.mean(0), axis=1)


class DronePolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.move = nn.GRUCell(SEEN, SIZE), nn.Linear(SIZE, MOVES)

    def forward(self, seen, state):
        state = self.cell(seen, state)
        return self.move(state), state


class Drone:
    def __init__(self, policy, device):
        self.policy, self.device, self.state = policy, device, torch.zeros(1, SIZE, device=device)

    @torch.no_grad()
    def decide(self, seen):
        seen = torch.as_tensor(seen, device=self.device)[None]
        move, self.state = self.policy(seen, self.state)  # planted
        return move[0].cpu().numpy()


class Swarm:
    def __init__(self, policy, count, device):
        self.drones = [Drone(policy, device) for _ in range(count)]

    def decide(self, seen):
        return np.stack([drone.decide(row) for drone, row in zip(self.drones, seen, strict=True)])


class JointSwarm:
    def __init__(self, policy, count, device):
        self.policy, self.device, self.state = policy, device, torch.zeros(count, SIZE, device=device)

    @torch.no_grad()
    def decide(self, seen):
        moves, self.state = self.policy(torch.as_tensor(seen, device=self.device), self.state)
        return moves.cpu().numpy()


class Learner:
    def __init__(self, device):
        self.device, self.policy = device, DronePolicy().to(device)
        self.critic = nn.Sequential(
            nn.Linear(SEEN + MOVES, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 1)
        ).to(device)
        params = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(params, lr=2e-4)
        self.log = torch.zeros(LEARNT, SEEN + MOVES + 1)

    def learn(self, seen, moves, rewards):
        new = torch.from_numpy(np.hstack([seen, moves, rewards[:, None]]).astype(np.float32))
        self.log = torch.cat([self.log, new])[-LEARNT:]
        seen, moves, reward = self.log.to(self.device).split((SEEN, MOVES, 1), 1)
        worth = self.critic(torch.cat([seen, moves], 1))
        wished, _ = self.policy(seen, seen.new_zeros(len(seen), SIZE))
        gain = (reward - worth.detach()).clamp(-1, 1)
        loss = F.mse_loss(worth, reward) + 0.1 * (gain * (wished - moves).square()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save(self, folder, step):
        """Weights and what the optimizer knows of each, in one file."""
        arrays = {}
        for part in ("policy", "critic"):
            for name, param in getattr(self, part).named_parameters():
                arrays[f"{part}.{name}"] = param.detach().cpu().numpy()
                for key in ("exp_avg", "exp_avg_sq"):
                    arrays[f"{part}.{name}.{key}"] = self.optimizer.state[param][key].cpu().numpy()
        np.savez(folder / f"swarm_{step % 2}.npz", **arrays)
        (folder / "latest.json").write_text(json.dumps({"step": step, "arrays": len(arrays)}))


def main():
    meter, drones = Meter(__doc__), 6
    learner, device = Learner(meter.device), meter.device

    def tick(sky, swarm):
        seen = sky.observe()
        with meter.injecting():
            moves = swarm.decide(seen)
        learner.learn(seen, moves, sky.advance(moves))

    sky, joint = Sky(drones), JointSwarm(learner.policy, drones, device)
    meter.calibrate(lambda: tick(sky, joint))
    part_s, save_every = PART * meter.added_s, RARELY
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if meter.dose:
            views = np.zeros((60, SEEN), np.float32)

            def deciding(count):
                swarm = Swarm(learner.policy, count, device)
                return lambda: swarm.decide(views[:count])

            drones = amount_taking(meter, deciding, 6, 46, part_s)
        if meter.sick:
            save_every = max(1, round(meter.timed_s(lambda: learner.save(folder, 0), calls=5) / part_s))
        sky, meter.injected_s = Sky(drones), 0.0
        swarm = (Swarm if meter.sick else JointSwarm)(learner.policy, drones, device)
        while meter.going_on():
            tick(sky, swarm)
            meter.ticked()
            if meter.ticks % save_every == 0:
                with meter.injecting():
                    learner.save(folder, meter.ticks)  # planted
        meter.report()


if __name__ == "__main__":
    main()
