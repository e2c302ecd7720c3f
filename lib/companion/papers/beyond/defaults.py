"""Defaults, audited: what documented settings of differential privacy leave to an attacker."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.beyond.rounding import outwards
from reconrisk import DPSGD, Enclosure, bounds, privacy

_OURS = "our own exhibit"
_PRIORS = (0.1, 1e-6)

PARAMETERS = {
    "priors": Parameter("floats", _PRIORS, _PRIORS, _OURS, "prior success", 1e-12),
}
SETTLES = ("O-066", "O-067", "O-068")
SHOWN = ("settings",)

#: epsilons that documents print are rounded to half a hundredth
PRINTED = 0.005
#: success from which on a setting is said to protect nothing, at the smallest prior
NOTHING = 0.999
#: certified epsilons up to which nobody names one of a million more often than this
MODERATE, RARELY = 8.0, 1e-3
#: settings documented with this epsilon, and the factor by which their risks differ at least
SAME, FACTOR = 8.0, 1.3

ALTERED = {
    "settings": {
        "documented epsilon": at(
            f"calibrated == False and `documented epsilon` != {SAME}", "documented epsilons"
        ),
        "one of ten, to": at(
            f"`documented epsilon` == {SAME}", f"successes with ten at epsilon = {SAME:g}"
        ),
        "one of a million, from": at("sigma <= 0.1", "successes at the least noises, from below"),
        "one of a million, to": "successes with a million, from above",
    },
}


def documented() -> Iterator[tuple[pd.Series, DPSGD | None]]:
    """Yield the rows of ``defaults.csv``, as text, and the run where one is documented."""
    path = registry.project_root() / "data" / "companion" / "defaults.csv"
    for _, row in pd.read_csv(path, dtype=str, keep_default_na=False).iterrows():
        run = None
        if row["steps"]:
            rate, steps = float(Fraction(row["sampling_rate"])), int(row["steps"])
            sigma = float(row["noise_multiplier"] or "nan")
            if row["target_epsilon"]:
                target, delta = float(row["target_epsilon"]), float(row["delta"])
                sigma = privacy.noise_for_epsilon(target, delta, sampling_rate=rate, steps=steps)
            run = DPSGD(sigma, rate, steps)
        yield row, run


def _success(row: pd.Series, run: DPSGD | None, prior: float) -> Enclosure:
    """Return what any attacker can reach: from the run if it is known, else from its guarantee."""
    if run is not None:
        return bounds.rero(run, prior)
    if row["reported_zcdp"]:  # rho-zCDP bounds every Renyi divergence as noise 1/sqrt(2 rho) does
        sigma = 1 / math.sqrt(2 * float(row["reported_zcdp"]))
        return Enclosure(prior, float(bounds.rero_rdp(sigma, prior)))
    epsilon, delta = float(row["reported_epsilon"]), float(row["delta"])
    return Enclosure(prior, min(1.0, math.exp(epsilon) * prior + delta))


@measurement
def measure(study: Context) -> Tables:
    ten, million = study.parameters.priors
    rows = []
    for row, run in documented():
        epsilon = (math.nan, math.nan)
        if run is not None:
            epsilon = outwards(privacy.epsilon(run, float(row["delta"])))
        tenth = outwards(_success(row, run, ten))
        millionth = outwards(_success(row, run, million))
        rows.append(
            {
                "setting": f"{row['source_name']}: {row['what']}",
                "kind": row["kind"],
                "unit": row["unit"],
                "sigma": float(f"{run.noise_multiplier:.4g}") if run else math.nan,
                "q": float(f"{run.sampling_rate:.4g}") if run else math.nan,
                "T": float(run.steps) if run else math.nan,
                "delta": float(row["delta"] or "nan"),
                "documented epsilon": float(row["reported_epsilon"] or "nan"),
                "calibrated": bool(row["target_epsilon"]),
                "epsilon, from": epsilon[0],
                "epsilon, to": epsilon[1],
                "one of ten, from": tenth[0],
                "one of ten, to": tenth[1],
                "one of a million, from": millionth[0],
                "one of a million, to": millionth[1],
            }
        )
    settings = pd.DataFrame(rows)
    return Tables(
        {"settings": settings},
        exact=("settings",),
        ran=f"{len(settings)} documented settings, certified as Poisson-sampled DP-SGD, or from "
        "their guarantee where no noise is documented; deterministic.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    settings = tables["settings"]
    stated = settings[
        settings["documented epsilon"].notna() & settings["epsilon, to"].notna()
    ].query("calibrated == False")
    ratio = stated["documented epsilon"] / stated["epsilon, to"]
    yield check(
        "beyond/defaults",
        (stated["epsilon, to"] <= stated["documented epsilon"] + PRINTED).all(),
        "no documented epsilon is too small, if records are drawn independently: each is at least "
        "the certified one",
        ours=f"{len(stated)} epsilons, {ratio.min():.2f} to {ratio.max():.2f} times the certified",
        tolerance=f"{PRINTED:g}, half a unit of what is printed",
    )
    certain = settings[settings["one of a million, from"] >= NOTHING]
    yield check(
        "O-066",
        len(certain) == 2 and certain["sigma"].max() <= 0.1,
        ours="; ".join(
            f"{setting}: sigma = {sigma:g}, at least {success:.4g}"
            for setting, sigma, success in certain[
                ["setting", "sigma", "one of a million, from"]
            ].itertuples(index=False)
        ),
        tolerance=f"success of at least {NOTHING:g}",
    )
    eight = settings[settings["documented epsilon"] == SAME]
    excess = eight["one of ten, to"] - tables.parameters.priors[0]
    yield check(
        "O-067",
        len(eight) > 2 and excess.max() > FACTOR * excess.min(),
        ours=f"{len(eight)} settings: {eight['one of ten, to'].min():.3f} to "
        f"{eight['one of ten, to'].max():.3f}",
    )
    moderate = settings[settings["epsilon, to"] <= MODERATE]
    most = moderate["one of a million, to"].max()
    yield check(
        "O-068",
        len(moderate) > 9 and most < RARELY,
        ours=f"{len(moderate)} settings, at most {most:.2g}",
    )


CAPTION = (
    "Documented settings of differential privacy and what they leave to the best attacker: the "
    "probability of naming the right record among ten (left) and among a million (right). Bars "
    "reach from what an attacker can reach, in the worst case, to what none can exceed; where no "
    "noise is documented they start at guessing. In brackets the certified epsilon."
)


_KINDS = {
    "example": ("s", ORANGE, "example's default"),
    "tutorial": ("o", BLUE, "tutorial"),
    "paper": ("v", GREEN, "paper"),
    "reported": ("^", PURPLE, "released model"),
}


@drawing
def draw(tables: Tables) -> Figure:
    settings = tables["settings"].sort_values("one of ten, to", ascending=False, kind="stable")
    figure, (row,) = panels(1, 2, 5.0, 0.26 * len(settings) + 1.2)
    heights = np.arange(len(settings))
    for axis, name, prior in zip(row, ("ten", "a million"), tables.parameters.priors, strict=True):
        low, high = (settings[f"one of {name}, {end}"].to_numpy() for end in ("from", "to"))
        axis.axvline(prior, color=GREY, lw=1, label="guessing")
        for kind, (marker, colour, label) in _KINDS.items():
            own = (settings["kind"] == kind).to_numpy()
            axis.hlines(heights[own], low[own], high[own], color=colour, lw=2, alpha=0.5)
            axis.plot(high[own], heights[own], marker, ms=5, color=colour, label=label)
        axis.set(xlabel=f"success among {name}", ylim=(-0.7, len(settings) - 0.3))
    row[0].set_xlim(0, 1.03)
    row[1].set(xscale="log", xlim=(5e-7, 2))
    names = [
        f"{setting} ({_epsilon(low, high)})"
        for setting, low, high in zip(
            settings["setting"], settings["epsilon, from"], settings["epsilon, to"], strict=True
        )
    ]
    row[0].set_yticks(heights, names)
    row[1].set_yticks(heights, [])
    legend_above(figure, row[0].get_legend_handles_labels()[0], 5)
    return figure


def _epsilon(low: float, high: float) -> str:
    if math.isnan(high):
        return "guarantee only"
    return f"{high:.2g}" if high < 100 else f"over {low:,.0f}"
