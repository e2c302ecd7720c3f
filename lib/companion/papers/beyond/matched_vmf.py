"""The concentration of VMF noise that matches a noise multiplier, notion by notion."""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy import optimize

from companion.exhibit import *
from companion.experiments.fair_pairs import middle
from reconrisk import DPSGD, bounds, privacy

_OURS = "not printed: our own"
_SIZES, _SIGMAS = (64, 760, 13_700), (0.5, 1.0, 2.0)
PARAMETERS = {
    "dimensions": Parameter("ints", _SIZES, _SIZES, _OURS, "p, smallest first", low=8),
    "noise_multipliers": Parameter("floats", _SIGMAS, _SIGMAS, _OURS, "sigma", 0.05),
    "delta": Parameter("float", 1e-5, 1e-5, _OURS, "delta", low=1e-100),
    "prior_success": Parameter("float", 0.1, 0.1, _OURS, "prior success", low=1e-12),
    "room": Parameter("float", 0.01, 0.01, _OURS, "relative distance from limits", low=0),
}
SETTLES = ("O-057",)
SHOWN = ("multiples",)
ALTERED = {"all": {"multiple": at("p == p.max()", "multiples in the largest dimension")}}

#: what each notion compares the record's direction with
_AGAINST = {
    "epsilon": "its opposite",
    "ReRo, any run": "its opposite",
    "ReRo, one release": "no direction",
    "Bayes' capacity": "all others",
    "naming one of ten": "orthogonal ones",
    "mean cosine": "itself",
    "least error": "itself",
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    table = pd.DataFrame(
        {"p": dimension, "sigma": sigma, "notion": notion, "multiple": multiple}
        for dimension, sigma in itertools.product(p.dimensions, p.noise_multipliers)
        for notion, multiple in matched_multiples(
            dimension, sigma, p.delta, p.prior_success
        ).items()
    )
    table["against"] = table["notion"].map(_AGAINST)
    table["limit"] = np.where(table["against"] == "its opposite", 0.5, 1.0)
    shown = table[table["p"] == max(p.dimensions)].pivot_table(
        index=["notion", "against", "limit"], columns="sigma", values="multiple", sort=False
    )
    shown.columns = [f"sigma = {s:g}" for s in shown.columns]
    return Tables(
        {"multiples": shown.reset_index(), "all": table},
        ran=f"roots at p = {', '.join(f'{d:,}' for d in p.dimensions)}; delta = {p.delta:g}, prior "
        f"success {p.prior_success:g}.",
    )


def matched_multiples(dimension: int, sigma: float, delta: float, kappa: float) -> dict[str, float]:
    """The concentration that matches ``sigma`` by each notion, in units of sqrt(p)/sigma.

    For one release of a unit vector, which is the whole batch; ``kappa`` is the prior success of
    the two ReRo notions.
    """
    unit = math.sqrt(dimension) / sigma
    allowed = float(bounds.rero_gaussian(sigma, kappa))
    pairs: dict[str, tuple[Callable[[float], float], float]] = {
        "epsilon": (
            lambda k: middle(privacy.vmf_epsilon(k, dimension, delta)),
            middle(privacy.epsilon(DPSGD(sigma), delta)),
        ),
        "ReRo, any run": (lambda k: middle(bounds.rero_vmf(k, dimension, kappa)), allowed),
        "ReRo, one release": (
            lambda k: float(bounds.rero_vmf_one_release(k, dimension, kappa)),
            allowed,
        ),
        "Bayes' capacity": (
            lambda k: float(bounds.bayes_capacity_vmf(dimension, k)),
            float(bounds.bayes_capacity_gaussian(dimension, sigma, 1.0)),
        ),
        "naming one of ten": (
            lambda k: float(bounds.bayes_success_vmf(k, dimension, 10)),
            float(bounds.bayes_success(1 / sigma, 10)),
        ),
        "mean cosine": (
            lambda k: float(privacy.vmf_mean_cosine(dimension, k)),
            float(bounds.direction_cosine_gaussian(dimension, sigma)),
        ),
        "least error": (
            lambda k: float(bounds.direction_error_vmf(dimension, k)),
            float(bounds.direction_error_gaussian(dimension, sigma)),
        ),
    }

    def multiple(value: Callable[[float], float], wanted: float) -> float:
        def gap(log_multiple: float) -> float:
            return value(unit * math.exp(log_multiple)) - wanted

        return math.exp(optimize.brentq(gap, math.log(0.25), math.log(2.0), xtol=1e-9))

    return {notion: multiple(*pair) for notion, pair in pairs.items()}


def judge(tables: Tables) -> Iterator[Verdict]:
    p, table = tables.parameters, tables["all"]
    off = (table["multiple"] / table["limit"] - 1).abs().groupby(table["p"]).max()
    by_setting = table.groupby(["p", "sigma"])["multiple"]
    ratio = by_setting.max() / by_setting.min()
    nearer = (table["multiple"] < math.sqrt(0.5)) == (table["limit"] == 0.5)
    verdict = check(
        "O-057",
        (ratio > 1.8).all()
        and nearer[table["p"] > table["p"].min()].all()
        and (np.diff(off) < 0).all()
        and off.iloc[-1] < p.room,
        ours=f"{table['notion'].nunique()} notions at {len(ratio)} settings; largest over smallest "
        f"{ratio.iloc[-1]:.2f} at p = {table['p'].max():,}; relative deviation at most "
        + ", ".join(f"{value:.1g} (p = {size:,})" for size, value in off.items()),
        tolerance=f"{p.room:g} in the largest dimension",
    )
    yield from shared_by(verdict, "beyond/matched_vmf")
