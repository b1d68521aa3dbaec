"""Healthy control: papers sorted by field, over a graph of citations, by a net of two sparse products.

Plain: the whole graph is one batch, gradients of some dropped graphs are gathered for a step. A perfect
diagnosis: healthy, nothing to mend. The dose is taken and does nothing; there is no planted line.
"""

import torch
from stopwatch import Meter

PAPERS, WORDS, FIELDS, HIDDEN, CITED, DROPS = 1200, 160, 7, 64, 5, 2


def citation_graph(generator):
    """Normed by the degree of both ends, with loops."""
    rows = torch.arange(PAPERS).repeat(CITED)
    columns = torch.randint(PAPERS, (PAPERS * CITED,), generator=generator)
    loops = torch.arange(PAPERS)
    rows, columns = torch.cat([rows, columns, loops]), torch.cat([columns, rows, loops])
    degree = torch.bincount(rows, minlength=PAPERS).float().rsqrt()
    weights = degree[rows] * degree[columns]
    graph = torch.sparse_coo_tensor(
        torch.stack([rows, columns]), weights, (PAPERS, PAPERS), check_invariants=False
    )
    return graph.coalesce()


def gcn(params, graph, words, keep):
    first, second = params
    h = torch.dropout(words, 1 - keep, True) @ first
    h = torch.sparse.mm(graph, h).relu()
    h = torch.dropout(h, 1 - keep, True) @ second
    return torch.sparse.mm(graph, h)


def main():
    meter = Meter(__doc__)
    generator = torch.Generator().manual_seed(0)
    graph = citation_graph(generator).to(meter.device)
    words = (torch.rand(PAPERS, WORDS, generator=generator) < 0.05).float().to(meter.device)
    fields = torch.randint(FIELDS, (PAPERS,), generator=generator).to(meter.device)
    labelled = torch.arange(0, PAPERS, 8, device=meter.device)
    params = [
        torch.nn.init.xavier_uniform_(torch.empty(*shape)) for shape in ((WORDS, HIDDEN), (HIDDEN, FIELDS))
    ]
    params = [param.to(meter.device).requires_grad_() for param in params]
    optimizer = torch.optim.Adam(params, lr=0.01, weight_decay=5e-4)

    def train_once():
        for _ in range(DROPS):
            logits = gcn(params, graph, words, keep=0.6)
            loss = torch.nn.functional.cross_entropy(logits[labelled], fields[labelled])
            (loss / DROPS).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    meter.calibrate(train_once)
    while meter.going_on():
        train_once()
        meter.ticked()
    meter.report()


if __name__ == "__main__":
    main()
