"""Time private mini-batch training of many networks at once against one after the other.

    python benchmarks/mini_batches.py [--models 16] [--steps 40]

For each batch size, CPU milliseconds a step and network of 256-50-15-10 (13,700 parameters), first
for Gaussian noise, then for von Mises-Fisher noise:

- ours: all networks together;
- one at a time: the same function with a single network;
- plain: a module, ``torch.func`` for every record's gradient, clipping by layer, noise, AdamW
  (von Mises-Fisher noise by the library's sampler);
- Opacus, where it is installed: Gaussian noise, clipping by layer, its own optimiser.

The columns after them are ratios to ours (above one: ours is faster), the last line of each batch
size what von Mises-Fisher noise costs in terms of Gaussian noise.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import torch

from reconrisk.mechanisms import add_vmf_noise
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, train_mini_batches

NETWORK = SigmoidNetwork()
RECORDS = 2048


def ours(inputs, labels, release: Release, models: int, size: int, steps: int) -> None:
    """As many epochs as give the steps, on as many records as give whole batches."""
    count = size * 8
    train_mini_batches(
        NETWORK,
        inputs[:count],
        labels[:count],
        [release] * models,
        batch_size=size,
        epochs=steps // 8,
        generator=torch.Generator().manual_seed(0),
    )


def plain(inputs, labels, release: Release, size: int, steps: int) -> None:
    """One network by ``torch.func``."""
    generator = torch.Generator().manual_seed(0)
    module = NETWORK.module(NETWORK.initialise(generator))
    weights = dict(module.named_parameters())
    optimiser = torch.optim.AdamW(weights.values(), lr=0.005, weight_decay=0.1)

    def loss(weights, record, label):
        out = torch.func.functional_call(module, weights, (record[None],))
        return torch.nn.functional.cross_entropy(out, label[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    for _ in range(steps):
        chosen = torch.randperm(RECORDS, generator=generator)[:size]
        detached = {name: w.detach() for name, w in weights.items()}
        gradients = each(detached, inputs[chosen], labels[chosen])
        mean = {}
        for name, g in gradients.items():
            norm = g.flatten(1).norm(dim=1).clamp(min=1)
            mean[name] = (g / norm[:, None, None]).mean(dim=0)
        if release.kind == "vmf":
            mean = add_vmf_noise(
                {name: g[None] for name, g in mean.items()}, release.noise, generator
            )
            mean = {name: g[0] for name, g in mean.items()}
        for name, w in weights.items():
            w.grad = mean[name]
            if release.kind == "gaussian":
                w.grad += torch.randn(w.shape, generator=generator) * (release.noise / size)
        optimiser.step()


def opacus(inputs, labels, release: Release, size: int, steps: int) -> None:
    """One network by Opacus."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPPerLayerOptimizer

    generator = torch.Generator().manual_seed(0)
    module = GradSampleModule(NETWORK.module(NETWORK.initialise(generator)))
    layers = len(NETWORK.shapes)
    optimiser = DPPerLayerOptimizer(
        torch.optim.AdamW(module.parameters(), lr=0.005, weight_decay=0.1),
        # Opacus multiplies by the norm of all layers' limits
        noise_multiplier=release.noise / layers**0.5,
        max_grad_norm=[1.0] * layers,
        expected_batch_size=size,
        loss_reduction="mean",
        generator=generator,
    )
    for _ in range(steps):
        chosen = torch.randperm(RECORDS, generator=generator)[:size]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs[chosen]), labels[chosen]).backward()
        optimiser.step()


def timed(function: Callable[[], None], share: float) -> float:
    """The shorter of two CPU times, in milliseconds, over ``share``."""
    best = float("inf")
    for _ in range(2):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return 1e3 * best / share


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40, help="a multiple of 8")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 128])
    arguments = parser.parse_args()
    models, steps = arguments.models, arguments.steps
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn((RECORDS, 256), generator=generator)
    labels = torch.randint(10, (RECORDS,), generator=generator)
    print(f"{models} networks, {steps} steps, one thread; CPU ms a step and network")
    for size in arguments.sizes:
        together = {}
        for release in (Release("gaussian", 1.23), Release("vmf", 75.0)):
            cases = {
                "one at a time": lambda r=release, n=size: ours(inputs, labels, r, 1, n, steps),
                "plain": lambda r=release, n=size: plain(inputs, labels, r, n, steps),
            }
            if release.kind == "gaussian":
                cases["Opacus"] = lambda r=release, n=size: opacus(inputs, labels, r, n, steps)
            fast = timed(
                lambda r=release, n=size: ours(inputs, labels, r, models, n, steps), models * steps
            )
            together[release.kind] = fast
            line = f"batch {size:4}  {release.kind:9} ours {fast:6.3f}"
            for name, function in cases.items():
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        slow = timed(function, steps)
                except ImportError:
                    continue
                line += f"   {name} {slow:6.3f} ({slow / fast:4.1f})"
            print(line, flush=True)
        print(f"batch {size:4}  vmf over gaussian: {together['vmf'] / together['gaussian']:.2f}")


if __name__ == "__main__":
    main()
