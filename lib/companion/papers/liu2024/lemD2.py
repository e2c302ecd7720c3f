"""Lemma D.2: tr(M^-1) is at least d^2/tr(M); the case of equality, and the loss otherwise."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import NOT_PRINTED
from companion.papers.liu2024.gradient_floors import ROUNDING, one_thread

PARAMETERS = {"matrices": Parameter("int", 500, 5000, NOT_PRINTED, "random matrices", low=10)}
_NAME = "tr(M^-1) tr(M)/d^2"
ALTERED = {
    "products": {_NAME: "products", "off the identity": "losses off the identity"},
    "multiples of the identity": {_NAME: "products of multiples of the identity"},
}


@measurement
@one_thread
def measure(study: Context) -> Tables:
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


def judge(tables: Tables) -> Iterator[Verdict]:
    products, gaps = tables["products"][_NAME], tables["products"]["off the identity"]
    equal = tables["multiples of the identity"][_NAME]
    yield check(
        "liu2024/lemD2",
        products.min() >= 1 - ROUNDING
        and products.max() > 2
        and gaps.max() < 1e-7
        and (equal - 1).abs().max() < ROUNDING,
        "tr(M^-1) is at least d^2/tr(M); the inequality loses the sum over pairs of eigenvalues "
        "of (a - b)^2/(a b), so that multiples of the identity alone have equality",
        ours=f"{len(products)} random matrices, {_NAME} from {products.min():.3g} to "
        f"{products.max():.2g}",
    )
