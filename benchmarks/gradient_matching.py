"""Time the gradient-based attack against one that forms every gradient, in one process.

    python benchmarks/gradient_matching.py [--dimension 64] [--targets 16] [--iterations 10]

Both attack the same targets with the same loss: ours through the factors of the gradients, the
other through PyTorch's autograd (the gradient of the model's loss at every step with a graph kept,
clipped, compared entry by entry; ``torch.func`` over steps and targets). Prints CPU milliseconds
per target and iteration, the ratio (above one: ours is faster), and what 1,000 targets with 300
iterations would take. The last line is eq. (1) on the large layer alone, in blocks that stay in
the cache against batched products of all targets. One thread each.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch.func import functional_call, grad, vmap

from reconrisk import DPSGD
from reconrisk.attacks import gradient_matching as matching
from reconrisk.models import Classifier
from reconrisk.training import Trajectories, record_trajectories

STEPS, CLIP = 100, 0.1


def scene(dimension: int, targets: int) -> tuple[Trajectories, torch.Tensor, Classifier, DPSGD]:
    """Random records and models trained on them."""
    generator = torch.Generator().manual_seed(0)
    classifier = Classifier(dimension, 10, 10)
    run = DPSGD(0.25, steps=STEPS, max_grad_norm=CLIP)
    inputs = torch.rand(100 + targets, dimension, generator=generator)
    labels = torch.randint(10, (100 + targets,), generator=generator)
    stored = record_trajectories(
        classifier,
        run,
        inputs[targets:],
        labels[targets:],
        inputs[:targets],
        labels[:targets],
        learning_rate=20.0,
        generator=generator,
    )
    return stored, labels[:targets], classifier, run


def plain_loss(
    stored: Trajectories, labels: torch.Tensor, classifier: Classifier, absolute: bool
) -> Callable[[torch.Tensor], torch.Tensor]:
    """The loss of candidates (K, d), through autograd's gradients at every step."""
    network = classifier.module({n: w[0, 0] for n, w in stored.weights.items()})

    def model_loss(weights, record, label):
        logits = functional_call(network, weights, (record[None],))
        return torch.nn.functional.cross_entropy(logits, label[None])

    over_steps = vmap(grad(model_loss), in_dims=(0, None, None))
    over_targets = vmap(over_steps, in_dims=(1, 0, 0), out_dims=1)

    def loss(candidates: torch.Tensor) -> torch.Tensor:
        gradients = over_targets(stored.weights, candidates, labels)
        squared = sum(g.flatten(2).square().sum(dim=2) for g in gradients.values())
        factor = (CLIP * squared.rsqrt()).clamp(max=1)
        total = candidates.new_zeros(())
        for name, g in gradients.items():
            clipped = (factor[..., None] * g.flatten(2)) / CLIP
            residual = stored.residuals[name].flatten(2) / CLIP
            if absolute:
                total = total - (clipped * residual).sum() + (clipped - residual).abs().sum() / CLIP
            else:
                total = total + (clipped - residual).square().sum()
        return total

    return loss


def plain(loss: Callable, start: torch.Tensor, iterations: int) -> None:
    """Adam on the plain loss."""
    values = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([values], lr=0.05)
    for _ in range(iterations):
        optimiser.zero_grad()
        loss(values).backward()
        optimiser.step()
        with torch.no_grad():
            values.clamp_(0, 1)


def timed(function: Callable[[], object]) -> float:
    """The shorter of two CPU times."""
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def large_layer(stored: Trajectories) -> tuple[float, float]:
    """CPU ms a target and evaluation with its derivatives: in blocks, all at once."""
    layer = stored.residuals["hidden.weight"]  # (T, K, rows, d)
    residual = layer.transpose(0, 1).flatten(1, 2)
    draws = torch.Generator().manual_seed(2)
    u = torch.randn(*residual.shape[:2], 1, generator=draws)
    x = torch.rand(len(residual), 1, residual.shape[2], generator=draws)
    forms = matching._in_blocks, matching._all_at_once
    times = [
        [timed(lambda form=form: form(u, x, residual, -0.1)) for form in forms] for _ in range(5)
    ]
    blocks, whole = (1e3 * min(column) / len(residual) for column in zip(*times, strict=True))
    return blocks, whole


def main() -> None:
    """Print one line for each loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--targets", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=10)
    given = parser.parse_args()
    torch.set_num_threads(1)
    stored, labels, classifier, run = scene(given.dimension, given.targets)
    start = torch.rand(given.targets, given.dimension, generator=torch.Generator().manual_seed(1))
    print(f"d = {given.dimension}, T = {STEPS}, {given.targets} targets, CPU ms per iteration each")
    for name, loss, absolute in (
        ("eq. (1)", matching.inner_and_absolute, True),
        ("squared distance", matching.squared_distance, False),
    ):

        def ours(loss=loss) -> None:
            matching.match_gradients(
                stored.weights,
                stored.residuals,
                run,
                labels,
                generator=torch.Generator().manual_seed(1),
                loss=loss,
                iterations=given.iterations,
                start=start,
            )

        other = plain_loss(stored, labels, classifier, absolute)
        per = 1e3 / (given.iterations * given.targets)
        mine = timed(ours) * per
        theirs = timed(lambda other=other: plain(other, start, given.iterations)) * per
        print(
            f"{name:17s} ours {mine:6.2f}  autograd {theirs:7.2f}  ratio {theirs / mine:5.1f}   "
            f"1,000 targets x 300: {0.3 * mine / 60 * 1000:.1f} CPU minutes"
        )
    blocks, whole = large_layer(stored)
    print(
        f"{'large layer':17s} blocks {blocks:4.2f}  at once {whole:8.2f}  "
        f"ratio {whole / blocks:5.1f}"
    )


if __name__ == "__main__":
    main()
