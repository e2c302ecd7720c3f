"""How wrong a Poisson answer is for batches that are drawn otherwise, and which way."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from scipy import special as sc

from companion.exhibit import *
from companion.exhibit import BLACK
from companion.papers.beyond.defaults import documented
from companion.papers.beyond.power import portions, power_at_level
from companion.papers.beyond.rounding import outwards, significant
from reconrisk import bounds, privacy
from reconrisk.privacy import SampledRun

_OURS = "our own exhibit"
PARAMETERS = {
    "least_noise": Parameter("float", 0.3, 0.3, _OURS, "of the settings", low=0.05),
    "noise_multiplier": Parameter("float", 0.7, 0.7, _OURS, "of the attacked runs", low=0.1),
    "batches": Parameter("int", 20, 20, _OURS, "of an epoch of the attacked runs", low=2),
    "epochs": Parameter("int", 3, 3, _OURS, "of the attacked runs", low=1),
    "trials": Parameter("int", 120_000, 1_000_000, _OURS, "runs with the record; without", low=100),
}
SETTLES = ("O-090", "O-091", "O-092", "O-093", "O-094", "O-095")
POISSON, ALLOCATED, SHUFFLED, FIXED, CYCLIC = SAMPLERS = (
    "poisson", "random-allocation", "shuffle", "fixed", "cyclic",
)  # fmt: skip
#: candidates of the attacker with a list: their share is the prior success
CANDIDATES = 10
#: how near attacks come to the lower ends of success
CHANCE = 0.02
#: factors by which epsilon exceeds Poisson's, that of batches of fixed size too, and what documents
#: state of shuffled runs
TWICE, STATED = 2.0, 1.5
#: relative widths of epsilon's enclosures
NARROW, FAIR = 0.01, 0.1
#: noise multiplier below which a fixed size is worse than any shuffling
LITTLE = 0.6
_TOLERANCE = 2e-3


ALTERED = {
    "attack": {"success": "successes of the attack"},
    "settings": {
        "epsilon, from": (
            at(f"sampler == '{SHUFFLED}'", "epsilons of shuffling, from below"),
            at(f"sampler == '{FIXED}'", "epsilons of fixed sizes, from below"),
        ),
        "epsilon, to": at(f"sampler == '{ALLOCATED}'", "epsilons of random allocation, from above"),
    },
}


def tutorials(least_noise: float) -> list[dict[str, Any]]:
    """Settings of tutorials and examples whose noise, sampling rate and steps are documented."""
    return [
        {
            "setting": f"{row['source_name']}: {row['what']}",
            "draws": row["sampling"],
            "documented": float(row["reported_epsilon"] or "nan"),
            "sigma": significant(run.noise_multiplier, 4),
            "q": run.sampling_rate,
            "T": run.steps,
            "delta": float(row["delta"]),
        }
        for row, run in documented()
        if run is not None and row["kind"] != "paper" and run.noise_multiplier >= least_noise
    ]


@measurement
def measure(study: Context) -> Tables:
    p, rows = study.parameters, []
    for setting in tutorials(p.least_noise):
        for sampler in (POISSON, ALLOCATED, SHUFFLED, FIXED):
            run = SampledRun(setting["sigma"], setting["q"], setting["T"], sampler)
            epsilon = privacy.epsilon(run, setting["delta"], tolerance=_TOLERANCE)
            success = bounds.rero(run, 1 / CANDIDATES, tolerance=_TOLERANCE)
            rows.append((*setting.values(), sampler, *outwards(epsilon), *outwards(success)))
    settings = pd.DataFrame(
        rows,
        columns=["setting", "draws", "documented epsilon", "sigma", "q", "T", "delta", "sampler"]
        + ["epsilon, from", "epsilon, to", "success, from", "success, to"],
    )
    attack = pd.DataFrame(
        [_attacked(study, sampler) for sampler in SAMPLERS],
        columns=["sampler", "success", "standard error", "from", "to"],
    )
    return Tables(
        {"settings": settings, "attack": attack},
        ran=f"{settings['setting'].nunique()} documented settings, certified; {p.trials:,} runs "
        f"with the record and as many without, of {p.epochs} epochs of {p.batches} batches at "
        f"sigma = {p.noise_multiplier:g}, attacked.",
    )


def _attacked(study: Context, sampler: str) -> tuple[str, float, float, float, float]:
    """Success of the likelihood ratio's threshold at a false positive rate of one in ten.

    Data are the worst: gradients in one direction, so that a step is one number; other records' are
    known, and have none, but oppose the record's under fixed sizes and under shuffling.
    """
    p, generator = study.parameters, study.rng(sampler)
    run = SampledRun(p.noise_multiplier, 1 / p.batches, p.batches * p.epochs, sampler)
    known = bounds.rero(run, 1 / CANDIDATES)
    scores = {}
    for there in (True, False):
        scores[there] = np.concatenate(
            [_scores(run, there, n, generator) for n in portions(p.trials, 20_000)]
        )
    power, error = power_at_level(scores[True], scores[False], 1 / CANDIDATES)
    return sampler, power, error, known.lower, known.upper


def _scores(run: SampledRun, there: bool, count: int, generator: np.random.Generator) -> np.ndarray:
    """Log-likelihood ratios of simulated runs, with the record or with a gradient of zero."""
    b, epochs, a = run.batches, run.epochs, 1.0 / run.noise_multiplier
    noise = generator.standard_normal((count, epochs, b))
    # whether the record is in the batch of each step
    if run.sampler in (POISSON, FIXED):
        taken = generator.random(noise.shape) < 1 / b
    else:
        most = 1 if run.sampler == CYCLIC else b
        place = generator.integers(most, size=(count, epochs))
        taken = np.arange(b) == place[..., None]
    opposed = run.sampler in (FIXED, SHUFFLED)
    shift = a * (float(opposed) + float(there))
    z = noise + shift * taken
    if run.sampler == CYCLIC:
        return (a * z[..., 0] - a * a / 2).sum(axis=1)
    if run.sampler == ALLOCATED:
        return (sc.logsumexp(a * z - a * a / 2, axis=2) - math.log(b)).sum(axis=1)
    if run.sampler == SHUFFLED:
        return _of_largest(z.max(axis=2), b, a).sum(axis=1)
    likely, other = (_mixed(z, a * s, 1 / b) for s in ((2, 1) if opposed else (1, 0)))
    return (likely - other).sum(axis=(1, 2))


def _mixed(z: np.ndarray, shift: float, rate: float) -> np.ndarray:
    """Log of the density of ``(1 - q) N(0, 1) + q N(shift, 1)`` over that of the first."""
    return np.logaddexp(math.log1p(-rate), math.log(rate) + shift * (z - shift / 2))


def _of_largest(z: np.ndarray, batches: int, a: float) -> np.ndarray:
    """Log-likelihood ratio of an epoch's largest output: shifted by two norms against one."""

    def log_density(shift: float) -> np.ndarray:
        own = -0.5 * (z - shift) ** 2 + sc.log_ndtr(z)
        others = math.log(batches - 1) - 0.5 * z**2 + sc.log_ndtr(z - shift)
        return np.logaddexp(own, others)

    return log_density(2 * a) - log_density(a)


