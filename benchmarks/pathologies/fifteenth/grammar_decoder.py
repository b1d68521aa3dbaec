"""Programs written by a recurrent decoder that may say only what the grammar allows, symbol by symbol.

What is allowed is found in Python, for each row and between any two steps of the cell. Over how many
symbols it looks back is the dose. A perfect diagnosis: hot lines of Python on the training thread (any
line marked below). Fix: a running depth and a table, both tensors.
"""

import torch
import torch.nn.functional as F
from stopwatch import Meter, amount_taking
from torch import nn

OPENING, CLOSING, STOP, NAMES = (0, 1, 2), (3, 4, 5), 6, 25
SYMBOLS, STEPS, BATCH, DEEPEST, BEFORE = 32, 16, 20, 6, 400
PARTNER = dict(zip(CLOSING, OPENING, strict=True))


def open_brackets(prefix):
    """The stack after the prefix; what does not fit is overlooked."""
    stack = []
    for symbol in prefix:
        if symbol in OPENING:
            stack.append(symbol)  # planted
        elif stack and PARTNER.get(symbol) == stack[-1]:  # planted
            stack.pop()
    return stack


def may_follow(stack):
    allowed = set(range(STOP, SYMBOLS)) - ({STOP} if stack else set())
    if len(stack) < DEEPEST:
        allowed.update(OPENING)
    allowed.update(CLOSING if stack else ())
    return allowed


def mask_row(allowed):
    return [symbol in allowed for symbol in range(SYMBOLS)]


class ByHand:
    def __init__(self, lookback):
        self.lookback = lookback

    def __call__(self, prefixes):
        rows = [mask_row(may_follow(open_brackets(row[-self.lookback :]))) for row in prefixes]  # planted
        return torch.tensor(rows)


class ByTable(nn.Module):
    """Depth is what was opened less what was closed, at least none."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.stack([self.row(depth) for depth in range(DEEPEST + 1)]))
        kind = torch.zeros(SYMBOLS)
        kind[list(OPENING)], kind[list(CLOSING)] = 1, -1
        self.register_buffer("kind", kind)

    @staticmethod
    def row(depth):
        return torch.tensor(mask_row(may_follow([0] * depth)))

    def forward(self, symbols, depth):
        depth = (depth + self.kind[symbols]).clamp(0, DEEPEST)
        return self.table[depth.long()], depth


class GrammarDecoder(nn.Module):
    def __init__(self, size=176):
        super().__init__()
        self.embed, self.cell = nn.Embedding(SYMBOLS, size), nn.GRUCell(size, size)
        self.say, self.table, self.by_hand = nn.Linear(size, SYMBOLS), ByTable(), None
        self.spent = None

    def forward(self, programs, prompts):
        state = self.cell.weight_hh.new_zeros(len(programs), self.cell.hidden_size)
        prefixes = [list(prompt) for prompt in prompts]
        depth, logits, before = state[:, 0], [], programs[:, 0]
        for symbols in programs.unbind(1):
            state = self.cell(self.embed(before), state)
            if self.by_hand:
                with self.spent():
                    allowed = self.by_hand(prefixes).to(state.device)  # planted
                    for prefix, symbol in zip(prefixes, symbols.tolist(), strict=True):
                        prefix.append(symbol)
            else:
                allowed, depth = self.table(symbols, depth)
            logits.append(self.say(state).masked_fill(~allowed, -30.0))
            before = symbols
        return torch.stack(logits, 1)


def main():
    meter = Meter(__doc__)
    decoder = GrammarDecoder().to(meter.device)
    optimizer = torch.optim.RMSprop(decoder.parameters(), lr=1e-4)
    programs = torch.randint(SYMBOLS, (BATCH, STEPS), device=meter.device)
    prompts = torch.randint(SYMBOLS, (BATCH, BEFORE)).tolist()

    def optimize():
        logits = decoder(programs, prompts)
        loss = F.cross_entropy(logits.flatten(0, 1), programs.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(decoder.parameters(), 1.0)
        optimizer.step()

    meter.calibrate(optimize)
    if meter.sick:
        looking = lambda lookback: lambda: ByHand(lookback)(prompts)  # noqa: E731
        lookback = amount_taking(meter, looking, 2, 82, meter.added_s / STEPS)
        decoder.by_hand, decoder.spent = ByHand(lookback), meter.injecting
    while meter.going_on():
        optimize()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
