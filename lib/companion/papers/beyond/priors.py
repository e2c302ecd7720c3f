"""What a prior is worth: attackers of paper A's release who know what digits look like.

DP-SGD releases the record's direction in noise, and not its length. Paper A's copies have the
clipping factor besides, and so the length; who knows what digits look like has the release alone.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.beyond.record_errors import (
    MARGIN,
    ratio_of_means,
    ratios_at_most,
    share_of_hits,
    standard_error,
)
from reconrisk import DPSGD, attacks, bounds, datasets, privacy

_OURS = "our own exhibit"
_SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PARAMETERS = {
    "dataset": Parameter("str", "MNIST-5000", "MNIST", _OURS, "labelled images"),
    "others": Parameter("int", 4000, 20_000, _OURS, "other images that attackers know", 10),
    "targets": Parameter("int", 300, 1000, _OURS, "records attacked, one release each", 10),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", 1e-4),
    "repeats": Parameter(
        "int", 10, 10, _OURS, "releases of each record to name it from, at the larger noises", 1
    ),
    "shown": Parameter("int", 7, 7, _OURS, "position of the record that is shown", 0),
    "delta": Parameter("float", 1e-5, 1e-5, _OURS, "delta of the epsilons shown", 1e-12),
}
SETTLES = ("O-080", "O-081", "O-082", "O-083")

COPY, SHRUNKEN = "row mean", "shrunken"
WIENER, OTHERS, LISTED = "mean and covariance", "list without it", "list with it"
ALONE, FACTOR = "release alone", "clipping factor"
MEAN, NEAREST = "mean image", "nearest other"
#: knowledge, from the least to the most
LADDER = (COPY, SHRUNKEN, WIENER, LISTED)
#: attackers compared record by record, who should err less first
PAIRS = [
    *zip(LADDER[1:], LADDER[:-1], strict=True),
    (LISTED, OTHERS),
]
#: the noise at which the attackers are told apart in words
NOISE = 0.05
#: an attacker that names the record this often names it nearly always
NEARLY = 0.99

ALTERED = {
    "pairs": {"ratio": by("one", "errors over those of who knows less")},
    "errors": {
        "MSE": (
            at(f"attacker == '{WIENER}'", "errors of the filter"),
            at(f"attacker == '{COPY}'", "errors of the row mean"),
        )
    },
    "named": {
        ALONE: "shares named from the release",
        FACTOR: "shares named from the factor",
        "bound": "bounds",
    },
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    images = datasets.classified(p.dataset, study.data_root, "all")
    known, targets = images.inputs[: p.others], images.inputs[p.others :][: p.targets]
    listed = torch.as_tensor(images.inputs[: p.others + p.targets], dtype=torch.float64)
    directions = listed / listed.norm(dim=1, keepdim=True)
    length = float(listed[: p.others].norm(dim=1).mean())
    moments = attacks.second_moments(as_numpy(directions[: p.others]))
    records = torch.as_tensor(targets, dtype=torch.float64, device=study.device)
    errors, pairs, named, shown = [], [], [], {"original": images.pictures(targets[[p.shown]])[0]}
    for sigma in p.noise_multipliers:
        run = DPSGD(sigma, max_grad_norm=0.1 * float(records.norm(dim=1).min()))
        seen = attacks.observe(records, run, study.generator(sigma))
        release, copy = attacks.unscaled(seen) / run.max_grad_norm, attacks.known_scale(seen)
        with_it = attacks.list_posterior(release, sigma, directions)
        without = attacks.list_posterior(release, sigma, directions[: p.others])
        rebuilt = {
            COPY: copy,
            SHRUNKEN: attacks.shrink(copy, sigma),
            WIENER: length * attacks.wiener_filter(release, sigma, moments),
            OTHERS: without @ listed[: p.others],
            LISTED: with_it @ listed,
        }
        squares = {a: np.square(as_numpy(e) - targets).mean(axis=1) for a, e in rebuilt.items()}
        errors += [(sigma, a, of.mean(), standard_error(of)) for a, of in squares.items()]
        pairs += [(sigma, *pair, *ratio_of_means(*(squares[a] for a in pair))) for pair in PAIRS]
        for attacker, estimate in rebuilt.items():
            shown[f"{sigma:g} {attacker}"] = images.pictures(as_numpy(estimate)[[p.shown]])[0]
        most = bounds.rero(run, 1 / len(listed)).upper
        epsilon = privacy.epsilon(run, p.delta).upper
        own = torch.arange(p.others, len(listed))
        by_factor = named_by_factor(run.max_grad_norm / seen.scale, listed) == own
        shares = *_named(study, records, directions, run), *share_of_hits(as_numpy(by_factor)[None])
        named.append((sigma, epsilon, *shares, most))
    lines = {
        MEAN: float(np.square(targets - known.mean(axis=0)).mean()),
        NEAREST: float(attacks.nearest_neighbour_mse(as_numpy(listed))[p.others :].mean()),
    }
    return Tables(
        {
            "errors": pd.DataFrame(errors, columns=["sigma", "attacker", "MSE", "standard error"]),
            "pairs": pd.DataFrame(
                pairs, columns=["sigma", "one", "other", "ratio", "standard error"]
            ),
            "named": pd.DataFrame(
                named,
                columns=["sigma", "epsilon", ALONE, f"error, {ALONE}", FACTOR, f"error, {FACTOR}"]
                + ["bound"],
            ),
            "lines": pd.DataFrame(lines.items(), columns=["guess", "MSE"]),
        },
        images=shown,
        ran=f"{len(targets)} images of {images.name}, one DP-SGD step each at "
        f"{len(p.noise_multipliers)} noises; attackers know {p.others:,} other images; lists hold "
        f"{len(listed):,} with the record.",
    )


def _named(
    study: Context, records: torch.Tensor, directions: torch.Tensor, run: DPSGD
) -> tuple[float, float]:
    """Share of releases whose record is named from the release alone, and its standard error."""
    own = torch.arange(len(directions) - len(records), len(directions))
    single = directions.float()  # twice as fast, and names the same
    hits = []
    # up to that noise every record is named
    for repeat in range(study.parameters.repeats if run.noise_multiplier > NOISE else 1):
        generator = study.generator("named", run.noise_multiplier, repeat)
        release = (
            attacks.unscaled(attacks.observe(records, run, generator)).float() / run.max_grad_norm
        )
        posterior = attacks.list_posterior(release, run.noise_multiplier, single)
        hits.append(as_numpy(posterior.argmax(dim=1) == own))
    return share_of_hits(np.stack(hits))


def named_by_factor(norms: torch.Tensor, listed: torch.Tensor) -> torch.Tensor:
    """Positions of the listed records whose norms are nearest to those that factors give away."""
    ascending, order = listed.norm(dim=1).sort()
    above = torch.searchsorted(ascending, norms).clamp(1, len(ascending) - 1)
    nearer = (norms - ascending[above - 1] < ascending[above] - norms).long()
    return order[above - nearer]


def judge(tables: Tables) -> Iterator[Verdict]:
    errors, pairs, named = tables["errors"], tables["pairs"], tables["named"]
    mse = errors.pivot_table(index="sigma", columns="attacker", values="MSE")
    sem = errors.pivot_table(index="sigma", columns="attacker", values="standard error")
    lines = tables["lines"].set_index("guess")["MSE"]
    at = mse.index[np.argmin(np.abs(np.log(mse.index.to_numpy() / NOISE)))]
    text = {a: rounded(mse.loc[at, a], sem.loc[at, a]) for a in mse.columns}
    yield check(
        "beyond/priors",
        ratios_at_most(pairs[pairs["other"].isin(LADDER)]),
        "at every noise an attacker who also knows the noise errs less, with mean and covariance "
        "of such images less still, and least with a list that holds the record, although only "
        "paper A's copies have the clipping factor",
        ours=f"at sigma = {at:g}: " + ", ".join(f"{mse.loc[at, a]:.3f}" for a in LADDER),
        tolerance=f"{MARGIN:.0%}, 4 standard errors included",
        stand_in=tables.stand_in,
    )
    yield check(
        "O-080",
        mse.loc[at, COPY] - STANDARD_ERRORS * sem.loc[at, COPY] > lines[MEAN]
        and mse.loc[at, WIENER] + STANDARD_ERRORS * sem.loc[at, WIENER] < lines[NEAREST],
        ours=f"row mean {text[COPY]}, mean image {lines[MEAN]:.3f}, nearest {lines[NEAREST]:.3f}, "
        f"filter {text[WIENER]}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
    )
    low = named[named["sigma"] <= NOISE * 1.0001]
    shares = ", ".join(f"{row[ALONE]:.3f} ({row['bound']:.3f})" for _, row in named.iterrows())
    yield check(
        "O-081",
        len(low) > 0
        and (low[ALONE] >= NEARLY).all()
        and at_most(named[ALONE], named["bound"], named[f"error, {ALONE}"]) is not False,
        ours=f"named (bound): {shares}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
    )
    last = named.iloc[-1]
    yield check(
        "O-083",
        (named[FACTOR] >= NEARLY).all()
        and at_least(last[FACTOR], last["bound"], last[f"error, {FACTOR}"]) is True,
        ours=f"{named[FACTOR].min():.1%} at the least from the factor; from the release "
        f"{rounded(last[ALONE], last[f'error, {ALONE}'])} at sigma = {last['sigma']:g}, at most "
        f"{last['bound']:.4f} by paper C's bound",
        stand_in=tables.stand_in,
    )
    floor = pairs[pairs["one"] == LISTED]
    yield check(
        "O-082",
        ratios_at_most(floor),
        ours=f"its error is at most {floor['ratio'].max():.3f} of another's",
        tolerance=f"{MARGIN:.0%}, 4 standard errors included",
        stand_in=tables.stand_in,
    )


_LOOKS = {
    COPY: (GREY, "o"),
    SHRUNKEN: (BLUE, "s"),
    WIENER: (ORANGE, "^"),
    OTHERS: (GREEN, "v"),
    LISTED: (RED, "v"),
}


def caption(tables: Tables) -> str:
    p = tables.parameters
    return (
        f"One image and {tables['errors']['sigma'].nunique()} releases of it, as attackers rebuild "
        "it. The first two have the clipping factor, as in paper A: the unbiased row mean, and the "
        "same shrunken. The others have the release alone, and know the mean and covariance of "
        f"{p.others:,} other images, those images themselves, or a list that has the image too. "
        "Below: mean squared errors over the targets, the mean image's and the nearest other "
        "image's as lines, and how often the list names the record from the release alone, for "
        "which paper C's bound is the most, and from the clipping factor alone (bars: two "
        f"standard errors). Above the pictures: epsilon of one step at delta = {p.delta:g}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    named = tables["named"]
    figure = plt.figure(figsize=(8.4, 9.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(5.6, 3))
    axes = above.subplots(len(_LOOKS), len(named) + 1)
    for row, attacker in zip(axes, _LOOKS, strict=True):
        row[0].axis("off")
        name = re.sub(" (without|with it|and)", r"\n\1", attacker)
        row[0].text(1, 0.5, name, ha="right", va="center", transform=row[0].transAxes)
        for axis, sigma in zip(row[1:], named["sigma"], strict=True):
            picture(axis, tables.images[f"{sigma:g} {attacker}"])
    for axis, (_, step) in zip(axes[0][1:], named.iterrows(), strict=True):
        axis.set_title(f"σ = {step['sigma']:g}\nε = {step['epsilon']:,.0f}", fontsize=9)
    left, right = below.subplots(1, 2)
    _curves(left, right, tables)
    return figure


def _curves(left: Axes, right: Axes, tables: Tables) -> None:
    errors, named = tables["errors"], tables["named"]
    for attacker, (colour, marker) in _LOOKS.items():
        own = errors[errors["attacker"] == attacker]
        left.plot(own["sigma"], own["MSE"], color=colour, marker=marker, ms=4, label=attacker)
    for guess, mse in tables["lines"].itertuples(index=False):
        left.axhline(mse, color=GREY, ls=":", lw=1)
        right_edge: dict[str, Any] = {
            "transform": left.get_yaxis_transform(),
            "ha": "right",
            "va": "bottom",
        }
        left.text(0.99, mse, guess, fontsize=8, color=GREY, **right_edge)
    left.set(xscale="log", yscale="log", ylim=(1e-3, 1), ylabel="mean squared error")
    legend_below(left, 3)
    right.plot(named["sigma"], named["bound"], color=BOUND, label="bound (paper C)")
    for name, style in ((ALONE, "-"), (FACTOR, "--")):
        look: dict[str, Any] = {"color": RED, "ls": style, "label": f"list, {name}"}
        bars = 2 * named[f"error, {name}"]
        right.errorbar(named["sigma"], named[name], bars, marker="v", ms=4, **look)
    right.set(xscale="log", yscale="log", ylabel="share of records named")
    legend_below(right, 2, handlelength=2.8)  # long enough to see the dashes
    for axis in (left, right):
        axis.set_xlabel(r"noise multiplier $\sigma$")
