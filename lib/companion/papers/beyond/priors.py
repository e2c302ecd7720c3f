"""What a prior is worth: attackers of paper A's release who know what digits look like."""

from collections.abc import Iterator
from pathlib import Path

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
from reconrisk import DPSGD, bounds, datasets, privacy
from reconrisk.attacks import (
    clip_to_range,
    known_scale,
    list_posterior,
    nearest_neighbour_mse,
    observe,
    second_moments,
    shrink,
    wiener_filter,
)

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

COPY, CLIPPED, SHRUNKEN = "row mean", "clipped", "shrunken"
WIENER, OTHERS, LISTED = "mean and covariance", "list without it", "list with it"
ALONE, SCALED = "release alone", "with its scale"
MEAN, NEAREST = "mean image", "nearest other"
#: knowledge, from the least to the most
LADDER = (COPY, SHRUNKEN, WIENER, LISTED)
#: attackers compared record by record, who should err less first
PAIRS = [
    *zip(LADDER[1:], LADDER[:-1], strict=True),
    *((LISTED, a) for a in (COPY, CLIPPED, SHRUNKEN, OTHERS)),
]
#: the noise at which the attackers are told apart in words
NOISE = 0.05
#: an attacker that names the record this often names it nearly always
NEARLY = 0.99

FALSIFIERS = (
    graded(
        "errors {} larger with more knowledge",
        column("pairs", "ratio", lambda c, by: c * (1 + by)),
        *("", "O-082"),
    ),
    world(
        "a list that is worth less than the covariance",
        frame("pairs", lambda t: _turned(t, LISTED, WIENER)),
        *("", "O-082"),
    ),
    graded(
        "errors of the Wiener filter {} larger",
        column("errors", "MSE", lambda c, by: c * (1 + by), f"attacker == '{WIENER}'"),
        "O-080",
    ),
    graded(
        "errors of the row mean {} smaller",
        column("errors", "MSE", lambda c, by: c * (1 - by), f"attacker == '{COPY}'"),
        "O-080",
    ),
    graded(
        "the record named {} less often",
        column("named", ALONE, lambda c, by: c * (1 - by)),
        "O-081",
    ),
    graded("a bound {} lower", column("named", "bound", lambda c, by: c * (1 - by)), "O-081"),
    graded(
        "the record named {} less often with the scale",
        column("named", SCALED, lambda c, by: c * (1 - by)),
        "O-083",
    ),
    world(
        "a scale that says nothing",
        frame("named", lambda t: t.assign(**{SCALED: t[ALONE]})),
        "O-083",
    ),
)


