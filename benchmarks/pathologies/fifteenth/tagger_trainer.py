"""Names in sentences, tagged by a transformer, in a trainer of the project's own with callbacks.

One of its callbacks asks for an evaluation after so many steps: losses and F1 of the sentences held out.
After how many is the dose. A perfect diagnosis: evaluation takes too large a part of the time (any line
marked below). Fix: every few thousand.
"""

from collections import Counter
from dataclasses import dataclass, field

import torch
from stopwatch import Meter
from torch import nn

WORDS, LENGTH, TAGS, BATCH, HELD_OUT = 1500, 20, ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), 16, 6


@dataclass
class TrainingArguments:
    learning_rate: float = 5e-4
    eval_steps: int = 4000
    logging_steps: int = 100
    max_grad_norm: float = 1.0


@dataclass
class TrainerState:
    global_step: int = 0
    should_evaluate: bool = False
    should_stop: bool = False
    log_history: list = field(default_factory=list)


class TrainerCallback:
    def on_step_end(self, args, state, trainer):
        pass


class FlowCallback(TrainerCallback):
    """Says what is due."""

    def on_step_end(self, args, state, trainer):
        state.should_evaluate = state.global_step % args.eval_steps == 0


class LoggingCallback(TrainerCallback):
    def on_step_end(self, args, state, trainer):
        if state.global_step % args.logging_steps == 0:
            state.log_history.append({"step": state.global_step, "loss": float(trainer.smoothed)})


class MeterCallback(TrainerCallback):
    def __init__(self, meter):
        self.meter = meter

    def on_step_end(self, args, state, trainer):
        self.meter.ticked()
        if state.should_evaluate:
            with self.meter.injecting():
                state.log_history.append(trainer.evaluate())  # planted
            state.should_evaluate = False
        state.should_stop = not self.meter.going_on()


class Tagger(nn.Module):
    def __init__(self, size=80):
        super().__init__()
        self.words = nn.Embedding(WORDS, size)
        self.places = nn.Parameter(torch.randn(LENGTH, size) * 0.02)
        layer = nn.TransformerEncoderLayer(size, 4, 2 * size, 0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.tags = nn.Linear(size, len(TAGS))

    def forward(self, input_ids, labels):
        logits = self.tags(self.encoder(self.words(input_ids) + self.places))
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


def spans(tags):
    """Names: of which kind, from where, to where."""
    found, begin = [], None
    for place, tag in enumerate([*tags, 0]):
        if begin is not None and TAGS[tag][0] != "I":
            found.append((TAGS[tags[begin]][2:], begin, place))
            begin = None
        if TAGS[tag][0] == "B":
            begin = place
    return found


def compute_metrics(guesses, truths):
    right, said, meant = Counter(), Counter(), Counter()
    for guess, truth in zip(guesses, truths, strict=True):
        guess, truth = set(spans(guess)), set(spans(truth))
        right.update(kind for kind, *_ in guess & truth)
        said.update(kind for kind, *_ in guess)
        meant.update(kind for kind, *_ in truth)
    return {f"f1_{kind}": 2 * right[kind] / max(1, said[kind] + meant[kind]) for kind in ("PER", "LOC")}


class Trainer:
    def __init__(self, model, args, train_set, eval_set, callbacks, device):
        self.model, self.args, self.device = model.to(device), args, device
        self.train_set, self.eval_set = train_set, eval_set
        self.callbacks, self.state, self.smoothed = callbacks, TrainerState(), torch.zeros(())
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    def _prepare_inputs(self, inputs):
        return {name: tensor.to(self.device) for name, tensor in inputs.items()}

    def training_step(self, inputs):
        self.model.train()
        loss, _ = self.model(**self._prepare_inputs(inputs))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
        self.optimizer.step()
        self.smoothed = 0.98 * self.smoothed + 0.02 * loss.detach().cpu()

    def call_event(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self.args, self.state, self)

    @torch.no_grad()
    def evaluation_loop(self):
        self.model.eval()
        losses, guesses, truths = [], [], []
        for inputs in self.eval_set:
            loss, logits = self.model(**self._prepare_inputs(inputs))  # planted
            losses.append(loss.item())
            guesses += logits.argmax(2).tolist()
            truths += inputs["labels"].tolist()
        return losses, guesses, truths

    def evaluate(self):
        losses, guesses, truths = self.evaluation_loop()  # planted
        metrics = compute_metrics(guesses[:BATCH], truths[:BATCH])
        return {"step": self.state.global_step, "eval_loss": sum(losses) / len(losses), **metrics}

    def train(self):
        while not self.state.should_stop:
            self.training_step(self.train_set[self.state.global_step % len(self.train_set)])
            self.state.global_step += 1
            self.call_event("on_step_end")


def sentences(count):
    for _ in range(count):
        labels = torch.randint(len(TAGS), (BATCH, LENGTH)) * (torch.rand(BATCH, LENGTH) < 0.3)
        yield {"input_ids": torch.randint(WORDS, (BATCH, LENGTH)), "labels": labels}


def main():
    meter, args = Meter(__doc__), TrainingArguments()
    callbacks = [FlowCallback(), LoggingCallback(), MeterCallback(meter)]
    sets = list(sentences(20)), list(sentences(HELD_OUT))
    trainer = Trainer(Tagger(), args, *sets, callbacks, meter.device)
    meter.calibrate(lambda: trainer.training_step(sets[0][0]))
    if meter.sick:
        args.eval_steps = max(1, round(meter.timed_s(trainer.evaluate, calls=5) / meter.added_s))
    meter.going_on()
    trainer.train()
    meter.report()


if __name__ == "__main__":
    main()
