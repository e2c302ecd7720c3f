"""The second approach to accounting, Rényi to the end, and where the two approaches cross."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.exhibit import *
from companion.experiments.federated import DIMENSION, EPOCHS
from companion.papers.biswas2024.vmf_accounts import (
    SEARCH,
    accounts,
    fits,
    fits_second,
    printed_epsilons,
    printed_table1,
    setting,
)
from reconrisk import privacy

PARAMETERS = {
    "least_concentration": Parameter("float", 15.0, 15.0, "25", "least kappa of the curves", 1.0),
    "most_concentration": Parameter("float", 525.0, 525.0, "500", "largest kappa of them", 200.0),
    "points": Parameter("int", 69, 205, "not printed", "points of each curve", 2),
}
SETTLES = ("D-006",)
ALTERED = {
    "printed": {"approach 2": "epsilons of the second approach"},
    "biswas2024/table4": {"printed": at("metric == 'epsilon'", "printed epsilons")},
    "crossings": {"kappa": "concentrations at which the curves cross"},
}

_COLOURS = {1: GREEN, 2: PURPLE}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    kappas = np.linspace(p.least_concentration, p.most_concentration, p.points)
    epsilons = [[way(kappa) for kappa in kappas] for way in (_first, _second)]
    curves = pd.DataFrame({"kappa": kappas, "approach 1": epsilons[0], "approach 2": epsilons[1]})
    above = (curves["approach 1"] > curves["approach 2"]).to_numpy()
    crossings = [
        optimize.brentq(lambda kappa: _first(kappa) - _second(kappa), *kappas[i : i + 2], xtol=1e-6)
        for i in np.flatnonzero(above[1:] != above[:-1])
    ]
    named = printed_table1().set_index("kappa")["printed by"]
    printed = []
    for kappa, text in printed_epsilons().items():
        found = accounts(kappa)
        # the approach that Table I names, or the one that gives Table IV's number
        approach = int(named.get(kappa, found.as_printed(kappa)[1]))
        ways = (found.best, found.first, found.second, found.straight_lines)
        printed.append((kappa, float(text), approach, *ways))
    columns = ["kappa", "printed", "approach", "best", "approach 1", "approach 2", "straight lines"]
    return Tables(
        {
            "curves": curves,
            "crossings": pd.DataFrame({"kappa": crossings}, dtype=float),
            "printed": pd.DataFrame(printed, columns=columns),
        },
        exact=("curves",),
        ran=f"p = {DIMENSION:,}, q = 128/60,000, delta = 1/60,000, T = {EPOCHS}.",
    )


def _first(kappa: float) -> float:
    return privacy.vmf_epsilon_by_conversion(*setting(kappa)).epsilon


def _second(kappa: float) -> float:
    return privacy.vmf_epsilon_by_renyi(*setting(kappa)).epsilon


def judge(tables: Tables) -> Iterator[Verdict]:
    texts, printed = printed_epsilons(), tables["printed"]
    rows = [(row["kappa"], row) for _, row in printed.iterrows()]
    first = {kappa for kappa, row in rows if fits(texts[kappa], row["approach 1"], 1)}
    second = {kappa for kappa, row in rows if fits_second(row, texts[kappa])}
    yield check(
        "biswas2024/alg_accounting2",
        first | second == set(texts) and len(second) > len(first),
        "the second approach, at three compositions, gives every printed epsilon that the first "
        "does not; two of them with the slip of E-D-02",
        ours=f"{len(second)} of {len(texts)}, at most {SEARCH[2][0]:g} and half a unit below what "
        f"is printed; the first gives {len(first)}",
        paper=f"{len(texts)} concentrations in Tables I and IV",
    )
    crossings = tables["crossings"]["kappa"].to_list()
    table1 = printed_table1().merge(printed[["kappa", "approach 1", "approach 2"]], on="kappa")
    winners = 2 - (table1["approach 1"] <= table1["approach 2"])
    agree = int((winners == table1["printed by"]).sum())
    low, high = crossings if len(crossings) == 2 else (np.nan, np.nan)
    yield check(
        "D-006",
        75 < low < 125 and high > 300 and agree == len(table1) - 1,
        "neither approach is always the better one: the first gives less at small concentrations, "
        "the second beyond, and the first again at the largest",
        ours=f"they cross at kappa = {' and '.join(f'{kappa:.0f}' for kappa in crossings)}; "
        f"{agree} of {len(table1)} winners as printed, all but kappa = 100",
        paper="approach 1 for 25 to 75, approach 2 for 100 to 300",
    )


CAPTION = (
    "Epsilon of VMF noise by the paper's two approaches at three compositions, over the "
    "concentration. Hollow: every epsilon that Tables I and IV print, in the colour of the "
    "approach that the paper names or that gives it. Left: on a logarithmic scale; neither "
    "approach is always the better one. Right: the printed values over the better approach, whose "
    "search may lose some per cent (grey). Two lie below: they rest on straight lines between "
    "divergences, which bound nothing."
)


@drawing
def draw(tables: Tables) -> Figure:
    curves, printed = tables["curves"], tables["printed"]
    figure, ((values, ratios),) = panels(1, 2, 4.4, 3.3)
    ratios.axhspan(1.0, 1.0 + SEARCH[1][1], color="#DDDDDD", linewidth=0)
    handles = []
    for approach, colour in _COLOURS.items():
        own = printed[printed["approach"] == approach]
        values.plot(curves["kappa"], curves[f"approach {approach}"], color=colour)
        mark_printed(values, own["kappa"], own["printed"], colour)
        mark_printed(ratios, own["kappa"], own["printed"] / own["best"], colour)
        handles.append(legend_line(f"approach {approach}", colour))
        handles.append(printed_entry(f"printed, approach {approach}", colour))
    for axes in (values, ratios):
        axes.set_xlabel(r"concentration $\kappa$")
    values.set(yscale="log", ylabel=rf"$\varepsilon$ at T = {EPOCHS}")
    ratios.set_ylabel(r"printed $\varepsilon$ / better approach")
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure
