"""Time the exact posterior over a list of images, the floor of every attack that knows the list.

    python benchmarks/posterior_floor.py [--images 5000] [--releases 1000]

A thousand releases of MNIST's images, each X plus noise of sigma times its norm, against all 5,000
images: one matrix product in ``list_posterior``, and one pair after the other with SciPy, on some
of the releases. Prints seconds, the ratio, and the floor both ways with the largest difference.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from scipy.special import softmax
from scipy.stats import norm

from reconrisk import datasets
from reconrisk.attacks import list_posterior

SIGMA = 0.2
#: releases that the plain loop takes
PLAIN = 5


def plain_posterior(x_hat: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return each image's probability given each release, by its density, pixel by pixel."""
    scale = SIGMA * np.linalg.norm(images, axis=1, keepdims=True)
    law = [norm.logpdf(one, loc=images, scale=scale).sum(axis=1) for one in x_hat]
    return softmax(law, axis=1)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--releases", type=int, default=1000)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    images = torch.as_tensor(datasets.classified("MNIST-5000", None, "all").inputs)
    images = images[: wanted.images]
    generator = torch.Generator().manual_seed(0)
    drawn = images[torch.randint(len(images), (wanted.releases,), generator=generator)]
    noise = torch.randn(drawn.shape, generator=generator)
    x_hat = drawn + SIGMA * drawn.norm(dim=1, keepdim=True) * noise

    start = time.process_time()
    posterior = list_posterior(x_hat, SIGMA, images)
    floor = (posterior @ images - drawn).square().mean(dim=1)
    seconds = time.process_time() - start
    named = posterior.max(dim=1).values.mean()
    print(
        f"{len(x_hat)} releases, {len(images)} images: {seconds:.2f} s; mean squared error of the "
        f"posterior mean {floor.mean():.3g}, record named {named:.1%}"
    )

    start = time.process_time()
    plain = plain_posterior(x_hat[:PLAIN].double().numpy(), images.double().numpy())
    each = (time.process_time() - start) / PLAIN
    apart = np.abs(plain - posterior[:PLAIN].numpy()).max()
    print(
        f"density by density: {each:.2f} s a release, time x {each * len(x_hat) / seconds:.0f}; "
        f"probabilities apart by at most {apart:.2g}"
    )


if __name__ == "__main__":
    main()
