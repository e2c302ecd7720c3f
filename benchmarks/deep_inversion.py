"""Time gradient inversion of many batches of images at once against one batch after the other.

    python benchmarks/deep_inversion.py [--problems 32] [--iterations 10] [--networks small ...]

For each network and batch size, milliseconds an iteration and problem of

- ours: all problems mapped over one network, in blocks;
- one at a time: the same function called for each problem on its own;
- plain loop: what one would write, a module, its gradient by autograd with ``create_graph``, the
  loss differentiated once more, Adam on its signs, one problem after the other,

and the two ratios (above one: ours is faster). All three run the same iterations from the same
first candidates; the largest difference of their losses at the end is printed. Batching saves what
calls cost, so that it gives most where a network is small, or on an accelerator; on one core a wide
network's multiplications take their time however they are called.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from _plain_inversion import plain_loop

from reconrisk.attacks import Knowledge, Objective, invert_updates, total_variation
from reconrisk.convnets import ConvNet, ResNet18, WideHead
from reconrisk.training import client_updates

VARIATION = 1e-2


def networks(chosen: list[str], generator: torch.Generator) -> dict[str, tuple[WideHead, int]]:
    """Each network and its images' side."""
    make: dict[str, Callable[[], tuple[WideHead, int]]] = {
        "small": lambda: (ConvNet(generator, side=8, channels=8), 8),
        "convnet": lambda: (ConvNet(generator, side=32, channels=16), 32),
        "wide head": lambda: (ConvNet(generator, side=32, channels=16, wide=1024), 32),
        "channels 32": lambda: (ConvNet(generator, side=32, channels=32), 32),
        "resnet width 8": lambda: (ResNet18(generator, width=8, activation="elu"), 32),
        "resnet": lambda: (ResNet18(generator), 32),
        "paper E's": lambda: (ResNet18(generator, wide=16_384), 32),
    }
    return {name: make[name]() for name in chosen}


def penalty(images: torch.Tensor) -> torch.Tensor:
    """Weighted total variation."""
    return VARIATION * total_variation(images)


def timed(
    function: Callable[[], torch.Tensor], device: str, runs: int
) -> tuple[torch.Tensor, float]:
    """Return the value and the shortest time: of the processor, or on the clock with a GPU."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = float("inf")
    for _ in range(runs):
        begin = clock()
        value = function()
        value.sum().item()  # waits for the device
        best = min(best, clock() - begin)
    return value, best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 4])
    parser.add_argument(
        "--networks", nargs="+", default=["small", "convnet", "wide head", "channels 32"]
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--half", action="store_true", help="ours in bfloat16, one at a time")
    arguments = parser.parse_args()
    problems, iterations, device = arguments.problems, arguments.iterations, arguments.device
    torch.set_num_threads(1)
    generator = torch.Generator(device).manual_seed(0)
    print(f"{problems} problems, {iterations} iterations, {device}; ms an iteration and problem")
    print(f"{'network':>16}{'batch':>6}{'ours':>9}{'one at a time':>15}{'plain loop':>12}", end="")
    print(f"{'ratio':>8}{'ratio':>8}{'loss differs by':>18}")
    for name, (network, side) in networks(arguments.networks, generator).items():
        network.eval()
        for size in arguments.sizes:
            shape = (problems, size, 3, side, side)
            images = torch.rand(shape, generator=generator, device=device)
            labels = torch.randint(10, shape[:2], generator=generator, device=device)
            released = client_updates(network, images, labels, generator=generator, block=4)
            start = torch.rand(shape, generator=generator, device=device)

            def ours(
                chosen: slice, network=network, released=released, labels=labels, start=start
            ) -> torch.Tensor:
                return invert_updates(
                    network,
                    released.take(chosen),
                    Knowledge(labels[chosen], tuple(start.shape[2:])),
                    generator=generator,
                    objective=Objective(total_variation=VARIATION),
                    iterations=iterations,
                    start=start[chosen],
                    half=arguments.half,
                ).loss

            def alone(ours=ours) -> torch.Tensor:
                return torch.cat([ours(slice(k, k + 1)) for k in range(problems)])

            def plain(
                network=network, released=released, labels=labels, start=start
            ) -> torch.Tensor:
                gradients = list(released.gradient.values())
                return plain_loop(network, gradients, labels, start, iterations, penalty)

            together, fast = timed(lambda ours=ours: ours(slice(None)), device, arguments.runs)
            single, slow = timed(alone, device, arguments.runs)
            loop, slowest = timed(plain, device, arguments.runs)
            gap = max(float((together - other).abs().max()) for other in (single, loop))
            unit = 1e3 / (problems * iterations)
            print(
                f"{name:>16}{size:6}{fast * unit:9.3f}{slow * unit:15.3f}{slowest * unit:12.3f}"
                f"{slow / fast:8.1f}{slowest / fast:8.1f}{gap:18.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
