"""Time steps of DP-SGD against Opacus, in one process: one model, and many at once.

    python benchmarks/dpsgd.py [--steps 50] [--models 1 8 32 128] [--threads 1]

The network is the one of Hayes et al., Appendix A (784-10-10, ELU, 7,960 parameters), on 1,000
records, full batch, with clipping at 0.1 and noise. Opacus runs its usual way: GradSampleModule,
then DPOptimizer's clipping, noise and step. Prints milliseconds per step and model and the ratio
(above one: ours is faster), and how far both end up apart with the same noise.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from reconrisk import DPSGD
from reconrisk.models import Classifier
from reconrisk.training import train_many

RECORDS, DIMENSION = 1000, 784
LEARNING_RATE = 5.0


def best_of(function: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of several calls, after one that does not count.

    CPU time on one thread, which other processes disturb less; wall time on more.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    function()
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def opacus_trainer(
    run: DPSGD, first: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.nn.Module, Callable[[], None]]:
    """Return Opacus's network and a function that takes all steps of a run."""
    import opacus
    from opacus.optimizers import DPOptimizer

    network = opacus.GradSampleModule(Classifier(DIMENSION).module(first))
    optimiser = DPOptimizer(
        torch.optim.SGD(network.parameters(), lr=LEARNING_RATE),
        noise_multiplier=run.noise_multiplier,
        max_grad_norm=run.max_grad_norm,
        expected_batch_size=len(inputs),
        generator=torch.Generator().manual_seed(1),
    )

    def train() -> None:
        for _ in range(run.steps):
            optimiser.zero_grad()
            cross_entropy(network(inputs), labels).backward()
            optimiser.step()

    return network._module, train


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--models", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # Opacus warns of hooks it registers itself
    torch.set_num_threads(given.threads)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(RECORDS, DIMENSION, generator=generator)
    labels = torch.randint(10, (RECORDS,), generator=generator)
    classifier = Classifier(DIMENSION)
    first = classifier.initialise(generator)
    run = DPSGD(5.0, steps=given.steps, max_grad_norm=0.1)

    def ours(models: int, seed: int = 1) -> dict[str, torch.Tensor]:
        return train_many(
            classifier,
            run,
            inputs[:-1],
            labels[:-1],
            inputs[-1:].expand(models, -1),
            labels[-1:].expand(models),
            learning_rate=LEARNING_RATE,
            generator=torch.Generator().manual_seed(seed),
            initial=first,
        )

    network, train = opacus_trainer(run, first, inputs, labels)
    train()
    mine = ours(1)
    apart = max(
        float((mine[name][0] - w.detach()).abs().max()) for name, w in network.named_parameters()
    )
    size = max(float(w.detach().abs().max()) for w in network.parameters())
    print(f"same noise, {run.steps} steps: weights up to {size:.2f}, apart by {apart:.1e}")
    theirs = best_of(train, given.repeats) / run.steps
    print(f"{'':24}{'ms per step':>14}{'per model':>12}{'ratio':>8}")
    print(f"{'Opacus, one model':24}{1e3 * theirs:14.2f}{1e3 * theirs:12.2f}{1.0:8.1f}")
    for models in given.models:
        spent = best_of(lambda m=models: ours(m), given.repeats) / run.steps
        per_model = spent / models
        print(
            f"{f'ours, {models} at once':24}{1e3 * spent:14.2f}{1e3 * per_model:12.3f}"
            f"{theirs / per_model:8.1f}"
        )


if __name__ == "__main__":
    main()
