"""Time the tensor attack on a two-layer network, neurons drawn in chunks, against a plain loop.

    python benchmarks/tensor_attack.py [--widths 125000 1000000] [--dimension 256] [--batch 8]

First both at a small width: the moments P and T by a loop over the neurons, one outer product and
one cube at a time, and by :func:`reconrisk.attacks.tensor_attack`; seconds, their ratio, and how
far the two P are apart. Then for each width the seconds for the release and for the attack, as
published and with all lower orders removed, and the largest memory of the process so far (it
starts with the interpreter's and the libraries' own), which should hardly grow with the width.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from reconrisk.attacks import gradient_moments, tensor_attack
from reconrisk.metrics import match
from reconrisk.two_layer import OutputGradient, TwoLayer, release_output_gradient


def draw_problem(dimension: int, width: int, count: int):
    """A network, random unit records, and the gradient for random labels."""
    rng = np.random.default_rng(0)
    records = rng.standard_normal((count, dimension))
    records /= np.linalg.norm(records, axis=1, keepdims=True)
    network = TwoLayer(dimension, width)
    labels = rng.choice([-1.0, 1.0], count)
    return network, records, release_output_gradient(network, records, labels)


def plain_moments(network: TwoLayer, released: OutputGradient, count: int):
    """P, then T within its leading eigenvectors, neuron by neuron."""
    neurons = [w.astype(float) for some in network.neurons() for w in some.inner]
    matrix = np.zeros((network.dimension, network.dimension))
    for w, g in zip(neurons, released.values, strict=True):
        matrix += g * (np.outer(w, w) - np.eye(network.dimension))
    values, vectors = np.linalg.eigh(matrix)
    basis = vectors[:, np.argsort(-np.abs(values))[:count]]
    tensor, unit = np.zeros((count, count, count)), np.eye(count)
    for w, g in zip(neurons, released.values, strict=True):
        u = basis.T @ w
        tensor += g * np.einsum("a,b,c->abc", u, u, u)
        for letters in ("a,bc->abc", "b,ac->abc", "c,ab->abc"):
            tensor -= g * np.einsum(letters, u, unit)
    return matrix / len(neurons), tensor / len(neurons)


def peak() -> float:
    """The process's largest memory so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[125_000, 1_000_000])
    parser.add_argument("--small", type=int, default=4096)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8)
    arguments = parser.parse_args()
    d, count = arguments.dimension, arguments.batch

    print(f"d = {d}, B = {count}, elu; peak memory at the start {peak():.0f} MB")
    network, _, released = draw_problem(d, arguments.small, count)
    begin = time.perf_counter()
    slow, _ = plain_moments(network, released, count)
    plain = time.perf_counter() - begin
    begin = time.perf_counter()
    tensor_attack(network, released, count, removed=0, pencils=1, sweeps=0)
    ours = time.perf_counter() - begin
    gap = np.abs(gradient_moments(network, released, removed=0).matrix - slow).max()
    print(
        f"m = {arguments.small:9,}  plain {plain:6.2f} s   ours {ours:6.3f} s   "
        f"ratio {plain / ours:5.1f}   difference of P {gap / np.abs(slow).max():.0e}"
    )
    for width in arguments.widths:
        begin = time.perf_counter()
        network, records, released = draw_problem(d, width, count)
        line = f"m = {width:9,}  release {time.perf_counter() - begin:6.2f} s"
        for name, removed in (("published", 0), ("improved", 3)):
            begin = time.perf_counter()
            found = tensor_attack(network, released, count, removed=removed)
            taken = time.perf_counter() - begin
            error = np.sqrt(np.mean(match(records, found.inputs).mse) * d)
            line += f"   {name} {taken:6.2f} s, error {error:.3f}"
        print(f"{line}   peak memory {peak():.0f} MB", flush=True)


if __name__ == "__main__":
    main()
