"""What any network can say about a record, in nats, and the error that every attack must leave."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import integrate

from companion.exhibit import *
from reconrisk import bounds

_OURS = "not printed: our own"
_SIGMAS, _SIZES = (0.1, 0.3, 1.0), (2, 16, 784, 150_528, 10_000_000)
_RATES, _NOISES = (0.1, 0.3, 1.0), (0.5, 1.0)
_NATS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0)
_MANY = (64, 784, 10_000, 150_528)
PARAMETERS = {
    "sizes": Parameter("ints", _SIZES, _SIZES, _OURS, "released parameters m", low=2),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", low=1e-3),
    "rates": Parameter("floats", _RATES, _RATES, _OURS, "q", low=1e-6),
    "sampled_noises": Parameter("floats", _NOISES, _NOISES, _OURS, "sigma when sampled", 0.1),
    "candidates": Parameter("int", 512, 512, _OURS, "records told apart when sampled", low=2),
    "samples": Parameter("int", 40_000, 100_000, _OURS, "steps of that network", low=1000),
    "dimension": Parameter("int", 784, 784, _OURS, "N of the floors", low=2),
    "nats_per_value": Parameter("floats", _NATS, _NATS, _OURS, "I/N of the floors", low=1e-6),
    "dimensions": Parameter("ints", _MANY, _MANY, _OURS, "N, smallest first", low=2),
    "digits": Parameter("int", 1000, 5000, _OURS, "MNIST images", low=10),
    "room": Parameter("float", 0.01, 0.01, _OURS, "relative distance from limits", low=0),
}
SETTLES = ("O-061", "O-062", "O-063")
#: what counts as many times
MANY = 10
#: how near the sampled network must come to the divergence, relative
MARGIN = 0.05
ALTERED = {
    "floors": {"256 levels": "floors", "floor": "Shannon's floors", "linear layer, 256": "errors"},
    "channels": {"sphere": "nats of the sphere", "limit": "limits"},
    "secret": {"sampled": "nats while the steps are secret", "secret": "the most that they can be"},
    "digits": {"set": "floors of a set"},
    "meeting": {"paper C": at("N == N.max()", "floors by paper C's bound in many dimensions")},
    "chances": {"information": "chances by information"},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    channels = [
        (
            sigma,
            m,
            float(bounds.information_on_sphere(m, sigma)),
            float(bounds.information_capacity(sigma, parameters=m)),
            float(bounds.information_capacity(sigma)),
        )
        for sigma in p.noise_multipliers
        for m in p.sizes
    ]
    secret = []
    for sigma in p.sampled_noises:
        for q in p.rates:
            said, error = say(q, sigma, p.candidates, p.samples, study.rng("secret", sigma, q))
            told = float(bounds.information_capacity(sigma, q, participation="known"))
            least = float(bounds.information_capacity(sigma, q))
            secret.append((sigma, q, least, told, said, error))
    return Tables(
        {
            "channels": pd.DataFrame(
                channels, columns=["sigma", "m", "sphere", "capacity", "limit"]
            ),
            "secret": pd.DataFrame(
                secret, columns=["sigma", "q", "secret", "known", "sampled", "standard error"]
            ),
            "floors": _floors(p.dimension, p.nats_per_value),
            "meeting": _meeting(p.dimensions),
            "chances": _chances(),
            "digits": _digits(p.digits),
        },
        ran=f"closed forms, quadrature and Blahut-Arimoto; {p.samples:,} sampled steps of a "
        f"network with one parameter for each of {p.candidates} records at each noise and rate; "
        f"floors of {p.digits:,} MNIST images.",
        subsets=(MNIST,),
    )


def say(
    rate: float, noise_multiplier: float, candidates: int, samples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Information that one sampled step gives on equally likely records, and its error.

    Each record's clipped gradient is one coordinate of its own; whether the step took the record is
    secret. The log of the output's density given the record, over the noise's, depends on its
    coordinate alone and is averaged over a hundred times as many draws as that of the output's
    marginal density over the noise's.
    """
    signal = 1 / noise_multiplier

    def ratio(output: np.ndarray) -> np.ndarray:
        return 1 - rate + rate * np.exp(signal * output - signal**2 / 2)

    many = 100 * samples
    own = np.log(ratio(rng.standard_normal(many) + signal * (rng.random(many) < rate)))
    marginal = []
    for count in np.diff(np.linspace(0, samples, 1 + samples // 4000, dtype=int)):
        output = rng.standard_normal((count, candidates))
        output[:, 0] += signal * (rng.random(count) < rate)
        marginal.append(np.log(ratio(output).mean(axis=1)))
    lost = np.concatenate(marginal)
    error = math.hypot(own.std() / math.sqrt(many), lost.std() / math.sqrt(samples))
    return float(own.mean() - lost.mean()), error


def _floors(dimension: int, nats_per_value: tuple[float, ...]) -> pd.DataFrame:
    """Least errors of N uniform values at the noise at which a step can say so many nats."""
    rows = []
    for rate in nats_per_value:
        nats = rate * dimension
        sigma = math.sqrt(0.5 / nats)
        # the linear layer is fed the record less one half
        shrunk = float(bounds.expected_mse_shrunk(dimension, sigma, math.sqrt(dimension)))
        own = float(bounds.information_capacity(sigma, parameters=dimension))
        floor = float(bounds.mse_floor_uniform(nats, dimension))
        levels = float(bounds.mse_floor_levels(nats, dimension))
        linear = (shrunk / 12, shrunk * np.linspace(0, 1, 256).var())
        rows.append((sigma, rate, nats, own, *linear, floor, levels, paper_c(dimension, sigma)))
    columns = ["sigma", "nats per value", "every network", "one layer", "linear layer"]
    columns += ["linear layer, 256", "floor", "256 levels", "paper C"]
    return pd.DataFrame(rows, columns=columns)


def paper_c(dimension: int, noise_multiplier: float) -> float:
    """Least mean error that paper C's bound on near misses leaves: the integral of ``1 - gamma``.

    For independent uniform values, whose prior success is bounded by the volume of a ball.
    """
    # the bound rises to one within a few times 1/sqrt(N) of the floor, relative
    middle = math.log(float(bounds.mse_floor_uniform(0.5 / noise_multiplier**2, dimension)))
    width = 60 / math.sqrt(dimension)

    def missed(log_error: float) -> float:
        error = math.exp(log_error)
        return error * (1 - float(bounds.rero_box(error, dimension, noise_multiplier)))

    low = middle - width
    above = integrate.quad(missed, low, middle + width, limit=400, points=[middle])[0]
    return missed(low) + above


def _meeting(dimensions: tuple[int, ...]) -> pd.DataFrame:
    rows = []
    for n in dimensions:
        for rate in (2.0, 4.0):
            floor = float(bounds.mse_floor_uniform(rate * n, n))
            rows.append((n, rate, floor, paper_c(n, math.sqrt(0.5 / (rate * n)))))
    return pd.DataFrame(rows, columns=["N", "nats per value", "floor", "paper C"])


def _chances() -> pd.DataFrame:
    rows = []
    for sigma in (0.1, 0.3, 1.0):
        for share in (0.1, 0.3, 0.5, 0.8, 1.0, 1.2, 1.5, 2.0):
            log_kappa = -share * 0.5 / sigma**2
            nats = float(bounds.information_capacity(sigma))
            by_information = bounds.information_success(nats, log_prior_success=log_kappa)
            by_rero = bounds.rero_gaussian(sigma, log_prior_success=log_kappa)
            rows.append((sigma, log_kappa, float(by_information), float(by_rero)))
    return pd.DataFrame(rows, columns=["sigma", "log kappa", "information", "paper C"])


def _digits(count: int) -> pd.DataFrame:
    """Floors for a digit of the set, and for a Gaussian record of the set's covariance."""
    images = mnist(count)
    variances = np.clip(np.linalg.eigvalsh(np.cov(images.T, bias=True)), 0, None)
    variances[variances < 1e-12] = 0
    nats = np.concatenate([np.linspace(0, math.log(count), 16), np.linspace(8, 40, 17)])
    return pd.DataFrame(
        {
            "nats": nats,
            "Gaussian": bounds.mse_floor_gaussian(nats, variances),
            "set": bounds.mse_floor_set(nats, images),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, floors, channels = tables.parameters, tables["floors"], tables["channels"]
    gap = floors["linear layer, 256"] / floors["256 levels"]
    falling = (np.diff(floors["floor"]) < 0).all() and (np.diff(gap) > 0).all()
    # from two nats on 256 levels are seen to be discrete
    fine = floors[floors["nats per value"] <= 2]
    sharper = (fine["256 levels"] > fine["floor"]).all()
    named = tables["digits"]["nats"] >= math.log(p.digits) * (1 - 1e-12)
    of_set = tables["digits"]["set"]
    counted = (of_set[named] < 1e-9).all() and (of_set[~named] > 0).all()
    yield check(
        "beyond/any_network",
        (gap >= 1).all()
        and sharper
        and (floors["linear layer"] > floors["floor"]).all()
        and falling
        and gap.iloc[0] < 1 + p.room
        and gap.iloc[-1] > MANY
        and counted,
        "what a step can say through any network leaves every attack an error; under heavy noise "
        "the linear layer's is hardly larger, under little noise many times. A record of a finite "
        "set is safe only below the log of its size",
        ours=f"{p.dimension} values of 256 levels: linear layer over floor {gap.iloc[0]:.4f} at "
        f"sigma = {floors['sigma'].iloc[0]:.2g}, {gap.iloc[-1]:,.0f} at sigma = "
        f"{floors['sigma'].iloc[-1]:.2g}",
        tolerance=f"{p.room:.0%} at the heaviest noise, a factor of {MANY} at the lightest",
    )
    largest = channels[channels["m"] == channels["m"].max()]
    reached = (largest["sphere"] / largest["limit"]).min()
    ordered = (
        (channels["sphere"] < channels["capacity"] * (1 + 1e-9))
        & (channels["capacity"] < channels["limit"])
    ).all()
    half = np.isclose(channels["limit"], 0.5 / channels["sigma"] ** 2, rtol=1e-9).all()
    yield check(
        "O-061",
        ordered and half and reached > 1 - p.room,
        ours=f"uniform direction over limit: {reached:.5f} at m = {channels['m'].max():,}",
        tolerance=f"{p.room:g} below the limit",
    )
    secret = tables["secret"]
    near = within(
        secret["sampled"], secret["secret"], secret["standard error"], MARGIN * secret["secret"]
    )
    sampled = secret[secret["q"] < 1]
    helps = (sampled["secret"] < sampled["known"] * 0.99).all()
    least = (sampled["secret"] / sampled["known"]).min()
    yield check(
        "O-062",
        near if helps and (secret["secret"] <= secret["known"] * (1 + 1e-9)).all() else False,
        ours=f"secret over known down to {least:.3f}, at q = "
        f"{sampled.loc[(sampled['secret'] / sampled['known']).idxmin(), 'q']:g}",
        tolerance=f"sampled: {MARGIN:.0%}, errors included",
    )
    meeting, chances = tables["meeting"], tables["chances"]
    ratio = (meeting["paper C"] / meeting["floor"] - 1).abs().groupby(meeting["N"]).max()
    never = (chances["information"] >= chances["paper C"] * (1 - 1e-9)).all()
    coarse = floors[floors["nats per value"] <= 1]
    better = coarse["256 levels"] / coarse["paper C"]
    yield check(
        "O-063",
        never
        and (better > 1 + MARGIN).all()
        and (np.diff(ratio) < 0).all()
        and ratio.iloc[-1] < p.room,
        ours="paper C's floor off Shannon's by at most "
        + ", ".join(f"{value:.2%} (N = {n:,})" for n, value in ratio.items()),
        tolerance=f"{p.room:.0%} in the largest dimension; sharper by more than {MARGIN:.0%} up "
        "to a nat a value",
    )


CAPTION = (
    "Left: nats that one step can say about a record of 784 values, through a linear layer and "
    "through any network, and at q = 0.01. Middle: least mean squared error of uniform values by "
    "those nats (line; dots: 256 grey levels) and by paper C's bound, and the error of the linear "
    "layer's shrunken estimate, fed the record less one half. Right: least errors of a handwritten "
    "digit from a finite set, and of a Gaussian record of the same covariance."
)


@drawing
def draw(tables: Tables) -> Figure:
    floors, digits, n = tables["floors"], tables["digits"], tables.parameters.dimension
    figure, ((left, middle, right),) = panels(1, 3, 3.6, 3.3)
    sigma = np.geomspace(floors["sigma"].min() / 2, 3, 60)
    for label, values, colour, style in (
        ("every network", bounds.information_capacity(sigma), ORANGE, "-"),
        ("linear layer", bounds.information_capacity(sigma, parameters=n), BLUE, "-"),
        ("q = 0.01, known", 0.01 * bounds.information_capacity(sigma), ORANGE, "--"),
        ("q = 0.01, secret", bounds.information_capacity(sigma, 0.01), ORANGE, ":"),
    ):
        left.plot(sigma, values, color=colour, linestyle=style, label=label)
    left.set(xscale="log", yscale="log", xlabel=r"noise multiplier $\sigma$", ylabel="nats a step")
    left.legend(fontsize=8)
    x = floors["nats per value"]
    middle.plot(x, floors["linear layer"], color=BLUE, label="linear layer")
    middle.plot(x, floors["floor"], color=ORANGE, label="every network (Shannon)")
    middle.plot(x, floors["paper C"], color=GREEN, linestyle="--", label="by paper C's bound")
    middle.plot(x, floors["256 levels"], "o", color=PURPLE, ms=4, label="256 grey levels")
    middle.set(xscale="log", yscale="log", xlabel="nats per value, every network", ylabel="MSE")
    middle.legend(fontsize=8)
    right.plot(digits["nats"], digits["Gaussian"], color=GREY, label="Gaussian, same covariance")
    right.plot(digits["nats"], digits["set"], color=ORANGE, label="one of the set")
    right.set(xlim=(0, 40), ylim=(0, None), xlabel="nats", ylabel="MSE")
    right.legend(fontsize=8)
    return figure
