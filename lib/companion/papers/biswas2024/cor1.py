"""Corollary 1: fewer inputs, smaller capacity, of random channels and of noise on domains."""

import math
from collections.abc import Iterator

import pandas as pd
from scipy import stats

from companion.exhibit import *
from companion.papers.biswas2024.random_channels import CHANNELS, NOISE, ROUNDING, falls
from reconrisk import bounds

PARAMETERS = {"channels": CHANNELS, "noise_std": NOISE}
SHOWN = ("nested domains",)
ALTERED = {
    "fewer inputs": {"fall": "capacities lost with an input [nats]"},
    "nested domains": {"p = 100": by("domain", "log capacities at p = 100", each="of the {}")},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    return Tables(
        {
            "fewer inputs": pd.DataFrame({"fall": falls(study.rng("channels"), p.channels)}),
            "nested domains": _nested_domains(p.noise_std),
        },
        exact=("nested domains",),
        ran=f"{p.channels} random channels; closed forms at noise {p.noise_std:g}.",
    )


def _nested_domains(noise_std: float) -> pd.DataFrame:
    """Log capacities on domains, each within the next."""
    names = [
        "two points, 2 apart",
        "unit ball",
        "product of two unit balls",
        "ball of radius sqrt(2)",
    ]
    table = pd.DataFrame({"domain": names})
    for dimension in (2, 4, 10, 100):
        table[f"p = {dimension}"] = [
            math.log(2.0 * stats.norm.cdf(1.0 / noise_std)),
            float(bounds.bayes_capacity_gaussian(dimension, noise_std, 1.0)),
            2.0 * float(bounds.bayes_capacity_gaussian(dimension // 2, noise_std, 1.0)),
            float(bounds.bayes_capacity_gaussian(dimension, noise_std, math.sqrt(2.0))),
        ]
    return table


def judge(tables: Tables) -> Iterator[Verdict]:
    fall, domains = tables["fewer inputs"]["fall"], tables["nested domains"]
    growth = domains.drop(columns="domain").diff().dropna()
    yield check(
        "biswas2024/cor1",
        fall.min() > -ROUNDING and (growth > 0).all(axis=None),
        "fewer inputs never raise the capacity, of channels and of Gaussian noise on nested "
        "domains",
        ours=f"{len(fall)} random channels; {growth.shape[1]} dimensions of {len(domains)} nested "
        f"domains, each larger by at least {growth.min(axis=None):.2g} nats",
        tolerance=f"{ROUNDING:g}",
    )
