"""Time the inverting-gradients attack on many batches at once against one batch after the other.

    python benchmarks/gradient_inversion.py [--problems 32] [--iterations 60]

For each batch size, milliseconds an iteration and problem of

- ours: all problems in one tensor program;
- one at a time: the same function called for each problem on its own;
- plain loop: what one would write, a module, its gradient by autograd with ``create_graph``, the
  loss differentiated once more, Adam, one problem after the other,

and the two ratios (above one: ours is faster). All three run the same iterations from the same
first candidates, and the largest difference of their losses at the end is printed. The problems
differ in their records and in the noise of the released gradient.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from _plain_inversion import plain_loop

from reconrisk.attacks.gradient_inversion import invert_gradients
from reconrisk.models import SigmoidNetwork
from reconrisk.training import Release, release_gradients

SIDE = 16
VARIATION = 1e-2


def penalty(records: torch.Tensor) -> torch.Tensor:
    """Weighted total variation of flat pictures."""
    pictures = records.view(-1, SIDE, SIDE)
    rows = (pictures[:, 1:] - pictures[:, :-1]).abs().mean()
    return VARIATION * (rows + (pictures[:, :, 1:] - pictures[:, :, :-1]).abs().mean())


def timed(function: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, float]:
    """Return the value and the shorter of two CPU times."""
    best = float("inf")
    for _ in range(2):
        begin = time.process_time()
        value = function()
        best = min(best, time.process_time() - begin)
    return value, best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4, 16, 32, 64, 128])
    arguments = parser.parse_args()
    problems, iterations = arguments.problems, arguments.iterations
    torch.set_num_threads(1)
    network = SigmoidNetwork()
    generator = torch.Generator().manual_seed(0)
    weights = network.initialise(generator)
    print(f"{problems} problems, {iterations} iterations, one thread; ms an iteration and problem")
    print(f"{'batch':>6}{'ours':>8}{'one at a time':>15}{'plain loop':>12}", end="")
    print(f"{'ratio':>8}{'ratio':>8}{'loss differs by':>18}")
    for size in arguments.sizes:
        records = torch.rand((problems, size, SIDE**2), generator=generator)
        labels = torch.randint(10, (problems, size), generator=generator)
        noisy = [Release("gaussian", 0.02 * k / problems) for k in range(problems)]
        released = release_gradients(weights, records, labels, noisy, generator=generator)
        start = torch.randn(records.shape, generator=generator)

        def ours(chosen: slice, released=released, labels=labels, start=start) -> torch.Tensor:
            return invert_gradients(
                weights,
                {name: r[chosen] for name, r in released.items()},
                labels[chosen],
                generator=generator,
                iterations=iterations,
                total_variation=VARIATION,
                shape=(SIDE, SIDE),
                box=(0.0, 1.0),
                start=start[chosen],
            ).loss

        together, fast = timed(lambda: ours(slice(None)))
        alone, slow = timed(lambda: torch.cat([ours(slice(k, k + 1)) for k in range(problems)]))
        plain, slowest = timed(
            lambda released=released, labels=labels, start=start: plain_loop(
                network.module(weights), list(released.values()), labels, start, iterations, penalty
            )
        )
        gap = max(float((together - other).abs().max()) for other in (alone, plain))
        unit = 1e3 / (problems * iterations)
        print(
            f"{size:6}{fast * unit:8.3f}{slow * unit:15.3f}{slowest * unit:12.3f}"
            f"{slow / fast:8.1f}{slowest / fast:8.1f}{gap:18.1e}"
        )


if __name__ == "__main__":
    main()
