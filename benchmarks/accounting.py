"""Time and compare epsilon with dp-accounting, and prv_accountant and PLD_accounting if installed.

    python benchmarks/accounting.py
    python benchmarks/accounting.py --box 100 --out book/_static/accounting_box.svg

One process, one after the other. For settings from those of language models to those of small
images it prints the width of the certified enclosure, the seconds, how much more the others take,
and what they answer; a value outside of the enclosure is marked. With ``--box`` it draws widths and
times at so many settings from all scales instead: sigma from 0.3 to 100, q from 1e-7 to 1, T to
1e7, delta and kappa from 1e-12, epsilon from 1e-3 to 20.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from dp_accounting.pld import privacy_loss_distribution

from reconrisk import DPSGD, bounds, privacy

#: sigma, q, T, delta
SETTINGS = (
    (1.1, 4e-3, 14_000, 1e-5),
    (1.0, 2e-2, 1_000, 1e-5),
    (0.7, 1e-4, 10_000, 1e-6),
    (0.6, 1e-4, 30_000, 1e-6),
    (0.53, 2.9e-5, 87_000, 1e-6),
    (1.0, 1e-5, 1_000_000, 1e-8),
    (0.5, 1e-6, 1_000_000, 1e-5),
    (0.5, 1e-7, 100_000, 1e-12),
    (20.0, 0.5, 100_000, 1e-6),
    (100.0, 1e-3, 10_000_000, 1e-5),
)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result and the processor time of one call."""
    start = time.process_time()
    return function(), time.process_time() - start


def connected_dots(sigma: float, q: float, steps: int, delta: float) -> float:
    law = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, sampling_prob=q, value_discretization_interval=1e-4, use_connect_dots=True
    )
    return float(law.self_compose(steps).get_epsilon_for_delta(delta))


def random_variable(sigma: float, q: float, steps: int, delta: float) -> float:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    accountant = PRVAccountant(
        prvs=PoissonSubsampledGaussianMechanism(sampling_probability=q, noise_multiplier=sigma),
        max_self_compositions=steps,
        eps_error=0.01,
        delta_error=delta * 1e-3,
    )
    return float(accountant.compute_epsilon(delta=delta, num_self_compositions=steps)[2])


def dual_subsampling(sigma: float, q: float, steps: int, delta: float) -> float:
    from PLD_accounting.subsample_pld import subsample_pld

    whole = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-4, use_connect_dots=True
    )
    law = subsample_pld(pld=whole, sampling_probability=q)
    return float(law.self_compose(steps).get_epsilon_for_delta(delta))


OTHERS = {"dp-accounting, grid 1e-4": connected_dots}
if importlib.util.find_spec("prv_accountant"):
    OTHERS["prv_accountant, 0.01"] = random_variable
if importlib.util.find_spec("PLD_accounting"):
    OTHERS["PLD_accounting, grid 1e-4"] = dual_subsampling


def box(count: int, out: Path) -> None:
    """Draw the relative widths and the times of enclosures at settings drawn from all scales."""
    rng = np.random.default_rng(0)
    low, high = np.log([[0.3, 1e-7, 1, 1e-12, 1e-3], [100, 1, 1e7, 0.1, 20]])
    draws = np.exp(low + (high - low) * rng.random((count, 5)))
    found: dict[str, list[tuple[float, float, float]]] = {}
    for sigma, q, steps, small, epsilon in draws:
        run = DPSGD(float(sigma), float(q), round(steps))
        for name, function in (
            ("epsilon", partial(privacy.epsilon, run, float(small))),
            ("delta", partial(privacy.delta, run, float(epsilon))),
            ("total variation", partial(privacy.delta, run, 0.0)),
            ("success", partial(bounds.rero, run, float(small))),
        ):
            value, seconds = timed(function)
            if name != "epsilon" and value.upper < 1e-12:
                continue
            # epsilon is enclosed to 2e-3 where that is more than one per cent
            width = value.width / max(value.upper, 0.2 if name == "epsilon" else 5e-324)
            found.setdefault(name, []).append((float(q), max(width, 1e-8), seconds))
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
    for marker, (name, rows) in zip("osd^", found.items(), strict=False):
        q, width, seconds = np.transpose(rows)
        axes[0].loglog(q, width, marker, ms=2.5, label=name)
        axes[1].loglog(q, seconds, marker, ms=2.5, label=name)
        print(
            f"{name}: {len(rows)} settings, widest {width.max():.1e}, "
            f"longest {seconds.max():.2f} s, {np.sum(seconds > 1.0)} longer than 1 s"
        )
    for axis, limit, label in zip(axes, (1e-2, 2.0), ("relative width", "seconds"), strict=True):
        axis.axhline(limit, color="0.5", lw=0.8, ls=":")
        axis.set(xlabel="sampling rate q", ylabel=label)
    marks, names = axes[0].get_legend_handles_labels()
    figure.legend(marks, names, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    plt.rcParams["svg.hashsalt"] = "accounting"
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def main() -> None:
    """Print the table, or draw the box."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--box", type=int, default=0, help="number of settings drawn")
    parser.add_argument("--out", type=Path, default=Path("accounting_box.svg"))
    arguments = parser.parse_args()
    if arguments.box:
        box(arguments.box, arguments.out)
        return
    for sigma, q, steps, delta in SETTINGS:
        run = DPSGD(sigma, q, steps)
        found, ours = timed(partial(privacy.epsilon, run, delta))
        success, other = timed(partial(bounds.rero, run, 1e-6))
        print(f"sigma {sigma:g}, q {q:g}, T {steps:,}, delta {delta:g}")
        print(f"  epsilon in [{found.lower:.6g}, {found.upper:.6g}]: {ours:.2f} s")
        print(f"  success at 1e-6 in [{success.lower:.6g}, {success.upper:.6g}]: {other:.2f} s")
        for name, accountant in OTHERS.items():
            try:
                value, seconds = timed(partial(accountant, sigma, q, steps, delta))
            except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
                print(f"  {name}: {type(error).__name__}: {str(error)[:60]}")
                continue
            place = "" if found.lower <= value <= found.upper * (1 + 1e-9) else ", outside"
            print(f"  {name}: {value:.6g}{place}, {seconds:.2f} s, ratio {seconds / ours:.1f}")


if __name__ == "__main__":
    main()
