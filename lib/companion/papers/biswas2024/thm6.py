"""Theorem 6: Bayes' capacity of von Mises-Fisher noise, by integration and by sampling."""

import itertools
import math
from collections.abc import Iterator

import pandas as pd
from scipy import special as sc

from companion.exhibit import *
from companion.experiments import capacity_routes as routes
from companion.experiments.federated import DIMENSION
from reconrisk import bounds, privacy

_THEOREM = "none (a theorem)"
_SAMPLED, _AT = (2, 10, 100, 13_700), (1.0, 4.0, 12.0, 75.0)

PARAMETERS = {
    "dimensions": Parameter(
        "ints", (2, 3, 10, 100, 13_700), (2, 3, 10, 100, 1000, 13_700), "13,700", "p", 2
    ),
    "concentrations": Parameter(
        "floats", (1.0, 75.0, 500.0), (1.0, 25.0, 75.0, 200.0, 500.0), "25 to 500", "kappa", 0
    ),
    "sampled_dimensions": Parameter(
        "ints", _SAMPLED, _SAMPLED, _THEOREM, "p of the sampled capacities", 2
    ),
    "sampled_concentrations": Parameter(
        "floats", _AT, _AT, _THEOREM, "kappa of each; kappa^2 / p must be of the order of one", 0
    ),
    "samples": Parameter("int", 40_000, 200_000, _THEOREM, "samples of every route", 1000),
}
SETTLES = ("D-015",)
SHOWN = ("integrals",)
ALTERED = {
    "integrals": {"Theorem 6": "closed forms"},
    "sampled": {"sampled": "sampled log capacities [nats]"},
    "peak and area": {"log area": "the sphere's log area [nats]"},
    "limits": {"off": at("concentration != 'zero'", "distances from the limits")},
}
SCENARIOS = (
    scenario(
        "a capacity of concentration zero {} above one in its logarithm",
        column("limits", "log capacity", lambda c, by: c + by, "concentration == 'zero'"),
        "",
        "D-015",
        unit=" nats",
    ),
)

#: relative slack for log capacities by two routes
_QUADRATURE = 1e-9
#: how near sampled log capacities must come, in nats: a twentieth of the capacity
_NEAR = 0.05


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    integrals = [
        (dimension, kappa, _capacity(dimension, kappa), routes.vmf_by_angle(dimension, kappa))
        for dimension, kappa in itertools.product(p.dimensions, p.concentrations)
    ]
    columns = ["p", "concentration", "Theorem 6", "by angle"]
    return Tables(
        {
            "integrals": pd.DataFrame(integrals, columns=columns),
            "sampled": _sampled(study),
            "limits": _limits(p.dimensions),
            "peak and area": _peak_and_area(),
        },
        exact=("integrals",),
        ran=f"{p.samples:,} directions from the library's sampler, and where the weights allow it "
        "as many uniform ones.",
    )


def _capacity(dimension: int, kappa: float) -> float:
    return float(bounds.bayes_capacity_vmf(dimension, kappa))


def _sampled(study: Context) -> pd.DataFrame:
    """Two sampled routes where their weights vary little."""
    p = study.parameters
    rows = []
    for dimension, kappa in zip(p.sampled_dimensions, p.sampled_concentrations, strict=True):
        closed = _capacity(dimension, kappa)
        ways = {"library's sampler": routes.vmf_by_sampling}
        if dimension <= 1000:  # this one draws a vector for every cosine
            ways["uniform directions"] = routes.vmf_by_uniform_sampling
        for name, route in ways.items():
            value, error = route(study.rng(name, dimension, kappa), dimension, kappa, p.samples)
            rows.append((dimension, kappa, name, value, error, closed))
    columns = ["p", "concentration", "drawn by", "sampled", "standard error", "Theorem 6"]
    return pd.DataFrame(rows, columns=columns)


def _limits(dimensions: tuple[int, ...]) -> pd.DataFrame:
    """Leading terms for small and for large concentrations, and concentration zero."""
    rows = []
    for p in (2, 3, 7, 100):
        small, large = 1e-4, 1e7 * p
        nu = 0.5 * p - 1.0
        power = (nu + 0.5) * math.log(large) + 0.5 * math.log(2.0 * math.pi)
        power -= nu * math.log(2.0) + float(sc.gammaln(0.5 * p))
        for name, kappa, leading in (("small", small, small), ("large", large, power)):
            found = _capacity(p, kappa)
            rows.append((name, p, found, leading, abs(found / leading - 1.0)))
    for p in dimensions:
        found = _capacity(p, 0.0)
        rows.append(("zero", p, found, 0.0, abs(found)))
    return pd.DataFrame(rows, columns=["concentration", "p", "log capacity", "leading term", "off"])


def _peak_and_area() -> pd.DataFrame:
    kappa = 75.0
    row = {
        "p": DIMENSION,
        "kappa": kappa,
        "log density at the mode": float(privacy.vmf_log_density(1.0, DIMENSION, kappa)),
        "log area": -float(privacy.vmf_log_density(0.0, DIMENSION, 0.0)),
        "log capacity": _capacity(DIMENSION, kappa),
    }
    return pd.DataFrame([row])


def judge(tables: Tables) -> Iterator[Verdict]:
    table, sampled, limits = tables["integrals"], tables["sampled"], tables["limits"]
    off = (table["by angle"] - table["Theorem 6"]).abs() / (1 + table["Theorem 6"])
    near = within(sampled["sampled"], sampled["Theorem 6"], sampled["standard error"], _NEAR)
    at_zero = limits["concentration"] == "zero"
    mode = tables["peak and area"].iloc[0]
    product = mode["log density at the mode"] + mode["log area"]
    exact = bool(
        (off < _QUADRATURE).all()
        and (limits["off"] < 1e-3).all()
        and (limits.loc[at_zero, "log capacity"] == 0).all()
        and abs(product - mode["log capacity"]) < 1e-6
    )
    yield from shared_by(
        check(
            "biswas2024/thm6",
            exact and near,
            "the closed form is the integral of the largest density over the sphere, its area "
            "times the density at the mode; it is one at concentration zero and grows like a power "
            "of large concentrations",
            ours=f"{len(table)} settings integrated, up to p = {table['p'].max():,}; "
            f"{len(sampled)} sampled; area times mode at p = {mode['p']:,.0f}, kappa = "
            f"{mode['kappa']:g}: e^{product:.4f}",
            tolerance=f"{_QUADRATURE:g}; sampled: {_NEAR:g} nats, {STANDARD_ERRORS:g} "
            "standard errors included; product: 1e-6 nats",
        ),
        "D-015",
    )
