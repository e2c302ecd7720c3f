"""Where Algorithm 1 stops being a bound: estimates of gamma over sqrt(T)/sigma."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special as sc

from companion.exhibit import *
from reconrisk import DPSGD, bounds

_OURS = "our own exhibit"
_SIGNALS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)

PARAMETERS = {
    "signals": Parameter("floats", _SIGNALS, _SIGNALS, _OURS, "sqrt(T)/sigma", 1e-3),
    "samples": Parameter("int", 100_000, 1_000_000, "1,000,000", "N of Algorithm 1", 1000),
    "repeats": Parameter("int", 100, 300, _OURS, "estimates at each signal", 20),
    "kappa": Parameter("float", 0.1, 0.1, "1/10", "prior success", 1e-9),
    "confidence": Parameter("float", 0.999999, 0.999999, _OURS, "of each two-sample interval", 0.5),
}
SETTLES = ("O-015",)

#: how near to gamma the median complement must stay, relative, at every signal
MARGIN = 0.01
ALTERED = {
    "estimates": {
        "median": "medians of Algorithm 1",
        "complement": "medians of the complement",
        ("lower", "upper"): at("gamma < 0.99", "intervals"),
        "upper": at("gamma < 0.99", "upper ends of intervals"),
    },
    "samples needed": {"samples": at("signal == 1", "samples that the least signal needs")},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    estimates = [_estimates(study, place, signal) for place, signal in enumerate(p.signals)]
    columns = ["signal", "gamma", "low", "median", "high", "normalised median", "complement"]
    columns += ["lower", "upper"]
    return Tables(
        {
            "estimates": pd.DataFrame(estimates, columns=columns),
            "samples needed": _samples_needed(np.array(p.signals), p.kappa),
        },
        exact=("samples needed",),
        ran=f"{p.repeats} estimates of {p.samples:,} samples at each of {len(p.signals)} signals, "
        f"full batch, kappa = {p.kappa:g}.",
    )


def _estimates(study: Context, place: int, signal: float) -> tuple[float, ...]:
    """Quantiles of repeated estimates at one signal, and one interval."""
    p = study.parameters
    run, rng = DPSGD(1 / signal), study.rng("estimates", place)

    def repeated(count: int, name: str) -> list[float]:
        return [
            bounds.rero_algorithm1(run, p.kappa, p.samples, rng, normalisation=name)
            for _ in range(count)
        ]

    low, median, high = np.quantile(repeated(p.repeats, "samples"), [0.05, 0.5, 0.95])
    fewer = max(p.repeats // 5, 10)
    normalised = np.median(repeated(fewer, "ratios"))
    seed = study.seed_of("interval", place)
    interval = bounds.rero_monte_carlo(run, p.kappa, p.samples, seed, p.confidence)
    complement = np.median(repeated(fewer, "complement"))
    gamma = float(bounds.rero_gaussian(1 / signal, p.kappa))
    ends = interval.lower, interval.upper
    return signal, gamma, low, median, high, normalised, complement, *ends


def _samples_needed(signal: np.ndarray, kappa: float, error: float = 0.01) -> pd.DataFrame:
    """Samples for a relative standard error of Algorithm 1, from its variance in closed form.

    The estimate's error is to first order that of the mean of ``(r - r*)_+``, with ``r*`` the ratio
    at the threshold: an error of the threshold itself counts in the second order.
    """
    t = -sc.ndtri(kappa)
    log_ratio = signal * t - 0.5 * signal**2
    ratio, gamma = np.exp(log_ratio), sc.ndtr(signal - t)
    # divided by exp(m^2), which overflows first
    second = sc.ndtr(2 * signal - t)
    second += np.exp(log_ratio - signal**2) * (ratio * kappa - 2 * gamma)
    variance = second - np.exp(-(signal**2)) * (gamma - ratio * kappa) ** 2
    log_needed = signal**2 + np.log(variance) - 2 * np.log(error * gamma)
    return pd.DataFrame({"signal": signal, "gamma": gamma, "samples": np.exp(log_needed)})


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table, needed = tables.parameters, tables["estimates"], tables["samples needed"]
    share = table["median"] / table["gamma"]
    small, large = share[table["signal"] <= 2], share[table["signal"] >= 6]
    off = (table["complement"] / table["gamma"] - 1).abs().max()
    yield check(
        "beyond/monte_carlo",
        ((small - 1).abs() < 0.05).all()
        and len(large) > 0
        and (large < 0.6).all()
        and off < MARGIN,
        "the median estimate with the factor 1/N is within 5% of gamma up to sqrt(T)/sigma = 2, "
        f"and below 0.6 gamma from 6 on; the complement stays within {MARGIN:.0%} of gamma",
        ours=f"{p.samples:,} samples, {p.repeats} estimates at each signal; complement off by up "
        f"to {off:.2g}",
    )
    contained = table["gamma"].between(table["lower"], table["upper"]).all()
    # ten standard errors on either side, for a standard deviation of at most 1/2
    width = 20 / math.sqrt(p.samples)
    narrow = (table["upper"] - table["lower"]).max() < width
    growth = np.polyfit(needed["signal"] ** 2, np.log(needed["samples"]), 1)[0]
    first, last = needed.iloc[0], needed.iloc[-1]
    yield check(
        "O-015",
        contained and narrow and abs(growth - 1) < 0.1 and off < MARGIN,
        ours=f"{first['samples']:.2g} samples at {first['signal']:g}, {last['samples']:.2g} at "
        f"{last['signal']:g}; intervals narrower than {width:.2g}",
    )


CAPTION = (
    "Estimates of gamma with a fixed number of samples, full batch, kappa = 1/10, over "
    "sqrt(T)/sigma. Left: Algorithm 1 with the factor that makes it right (median and the central "
    "90% of repeated runs), the self-normalised estimate, the complement of the smallest ratios, "
    "and the interval from two samples. "
    "Right: samples that Algorithm 1 needs for a standard error of 1%, in closed form."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, needed = tables["estimates"], tables["samples needed"]
    figure, (row,) = panels(1, 2, 4.4, 3.4)
    m, middle = table["signal"], 0.5 * (table["lower"] + table["upper"])
    row[0].fill_between(m, table["low"], table["high"], color=ORANGE, alpha=0.25, lw=0)
    row[0].plot(m, table["median"], "o-", ms=4, color=ORANGE, label="Algorithm 1")
    row[0].plot(m, table["normalised median"], "s--", ms=4, color=PURPLE, label="self-normalised")
    row[0].plot(m, table["complement"], "v:", ms=4, color=GREEN, label="complement")
    row[0].errorbar(
        m, middle, [middle - table["lower"], table["upper"] - middle], fmt="none", color=BLUE,
        capsize=4, lw=1.8, label="two-sample interval",
    )  # fmt: skip
    row[0].plot(m, table["gamma"], color=GREY, label=r"$\gamma$")
    row[0].set(yscale="log", ylim=(1e-10, 20), ylabel="estimate")
    row[0].legend(loc="lower left")
    growth = np.exp(needed["signal"] ** 2)
    growth *= needed["samples"].iloc[0] / growth.iloc[0]
    row[1].plot(needed["signal"], needed["samples"], "o-", ms=4, color=BLUE, label="needed")
    row[1].plot(needed["signal"], growth, ":", color=GREY, label=r"$\propto \exp(T/\sigma^2)$")
    row[1].axhline(1e6, color=GREEN, lw=1, ls="--", label="a million")
    row[1].set(yscale="log", ylabel="samples for an error of 1%")
    row[1].legend(loc="upper left")
    for axis in row:
        axis.set_xlabel(r"$\sqrt{T}/\sigma$")
    return figure
