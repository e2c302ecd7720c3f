"""Lemmas D.2, D.5 and D.6: the lower bound of one record."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.exhibit import *
from companion.papers.liu2024 import gradient_floors as floors
from reconrisk.two_layer import TwoLayer, release_output_gradient

EXHIBITS = ("lemD2", "lemD5", "lemD6")

PARAMETERS_LEMD2 = {
    "matrices": Parameter("int", 500, 5000, floors.NOT_PRINTED, "random matrices", low=10)
}
_NAME = "tr(M^-1) tr(M)/d^2"
ALTERED_LEMD2 = {
    "products": {_NAME: "products", "off the identity": "losses off the identity"},
    "multiples of the identity": {_NAME: "products of multiples of the identity"},
}


@floors.one_thread
def measure_lemd2(study: Context) -> Tables:
    """Lemma D.2: tr(M^-1) is at least d^2/tr(M); the case of equality, and the loss otherwise."""
    count, rng = study.parameters.matrices, study.rng("matrices")
    products, gaps = zip(*(_product(_gram_matrix(rng)) for _ in range(count)), strict=True)
    multiples = [
        {"d": d, "c": c, "tr(M^-1) tr(M)/d^2": _product(c * np.eye(d))[0]}
        for d in range(1, 13)
        for c in (1e-3, 1.0, 40.0)
    ]
    return Tables(
        {
            "products": pd.DataFrame({"tr(M^-1) tr(M)/d^2": products, "off the identity": gaps}),
            "multiples of the identity": pd.DataFrame(multiples),
        },
        ran=f"{count} Gram matrices of up to 12 dimensions.",
    )


def _gram_matrix(rng: np.random.Generator) -> np.ndarray:
    d = int(rng.integers(1, 13))
    factor = rng.standard_normal((d, d + int(rng.integers(0, 5))))
    return factor @ factor.T + 1e-3 * np.eye(d)


def _product(matrix: np.ndarray) -> tuple[float, float]:
    """``tr(M^-1) tr(M)/d^2``, and its distance from the identity over pairs of eigenvalues."""
    d = len(matrix)
    values = np.linalg.eigvalsh(matrix)
    product = float(np.trace(np.linalg.inv(matrix)) * np.trace(matrix))
    lost = (values[:, None] - values[None]) ** 2 / (values[:, None] * values[None])
    return product / d**2, abs(product - d**2 - 0.5 * float(np.sum(lost))) / product


def judge_lemd2(tables: Tables) -> Iterator[Verdict]:
    products, gaps = tables["products"][_NAME], tables["products"]["off the identity"]
    equal = tables["multiples of the identity"][_NAME]
    yield check(
        "liu2024/lemD2",
        products.min() >= 1 - floors.ROUNDING
        and products.max() > 2
        and gaps.max() < 1e-7
        and (equal - 1).abs().max() < floors.ROUNDING,
        "tr(M^-1) is at least d^2/tr(M); the inequality loses the sum over pairs of eigenvalues "
        "of (a - b)^2/(a b), so that multiples of the identity alone have equality",
        ours=f"{len(products)} random matrices, {_NAME} from {products.min():.3g} to "
        f"{products.max():.2g}",
    )


PARAMETERS_LEMD5 = {
    "dimensions": Parameter("ints", (16, 256), (16, 64, 256, 1024), floors.NOT_PRINTED, "d", low=1),
    "widths": Parameter(
        "ints", (1000, 10000), (1000, 10000, 100000, 1000000), floors.NOT_PRINTED, "m", low=100
    ),
}
SHOWN_LEMD5 = ("weights",)
ALTERED_LEMD5 = {
    "networks": {
        "m max |a| / sqrt(2 log m)": "output weights",
        "max |w| / sqrt(d)": "inner weights",
    }
}
#: the largest of m normal weights is within this factor of sqrt(2 log m); it scatters by a
#: fourteenth (one standard error) at a thousand neurons
NEAR = 1.3


@floors.one_thread
def measure_lemd5(study: Context) -> Tables:
    """Lemma D.5: the largest weights of random networks against their orders."""
    p, rows = study.parameters, []
    for d, m in product(p.dimensions, p.widths):
        outer, inner = np.max(
            [
                (np.abs(part.outer).max(), np.linalg.norm(part.inner, axis=1).max())
                for part in floors.draw_network(study, d, m, "elu").neurons()
            ],
            axis=0,
        )
        rows.append(
            {
                "d": d,
                "m": m,
                "m max |a|": m * outer,
                "m max |a| / sqrt(2 log m)": m * outer / math.sqrt(2 * math.log(m)),
                "max |w| / sqrt(d)": inner / math.sqrt(d),
            }
        )
    networks = pd.DataFrame(rows)
    return Tables(
        {"weights": floors.round_digits(networks, 3), "networks": networks},
        ran=f"{len(networks)} networks of up to {max(p.widths):,} neurons.",
    )


def judge_lemd5(tables: Tables) -> Iterator[Verdict]:
    table = tables["networks"]
    d, m = table["d"], table["m"]
    ratio, length = table["m max |a| / sqrt(2 log m)"], table["max |w| / sqrt(d)"]
    inner = length * np.sqrt(d) <= np.sqrt(d) + np.sqrt(2 * np.log(m))
    yield check(
        "liu2024/lemD5",
        inner.all() and ratio.between(1 / NEAR, NEAR).all(),
        "up to logarithms all output weights are of order 1/m and all inner weights of "
        "order sqrt(d): max |a| is near sqrt(2 log m)/m, max |w| at most sqrt(d) + "
        "sqrt(2 log m)",
        ours=f"m max |a|/sqrt(2 log m) {floors.span(ratio)}; max |w|/sqrt(d) {floors.span(length)}",
        tolerance=f"a factor of {NEAR:g}, one-sided for max |w|",
    )


_OURS = "not printed: our own"
PARAMETERS_LEMD6 = {
    **floors.around((8, 16), (1, 1), (1000, 4000)),
    **floors.SWEPT,
    "squared_bounds": Parameter(
        "floats",
        (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
        (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0),
        _OURS,
        "noise levels, as the squared bound they give, smallest first",
        low=1e-6,
    ),
    "trials": Parameter("int", 300, 2000, _OURS, "records and noises at each level", low=50),
}
SETTLES_LEMD6 = ("E-E-10",)
ESTIMATORS = ("least squares", "shrunk", "on the sphere", "zero")
ALTERED_LEMD6 = {
    "orders": {"exact": floors.of_sweeps("exact bounds")},
    "estimators": {
        "least squares": "least-squares errors",
        "shrunk": "errors of shrunk records",
        "on the sphere": "errors of records on the sphere",
    },
}
#: how near least squares come to the bound at the smallest noise, and projected ones to theirs
ATTAINED = 0.1


@floors.one_thread
def measure_lemd6(study: Context) -> Tables:
    """Lemma D.6: one record; the order of its bound, and estimators below it."""
    p = study.parameters
    return Tables(
        {"estimators": _estimators(study), "orders": floors.orders(study, batch_size=1)},
        ran=f"{p.trials} records and noises a point, {p.activation}, d = {p.dimension}, "
        f"m = {p.width:,}, label known.",
    )


def _estimators(study: Context) -> pd.DataFrame:
    """Root mean squared errors of four estimators over the noise, with standard errors."""
    p = study.parameters
    network = floors.draw_network(study, p.dimension, p.width, p.activation, draw=1)
    typical = floors.floor_of(_undefended(network, np.eye(p.dimension)[:1])).exact
    rows = []
    for size in p.squared_bounds:
        rng = study.rng("estimators", size)
        sigma = math.sqrt(size) / typical
        squares, known = [], []
        for _ in range(p.trials):
            given = _undefended(network, floors.unit_rows(rng, 1, p.dimension))
            x = given.inputs[0]
            floor = floors.floor_of(given)
            known.append((sigma * floor.exact, sigma * floor.unit))
            noisy = given.released.values + sigma * rng.standard_normal(p.width)
            found = solve_one_record(network, 1.0, noisy)
            guesses = (found, found / (1 + size), found / np.linalg.norm(found), 0 * found)
            squares.append([np.sum((guess - x) ** 2) for guess in guesses])
        printed, unit = np.sqrt(np.mean(np.square(known), axis=0))
        row = {"sigma": sigma, "printed bound": printed, "bound for unit records": unit}
        for name, values in zip(ESTIMATORS, zip(*squares, strict=True), strict=True):
            row[name] = math.sqrt(np.mean(values))
            row[_error(name)] = np.std(values, ddof=1) / math.sqrt(p.trials) / (2 * row[name])
        rows.append(row)
    return pd.DataFrame(rows)


def _undefended(network: TwoLayer, x: np.ndarray) -> floors.Problem:
    """One record of label one."""
    label = np.ones(1)
    return floors.Problem(network, x, label, None, release_output_gradient(network, x, label))


def solve_one_record(network: TwoLayer, label: float, values: np.ndarray) -> np.ndarray:
    """Least squares for one record of a known label, from the noisy gradient of the output weights.

    Starts at the direction of the gradient's first moment: ``sum_j g_j w_j`` points along ``r x``,
    and r has the sign of minus the label. The record found may have any norm.
    """
    inner, outer = floors.weights_of(network)
    s = network.function

    def misfit(point: np.ndarray) -> np.ndarray:
        value = s.value(inner @ point)
        return 2.0 * (outer @ value - label) * value - values

    def derivative(point: np.ndarray) -> np.ndarray:
        z = inner @ point
        value, slopes = s.value(z), s.slope(z)
        pull = 2.0 * (outer * slopes) @ inner
        return 2.0 * (outer @ value - label) * slopes[:, None] * inner + np.outer(value, pull)

    moment = -label * (values - values.mean()) @ inner
    start = moment / np.linalg.norm(moment)
    return optimize.least_squares(misfit, start, derivative, method="lm").x


def judge_lemd6(tables: Tables) -> Iterator[Verdict]:
    over, table = tables["orders"], tables["estimators"]
    found = floors.exponents(over, "exact")
    slack = over["exact"] / over["loosened"]
    yield check(
        "liu2024/lemD6",
        floors.order_holds(found) and slack.between(1, 1.15).all(),
        "for one record the bound is of order sigma sqrt(d/m), and the trace loses almost nothing",
        ours=f"{floors.order_text(found)}; exact over loosened {floors.span(slack, 3)}",
        **floors.ORDER,
    )
    least_noise = table.iloc[0]
    attained = [
        within(
            least_noise[name],
            least_noise[bound],
            least_noise[_error(name)],
            ATTAINED * least_noise[bound],
        )
        for name, bound in (
            ("least squares", "printed bound"),
            ("on the sphere", "bound for unit records"),
        )
    ]
    below = _is_below(table, "shrunk") & _is_below(table, "on the sphere")
    over_one = table.loc[table["printed bound"] > 1, "printed bound"]
    worst = table[below].iloc[0] if below.any() else least_noise
    errors = {name: rounded(worst[name], worst[_error(name)]) for name in ESTIMATORS}
    yield refute(
        "E-E-10",
        holds=not (below.any() and len(over_one)),
        corrected_holds=every(*attained),
        ours=f"error at a printed bound of {worst['printed bound']:.2f}: least squares "
        f"{errors['least squares']}, shrunk {errors['shrunk']}, projected "
        f"{errors['on the sphere']}; zero has 1 at a bound of {over_one.max():.1f}, too",
    )


def _error(name: str) -> str:
    """The column of an estimator's standard error."""
    return f"standard error, {name}"