def _turned(table: pd.DataFrame, one: str, other: str) -> pd.DataFrame:
    """Exchange two attackers' errors where they are compared."""
    these = (table["one"] == one) & (table["other"] == other)
    return table.assign(ratio=table["ratio"].mask(these, 1 / table["ratio"].clip(lower=1e-3)))


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    folder = data_folder(study, p.dataset)
    images = datasets.classified(p.dataset, Path(folder) if folder else None, "all")
    known, targets = images.inputs[: p.others], images.inputs[p.others :][: p.targets]
    listed = torch.as_tensor(images.inputs[: p.others + p.targets], dtype=torch.float64)
    moments = second_moments(known)
    records = torch.as_tensor(targets, dtype=torch.float64, device=study.device)
    errors, pairs, named, shown = [], [], [], {"original": images.pictures(targets[[p.shown]])[0]}
    for sigma in p.noise_multipliers:
        run = DPSGD(sigma, max_grad_norm=0.1 * float(records.norm(dim=1).min()))
        x_hat = known_scale(observe(records, run, study.generator(sigma)))
        with_it = list_posterior(x_hat, sigma, listed)
        without = list_posterior(x_hat, sigma, listed[: p.others])
        rebuilt = {
            COPY: x_hat,
            CLIPPED: clip_to_range(x_hat),
            SHRUNKEN: shrink(x_hat, sigma),
            WIENER: wiener_filter(x_hat, sigma, moments),
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
        named.append((sigma, epsilon, *_named(study, records, listed, run), most))
    lines = {
        MEAN: float(np.square(targets - moments.mean).mean()),
        NEAREST: float(nearest_neighbour_mse(as_numpy(listed))[p.others :].mean()),
    }
    return Tables(
        {
            "errors": pd.DataFrame(errors, columns=["sigma", "attacker", "MSE", "standard error"]),
            "pairs": pd.DataFrame(
                pairs, columns=["sigma", "one", "other", "ratio", "standard error"]
            ),
            "named": pd.DataFrame(
                named,
                columns=["sigma", "epsilon", ALONE, f"error, {ALONE}", SCALED, f"error, {SCALED}"]
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
    study: Context, records: torch.Tensor, listed: torch.Tensor, run: DPSGD
) -> tuple[float, ...]:
    """Shares of releases whose record is named, from the release alone and with its scale."""
    own = torch.arange(len(listed) - len(records), len(listed))
    single = listed.float()  # twice as fast, and names the same
    norms, lengths = (of.norm(dim=1, keepdim=True) for of in (records, single))
    sigma = run.noise_multiplier
    hits: dict[str, list[np.ndarray]] = {ALONE: [], SCALED: []}
    # up to that noise every record is named
    for repeat in range(study.parameters.repeats if sigma > NOISE else 1):
        generator = study.generator("named", sigma, repeat)
        x_hat = known_scale(observe(records, run, generator)).float()
        # the private gradient has the record's direction, and the same noise whatever its length
        guesses = {
            ALONE: list_posterior(x_hat / norms.float(), sigma, single / lengths),
            SCALED: list_posterior(x_hat, sigma, single),
        }
        for name, posterior in guesses.items():
            hits[name].append(as_numpy(posterior.argmax(dim=1) == own))
    return tuple(v for name in (ALONE, SCALED) for v in share_of_hits(np.stack(hits[name])))


def judge(tables: Tables) -> Iterator[Verdict]:
    errors, pairs, named = tables["errors"], tables["pairs"], tables["named"]
    mse = errors.pivot_table(index="sigma", columns="attacker", values="MSE")
    sem = errors.pivot_table(index="sigma", columns="attacker", values="standard error")
    lines = tables["lines"].set_index("guess")["MSE"]
    at = mse.index[np.argmin(np.abs(np.log(mse.index.to_numpy() / NOISE)))]
    text = {a: rounded(mse.loc[at, a], sem.loc[at, a]) for a in mse.columns}
    ladder = pairs[list(map(_on_the_ladder, pairs["one"], pairs["other"]))]
    yield check(
        "beyond/priors",
        ratios_at_most(ladder),
        "at every noise knowledge lowers the error: of the noise, of the mean and covariance of "
        "such images, of a list with the record",
        ours=f"at sigma = {at:g}: " + ", ".join(f"{mse.loc[at, a]:.3f}" for a in LADDER),
        tolerance=f"{MARGIN:.0%}, 4 standard errors included",
        stand_in=tables.stand_in,
    )
    yield check(
        "O-080",
        mse.loc[at, COPY] - STANDARD_ERRORS * sem.loc[at, COPY] > lines[MEAN]
        and mse.loc[at, WIENER] + STANDARD_ERRORS * sem.loc[at, WIENER] < lines[NEAREST],
        f"at sigma = {at:g} the row mean errs by more than the mean image, the filter that knows "
        "mean and covariance by less than the nearest other image",
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
        f"from the release alone whoever has the list names the record in {NEARLY:.0%} of the "
        f"releases or more up to sigma = {NOISE:g}, and nowhere more often than the bound allows",
        ours=f"named (bound): {shares}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
    )
    last = named.iloc[-1]
    excess = last[SCALED] - last["bound"]
    yield check(
        "O-083",
        at_least(excess, 0, last[f"error, {SCALED}"]),
        "with the scale, which DP-SGD does not release, the list names the record at sigma = "
        f"{last['sigma']:g} more often than any attack can without it",
        ours=f"{rounded(last[SCALED], last[f'error, {SCALED}'])} with the scale, "
        f"{rounded(last[ALONE], last[f'error, {ALONE}'])} without; bound {last['bound']:.4f}",
        tolerance="4 standard errors",
        stand_in=tables.stand_in,
        decided_by="more releases",
    )
    floor = pairs[pairs["one"] == LISTED]
    yield check(
        "O-082",
        ratios_at_most(floor),
        "no attacker errs less than the one whose list holds the record, at any noise",
        ours=f"its error is at most {floor['ratio'].max():.3f} of another's",
        tolerance=f"{MARGIN:.0%}, 4 standard errors included",
        stand_in=tables.stand_in,
    )


def _on_the_ladder(one: str, other: str) -> bool:
    return (other, one) in zip(LADDER[:-1], LADDER[1:], strict=True)


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
        f"it who know nothing (the unbiased row mean), the noise (shrunken), the mean and "
        f"covariance of {p.others:,} other images, those images themselves, or a list that has "
        "the image too. Below: mean squared errors over the targets, the mean image's and "
        "the nearest other image's as lines, and how often the list names the record from the "
        "release alone, for which paper C's bound is the most, and with its scale (bars: two "
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
        row[0].text(
            1,
            0.5,
            attacker.replace(" without", "\nwithout")
            .replace(" with it", "\nwith it")
            .replace(" and", "\nand"),
            ha="right",
            va="center",
            transform=row[0].transAxes,
        )
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
        left.annotate(
            guess,
            (1, mse),
            (-2, 2),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            fontsize=8,
            color=GREY,
        )
    left.set(xscale="log", yscale="log", ylim=(1e-3, 1), ylabel="mean squared error")
    legend_below(left, 3)
    right.plot(named["sigma"], named["bound"], color=BOUND, label="bound (paper C)")
    for name, style in ((ALONE, "-"), (SCALED, "--")):
        bars = 2 * named[f"error, {name}"]
        right.errorbar(
            named["sigma"],
            named[name],
            bars,
            color=RED,
            ls=style,
            marker="v",
            ms=4,
            label=f"list, {name}",
        )
    right.set(xscale="log", yscale="log", ylabel="share of records named")
    legend_below(right, 2, handlelength=2.8)  # long enough to see the dashes
    for axis in (left, right):
        axis.set_xlabel(r"noise multiplier $\sigma$")
