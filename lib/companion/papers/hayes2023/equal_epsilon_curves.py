"""The bound along curves of equal epsilon: every run's noise is tuned to (epsilon, delta)."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from companion.exhibit import *
from companion.papers.hayes2023.equal_epsilon import tuned_run
from reconrisk import DPSGD, bounds

#: smaller rises are not resolved: calibrated noise exceeds the minimum by up to 1e-4 of itself
NEARLY = 1e-4
#: the prior sizes that Figures 14 and 15 have panels for
PRIOR_SIZES = (2, 10, 100)

#: q on the grids of the bound
COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.99)
FINE = tuple(q / 100 for q in range(1, 100))
STEPS = Parameter("int", 100, 100, "100", "T, steps", low=1)
EPSILONS = Parameter(
    "floats",
    (1.0, 4.0, 10.0, 32.0),
    (1.0, 2.0, 4.0, 8.0, 10.0, 16.0, 32.0),
    "not printed, but for 4 (Figure 5) and 32 (Figure 15)",
    "epsilon, one curve each",
    low=0.01,
)


def rates(quick: tuple[float, ...], paper: tuple[float, ...], meaning: str) -> Parameter:
    """A parameter of sampling rates."""
    return Parameter("floats", quick, paper, "0.01 to 0.99", meaning, low=1e-4)


@functools.lru_cache(maxsize=4096)
def gamma_enclosures(run: DPSGD, prior_sizes: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """Both ends of gamma's enclosure for uniform priors, one composition for all of them."""
    lower, upper = bounds.rero_curve(run, 1 / np.array(prior_sizes), tolerance=1e-6)
    return {n: (float(a), float(b)) for n, a, b in zip(prior_sizes, lower, upper, strict=True)}


def bound_along(
    epsilons: Iterable[float],
    rates: Iterable[float],
    steps: Iterable[int],
    prior_sizes: Sequence[int],
) -> pd.DataFrame:
    """Noise and enclosure of gamma of every run and prior size."""
    rows = []
    for epsilon, count, rate in itertools.product(epsilons, steps, rates):
        run = tuned_run(epsilon, rate, count)
        for n, enclosure in gamma_enclosures(run, tuple(prior_sizes)).items():
            rows.append((epsilon, count, rate, run.noise_multiplier, n, *enclosure))
    columns = ["epsilon", "T", "q", "sigma", "n", "gamma from", "gamma to"]
    return pd.DataFrame(rows, columns=columns)


def with_best_attack(bound: pd.DataFrame) -> pd.DataFrame:
    """Add the success of the best attack on orthogonal candidates."""
    best = [
        bounds.bayes_success_subsampled(DPSGD(row.sigma, row.q, row.T), row.n)
        for row in bound.itertuples()
    ]
    return bound.assign(**{"best attack": best})


def middle(bound: pd.DataFrame) -> pd.DataFrame:
    """Add ``gamma``, the middle of the enclosure."""
    return bound.assign(gamma=(bound["gamma from"] + bound["gamma to"]) / 2)


def rises(part: pd.DataFrame, along: str = "q") -> bool:
    """Whether gamma rises from each row to the next, certified to within ``NEARLY``."""
    part = part.sort_values(along)
    low, high = part["gamma from"].to_numpy(), part["gamma to"].to_numpy()
    return bool((low[1:] > high[:-1] - NEARLY).all() and low[-1] > high[0])


def size_panels(table: pd.DataFrame, axes: Sequence[Axes]) -> Iterator[tuple[Axes, int]]:
    """Label a panel over the sampling rate for each prior size, and yield both."""
    for axis, n in zip(axes, sorted(set(table["n"])), strict=True):
        axis.set(xlabel="sampling rate q", ylabel="success", title=f"{n} candidates")
        log_rates(axis)
        yield axis, n


def shades(table: pd.DataFrame) -> dict[float, Any]:
    """A colour for each of at most four epsilons, the darker the larger."""
    epsilons = sorted(set(table["epsilon"]))
    epsilons = epsilons[:: -(-len(epsilons) // 4)]
    return dict(
        zip(epsilons, colormaps["viridis_r"](np.linspace(0.2, 1, len(epsilons))), strict=True)
    )


def epsilon_entries(colours: Mapping[float, Any]) -> list[Line2D]:
    """A legend's entries for the epsilons."""
    return [legend_line(rf"$\varepsilon$ = {e:g}", colour) for e, colour in colours.items()]


def coloured_curve(axes: Axes, part: pd.DataFrame, value: str, norm: Normalize) -> LineCollection:
    """Draw sigma over q, coloured by a value."""
    x, y, colour = (part[k].to_numpy(float) for k in ("q", "sigma", value))
    points = np.column_stack([x, y])
    lines = LineCollection(
        list(np.stack([points[:-1], points[1:]], axis=1)), cmap="viridis", norm=norm, linewidths=3
    )
    lines.set_array((colour[:-1] + colour[1:]) / 2)
    axes.add_collection(lines)
    axes.scatter(x, y, c=colour, cmap="viridis", norm=norm, s=26, zorder=3)
    axes.set_xlim(-0.04, 1.04)
    axes.set_ylim(0, 1.08 * y.max())
    return lines


def log_rates(axes: Axes) -> None:
    """A logarithmic axis of sampling rates from 0.01 to 1."""
    axes.set(xscale="log", xlim=(0.007, 1.4))
    axes.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    axes.minorticks_off()