def _is_below(table: pd.DataFrame, name: str) -> pd.Series:
    """Whether an estimator's error is below the printed bound, beyond chance."""
    return table[name] < table["printed bound"] - STANDARD_ERRORS * table[_error(name)]


CAPTION_LEMD6 = (
    "Root mean squared error of four reconstructions of one record from a noisy gradient, over the "
    "paper's bound (dashed: equality; dotted: the bound for records known to have norm one). Bars: "
    "four standard errors. Least squares is nearly unbiased; shrinking it, projecting it to the "
    "unit sphere and guessing zero go below the bound. Not in the paper."
)


@drawing
def draw_lemd6(tables: Tables) -> Figure:
    table = tables["estimators"]
    figure, ((axis,),) = panels(1, 1, 5.2, 3.8)
    x = table["printed bound"]
    for name, style in (("printed bound", "--"), ("bound for unit records", ":")):
        axis.plot(x, table[name], color=GREY, linestyle=style, label=name)
    looks = ((BLUE, "o"), (GREEN, "s"), (PURPLE, "^"), (ORANGE, "D"))
    for name, (colour, marker) in zip(ESTIMATORS, looks, strict=True):
        look = {"color": colour, "marker": marker, "ms": 4.5, "linewidth": 1.2, "capsize": 2}
        axis.errorbar(x, table[name], 4 * table[_error(name)], **look, label=name)
    axis.set(
        xscale="log", yscale="log", xlabel="printed bound on the error", ylabel="measured error"
    )
    axis.legend(loc="lower right")
    return figure
