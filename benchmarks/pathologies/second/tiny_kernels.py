"""A recurrent net written by hand, gate by gate and step by step: hundreds of tiny kernels a tick.

The smaller the batch, the less each kernel does: at dose 1 to 3 the GPU's own work is about 75, 50 and 33 %
of the time the host needs to launch it. A perfect diagnosis: launch-bound; no phase outside forward,
backward and the optimizer, and no wait, is to blame; most kernels are issued at the line marked below. Fix:
the whole step as one CUDA graph.
"""

import torch
from meter import SHARES, Meter
from torch import nn


class HandMadeGru(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.from_input, self.from_state = nn.Linear(inputs, 3 * width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, inputs)

    def forward(self, sequence):
        state = sequence.new_zeros(sequence.shape[1], self.from_state.in_features)
        guesses = []
        for moment in sequence:
            reset, update, new = self.from_input(moment).chunk(3, -1)
            old_reset, old_update, old_new = self.from_state(state).chunk(3, -1)  # planted
            update = torch.sigmoid(update + old_update)
            new = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
            state = (1 - update) * new + update * state
            guesses.append(self.out(state))
        return torch.stack(guesses)


def batch_for(meter, step_of, largest):
    """The size at which the GPU needs the wanted share of the host's time: its time grows with the batch."""
    smallest_s = meter.timed_s(step_of(8), calls=5)
    largest_s = meter.timed_s(step_of(largest), calls=5)
    wanted_s = smallest_s / (1 + SHARES[meter.dose])
    return max(8, int(largest * wanted_s / largest_s) // 8 * 8), smallest_s - wanted_s


def graphed(step, warmups=3):
    """The step captured once; what it returns replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmups):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    meter = Meter(__doc__)
    torch.set_float32_matmul_precision("high")
    inputs, width = meter.pick((256, 1024), (16, 32))
    largest = meter.pick(6144, 512)
    model = HandMadeGru(inputs, width).to(meter.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step_of(batch):
        sequence = torch.randn(meter.pick(32, 12), batch, inputs, device=meter.device)

        def step():
            loss = (model(sequence[:-1]) - sequence[1:]).square().mean()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()

        return step

    meter.calibrate(step_of(largest))
    batch, wasted_s = batch_for(meter, step_of, largest) if meter.dose else (largest, 0.0)
    step = step_of(batch)
    if meter.fixed and meter.gpu:
        step = graphed(step)
    while meter.going_on():
        step()
        meter.ticked(samples=batch)
        meter.injected_s += wasted_s if meter.sick else 0.0
    meter.report()


if __name__ == "__main__":
    main()
