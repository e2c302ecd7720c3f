"""Lemma D.5: the largest weights of random networks against their orders."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd

from companion.exhibit import *
from companion.papers.liu2024.floor_orders import NOT_PRINTED
from companion.papers.liu2024.gradient_floors import draw_network, one_thread, round_digits, span

PARAMETERS = {
    "dimensions": Parameter("ints", (16, 256), (16, 64, 256, 1024), NOT_PRINTED, "d", low=1),
    "widths": Parameter(
        "ints", (1000, 10000), (1000, 10000, 100000, 1000000), NOT_PRINTED, "m", low=100
    ),
}
SHOWN = ("weights",)

ALTERED = {
    "networks": {
        "m max |a| / sqrt(2 log m)": "output weights",
        "max |w| / sqrt(d)": "inner weights",
    }
}

#: the largest of m normal weights is within this factor of sqrt(2 log m); it scatters by a
#: fourteenth (one standard error) at a thousand neurons
NEAR = 1.3


@measurement
@one_thread
def measure(study: Context) -> Tables:
    p, rows = study.parameters, []
    for d, m in product(p.dimensions, p.widths):
        outer, inner = np.max(
            [
                (np.abs(part.outer).max(), np.linalg.norm(part.inner, axis=1).max())
                for part in draw_network(study, d, m, "elu").neurons()
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
        {"weights": round_digits(networks, 3), "networks": networks},
        ran=f"{len(networks)} networks of up to {max(p.widths):,} neurons.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
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
        ours=f"m max |a|/sqrt(2 log m) {span(ratio)}; max |w|/sqrt(d) {span(length)}",
        tolerance=f"a factor of {NEAR:g}, one-sided for max |w|",
    )
