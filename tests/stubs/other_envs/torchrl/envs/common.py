import torch


class EnvBase:
    batch_size = torch.Size([])

    def step(self, tensordict):
        return self._step(tensordict)

    def reset(self, tensordict=None):
        return {}
