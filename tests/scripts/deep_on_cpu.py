"""A training on the CPU that passes itself off as one on a GPU, for the deep window: Kineto is the real one,
its CPU operations take the place of kernels. Between the steps it sleeps, in a DataLoader."""

import sys
import time

import torch
from torch._C._profiler import ProfilerActivity


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return int(sys.argv[1])

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(64)


def pass_off_as_cuda() -> None:
    from _stoker_inside import agent, deep, deep_trace, wire

    deep.TRAINED_S, deep.WINDOW_S = 0.0, 0.3
    deep_trace._KINDS["cpu_op"] = wire.KERNEL
    deep._profile = lambda torch: torch.autograd.profiler.profile(use_kineto=True)
    supported = torch._C._autograd._supported_activities
    torch._C._autograd._supported_activities = lambda: {*supported(), ProfilerActivity.CUDA}
    torch.version.cuda = "12.8"
    torch.cuda.is_initialized = lambda: True
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.cuda.synchronize = lambda: None
    torch.cuda.current_stream = lambda: torch.Stream("cpu")
    agent.agent.hook("deep")._arm()


def train() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for rows in torch.utils.data.DataLoader(Slow(), batch_size=1):
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
    print(loss.item().hex())


if __name__ == "__main__":
    if "_stoker_inside" in sys.modules:
        pass_off_as_cuda()
    train()