def judge(tables: Tables) -> Iterator[Verdict]:
    attack = tables["attack"]
    reached = within(attack["success"] - attack["from"], 0, attack["standard error"], CHANCE)
    kept = bool(
        (attack["success"] - STANDARD_ERRORS * attack["standard error"] <= attack["to"]).all()
    )
    attacked = check(
        "O-090",
        every(reached, kept),
        ours=f"off by {(attack['success'] - attack['from']).abs().max():.3f} at most",
        tolerance=f"{CHANCE:g}, errors included",
    )
    yield from shared_by(attacked, "beyond/samplers")
    table = tables["settings"].set_index(["setting", "sampler"])
    low, high = (table[f"epsilon, {end}"].unstack("sampler") for end in ("from", "to"))
    of_setting = tables["settings"].groupby("setting").first().loc[low.index]
    more = low[SHUFFLED] / high[POISSON]
    yield check(
        "O-091",
        bool((more > TWICE).all()),
        ours=f"{more.min():.2f} to {more.max():.2f} times, {len(more)} settings",
    )
    stated = of_setting[of_setting["draws"] == "shuffled"].dropna(subset="documented epsilon")
    factor = low.loc[stated.index, SHUFFLED] / stated["documented epsilon"]
    yield check(
        "O-092",
        bool(len(factor) and (factor > STATED).all()),
        ours=f"{factor.min():.2f} to {factor.max():.2f} times, {len(factor)} settings",
    )
    batches = 1 / of_setting["q"]
    whole = of_setting.index[np.abs(batches - np.rint(batches)) < 1e-9]
    below = bool((high.loc[whole, ALLOCATED] < low.loc[whole, POISSON]).all())
    success = {
        end: table[f"success, {end}"].unstack("sampler").loc[whole] for end in ("from", "to")
    }
    named = success["from"][ALLOCATED] > success["to"][POISSON]
    yield check(
        "O-093",
        len(whole) > 3 and below and bool(named.any()) and not named.all(),
        ours=f"{len(whole)} settings; success is larger in {int(named.sum())}, by "
        f"{(success['from'][ALLOCATED] - success['to'][POISSON]).max():.4f} at most",
    )
    twice = low[FIXED] / high[POISSON]
    little = of_setting.index[of_setting["sigma"] < LITTLE]
    worse = low.loc[little, FIXED] > high.loc[little, SHUFFLED]
    yield check(
        "O-094",
        bool((twice > TWICE).all() and len(little) > 1 and worse.all()),
        ours=f"{twice.min():.2f} to {twice.max():.2f} times; {len(little)} settings of little "
        "noise",
    )
    width = (high - low) / low
    yield check(
        "O-095",
        bool((width[[POISSON, ALLOCATED]] < NARROW).all(axis=None) and (width[FIXED] < FAIR).all()),
        ours=f"widths up to {width[[POISSON, ALLOCATED]].max(axis=None):.2%} and "
        f"{width[FIXED].max():.1%}; shuffled, the upper end is up to "
        f"{(high[SHUFFLED] / low[SHUFFLED]).max():.1f} times the lower",
    )


CAPTION = (
    "Documented settings, with batches drawn by Poisson sampling, as most accountants assume, and "
    "otherwise: epsilon (left) and the success of the best attacker with ten candidates (right), "
    "certified. Bars reach from what an attacker can reach on some data to what none can exceed; "
    "those of shuffling end where a known, cyclic order stands. Settings with a star document "
    "shuffled batches."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["settings"]
    order = table.query("sampler == @POISSON").sort_values("epsilon, to", kind="stable")["setting"]
    heights = pd.Series(np.arange(len(order)), index=order)
    figure, axes = plt.subplots(
        1, 2, figsize=(8.4, 0.36 * len(order) + 1.3), sharey=True, layout="constrained"
    )
    look = {
        SHUFFLED: (ORANGE, -0.2),
        FIXED: (GREEN, 0.2),
        POISSON: (BLACK, 0),
        ALLOCATED: (BLUE, 0),
    }
    for axis, name in zip(axes, ("epsilon", "success"), strict=True):
        for sampler, (colour, lift) in look.items():
            rows = table[table["sampler"] == sampler]
            y = heights.loc[rows["setting"]].to_numpy() + lift
            low, high = rows[f"{name}, from"], rows[f"{name}, to"]
            if sampler in (SHUFFLED, FIXED):
                axis.hlines(y, low, high, color=colour, lw=4, alpha=0.75)
                axis.plot(low, y, "|", color=colour, ms=8, mew=2)
            else:
                axis.plot(high, y, "os"[sampler == POISSON], color=colour, ms=4.5, zorder=3)
        axis.set(ylim=(-0.7, len(order) - 0.3))
        axis.grid(axis="y", visible=False)
    axes[0].set(xscale="log", xlabel=r"$\varepsilon$")
    axes[1].axvline(1 / CANDIDATES, color=GREY, ls=":", lw=1)
    axes[1].set(xlabel="success with ten candidates", xlim=(0, 1.03))
    shuffled = table.groupby("setting")["draws"].first().eq("shuffled")
    names = [f"{name}{' *' if shuffled[name] else ''}" for name in order]
    axes[0].set_yticks(heights.to_numpy(), names)
    entries = [
        legend_line("Poisson", BLACK, "", "s"),
        legend_line("random allocation", BLUE, "", "o"),
        legend_line("shuffled", ORANGE, "-"),
        legend_line("fixed size", GREEN, "-"),
    ]
    figure.legend(handles=entries, loc="outside upper center", ncols=4, fontsize=8)
    return figure
