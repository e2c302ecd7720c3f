"""Table 1: its 68 numbers, and what its columns really bound."""

import math
from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.papers.ziller2024.projection_steps import random_record, released
from companion.study import (
    Context,
    Parameter,
    Tables,
    Verdict,
    check,
    compare,
    measurement,
    refute,
    registry,
)
from companion.style import GREEN, drawing
from reconrisk import DPSGD, bounds, datasets, metrics

#: printed columns -> ours
COLUMNS = {
    "worst_case_matching_success": "success (%)",
    "min_E_MSE": "E[MSE]",
    "max_E_PSNR": "E[PSNR] (dB)",
    "max_E_NCC": "E[NCC] (%)",
}
SUCCESS, MSE, PSNR, NCC = COLUMNS.values()
SETTINGS = {
    "sigma_noise_multiplier": "sigma",
    "C_max_grad_norm": "C",
    "N_dimension": "N",
    "T_steps": "T",
    "kappa_prior_probability": "kappa",
}

PARAMETERS = {
    "pictures": Parameter(
        "int",
        8,
        8,
        "printed in the table itself, row by row",
        "bundled photographs that grey is held against",
        low=2,
    ),
}
SETTLES = (*(f"B-0{i}" for i in (14, 15, 16, 17, 18, 19, 20, 21, 23)), "O-010", "E-B-03", "E-B-07")
SHOWN = ("table",)


@measurement
def measure(study: Context) -> Tables:
    return Tables(
        {
            "table": _bounds(),
            "mse over sigma": _mse_over_sigma(study),
            "common factor": _common_factor(study),
            **_grey_pictures(study),
        },
        exact=["table"],
        ran="All 17 settings in closed form, with sigma_eff = sigma / sqrt(T); grey pictures on "
        f"{study.parameters.pictures} photographs.",
    )


def _bounds() -> pd.DataFrame:
    """The 17 settings as printed with our four columns, and the exact expectations."""
    rows = registry.printed("ziller2024/table1").drop_duplicates("row_index")
    table = pd.DataFrame({"row": rows["row_index"], "varied": rows["varied_parameter"]})
    table[list(SETTINGS.values())] = rows[list(SETTINGS)].astype(float)
    table = table.reset_index(drop=True)
    sigma, c, n, steps, kappa = (table[k].to_numpy() for k in SETTINGS.values())
    table[SUCCESS] = 100 * bounds.rero_gaussian(sigma, kappa, steps=steps)
    table[MSE] = bounds.expected_mse(sigma, c, steps)
    table[PSNR] = bounds.psnr_bound_paper(sigma, c, 1.0, steps)
    table[NCC] = 100 * bounds.ncc_bound_paper(n, sigma, steps)
    table["exact E[PSNR] (dB)"] = bounds.expected_psnr(n, sigma, c, 1.0, steps)
    table["exact E[NCC] (%)"] = 100 * bounds.expected_ncc(n, sigma, repeats=steps)
    return table


def _mse_over_sigma(study: Context) -> pd.DataFrame:
    """The mean MSE of the projection's own reconstructions, over sigma (E-B-03)."""
    record = random_record(study.rng("record"), 1000, 0.5)
    means = []
    for sigma in (0.1, 1.0, 10.0):
        run = DPSGD(sigma, max_grad_norm=1.0)
        errors = released(
            study, record, run, 200, lambda x: metrics.mse(record, x), ("E-B-03", sigma)
        )
        means.append((sigma, float(np.mean(errors))))
    return pd.DataFrame(means, columns=["sigma", "mean MSE"])


def _common_factor(study: Context) -> pd.DataFrame:
    """The MSE of a record and its reconstruction multiplied by a common factor (E-B-03)."""
    record = random_record(study.rng("record"), 1000, 0.5)
    rebuilt = released(study, record, DPSGD(1.0, max_grad_norm=1.0), 1, key=("factor",))[0]
    errors = [(factor, metrics.mse(factor * record, factor * rebuilt)) for factor in (1, 3)]
    return pd.DataFrame(errors, columns=["factor", "MSE"])


def _grey_pictures(study: Context) -> dict[str, pd.DataFrame]:
    """A constant grey picture, and the projection at the largest C, for photographs (E-B-07)."""
    count = study.parameters.pictures
    pictures = datasets.pictures(32, count).reshape(count, -1)
    half = np.full(pictures.shape[1], 0.5)
    grey = {"MSE": metrics.mse(pictures, half), "PSNR": metrics.psnr(pictures, half, 1.0)}
    run = DPSGD(1.0, max_grad_norm=1e4)
    errors = released(study, pictures[0], run, 20, lambda x: metrics.mse(pictures[0], x), ("grey",))
    return {"grey": pd.DataFrame(grey), "projection at large C": pd.DataFrame({"MSE": errors})}


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["table"]
    yield _agrees(
        "ziller2024/table1",
        "all 17 rows and 4 columns, number by number",
        table,
        COLUMNS.values(),
        68,
    )
    by_sigma = table[table["varied"].isin(["baseline", "sigma"])].sort_values("sigma")
    yield _agrees(
        "B-014",
        "success falls to kappa: 38.9, 10.2, 10.0%",
        table[table["row"].isin([1, 4, 5])],
        [SUCCESS],
        3,
    )
    last = by_sigma[SUCCESS].iloc[-1]
    yield check(
        "B-014",
        (by_sigma[SUCCESS].diff().iloc[1:] <= 0).all() and abs(last - 10) < 0.01,
        "the worst-case success falls towards kappa as sigma grows",
        ours=f"{last:.3f}% at sigma = 1e4, kappa = 10%",
    )
    noisy = table[table["row"].isin([2, 3])]
    yield _agrees("B-015", "100.0% at sigma = 1e-4 and 1e-2", noisy, [SUCCESS], 2)
    yield _agrees("B-016", "the column Min E[MSE]", by_sigma, [MSE], 5)
    slope = _slope(by_sigma["sigma"], by_sigma[MSE])
    yield check(
        "B-016",
        abs(slope - 2) < 1e-9,
        "E[MSE] scales with the square of sigma",
        ours=f"log-log slope {slope:.3f}",
    )
    yield _agrees("B-017", "the column Max E[NCC]", by_sigma, [NCC], 5)
    for target, varied, moved, what in (
        ("B-018", "C", {MSE, PSNR}, "MSE and PSNR only"),
        ("B-019", "N", {NCC}, "the NCC only"),
        ("B-020", "T", {SUCCESS, MSE, PSNR, NCC}, "all four"),
        ("B-021", "kappa", {SUCCESS}, "the worst-case success only"),
    ):
        yield from _one_parameter(target, table, varied, moved, what)
    small = float(bounds.rero_gaussian(1.0, log_prior_success=-1e6, log=True))
    none = float(bounds.rero_gaussian(1.0, 0.0))
    yield check(
        "B-023",
        none == 0 and small < -9e5,
        "at kappa = 0 the worst-case success is zero, and tends to it with kappa",
        ours=f"{none:g}; log success at log kappa = -1e6: {small:.0f}",
    )
    yield _agrees(
        "O-010", "closed-form ReRo at q = 1 is the column Worst-Case", table, [SUCCESS], 17
    )
    yield _square(tables, slope)
    yield _grey(tables)


def _agrees(
    target: str, statement: str, rows: pd.DataFrame, columns: Collection[str], count: int
) -> Verdict:
    """Compare some rows and columns of our table with what is printed of them.

    Raises
    ------
    ValueError
        Unless ``count`` numbers are printed: no comparison may come out well for want of them.
    """
    printed = registry.printed("ziller2024/table1")
    printed = printed[
        printed["row_index"].isin(rows["row"]) & printed["metric"].map(COLUMNS).isin(list(columns))
    ]
    if len(printed) != count:
        raise ValueError(f"{count} printed numbers were expected in this part; got {len(printed)}")
    ours = rows.set_index("row")
    mine = [
        float(ours.loc[row, COLUMNS[metric]])
        for row, metric in printed[["row_index", "metric"]].itertuples(index=False)
    ]
    values = printed["value"].astype(float)
    return compare(target, statement, mine, list(values), list(printed["printed"]))


def _one_parameter(
    target: str, table: pd.DataFrame, varied: str, moved: set[str], what: str
) -> Iterator[Verdict]:
    """Judge the rows that vary one parameter, and which columns that moves."""
    base, part = table.iloc[0], table[table["varied"] == varied]
    yield _agrees(
        target,
        f"the rows that vary {varied}, number by number",
        part,
        COLUMNS.values(),
        4 * len(part),
    )
    settings = list(SETTINGS.values())
    same = part.loc[(part[settings] == base[settings]).all(axis=1), "row"]
    moves = {k for k in COLUMNS.values() if not np.allclose(part[k], base[k], rtol=1e-12)}
    yield check(
        target,
        moves == moved,
        f"{varied} moves {what}",
        ours=f"{len(part)} rows against the first"
        + "".join(f"; row {r} repeats the first, though printed in bold" for r in same),
    )


def _slope(x: pd.Series, y: pd.Series) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _square(tables: Tables, of_bound: float) -> Verdict:
    """E-B-03: the MSE in sigma, and in a common factor of sample and reconstruction."""
    measured = _slope(*(tables["mse over sigma"][k] for k in ("sigma", "mean MSE")))
    scaled = tables["common factor"].set_index("factor")["MSE"]
    factor = scaled[3] / scaled[1]
    return refute(
        "E-B-03",
        holds=abs(of_bound - 1) < 0.1 or abs(measured - 1) < 0.1 or abs(factor - 3) < 0.1,
        corrected_holds=abs(of_bound - 2) < 1e-9
        and abs(measured - 2) < 0.01
        and abs(factor - 9) < 1e-9,
        ours=f"log-log slope {measured:.2f} over sigma; a factor 3 multiplies the MSE by "
        f"{factor:.1f}",
        paper="slope 1; factor 3",
    )


def _grey(tables: Tables) -> Verdict:
    """E-B-07: a constant grey picture against "Min E[MSE]" and "Max E[PSNR]"."""
    table, grey = tables["table"], tables["grey"]
    large = table[MSE].max()
    extreme = float(metrics.mse(np.array([0.0, 1.0]), np.full(2, 0.5)))
    return refute(
        "E-B-07",
        holds=grey["MSE"].max() >= large,
        corrected_holds=grey["MSE"].max() <= extreme == 0.25
        and grey["PSNR"].min() >= 10 * math.log10(4) - 1e-9
        and tables["projection at large C"]["MSE"].min() > 0.9 * large,
        ours=f"grey against {len(grey)} photographs: MSE at most {grey['MSE'].max():.3f}, PSNR at "
        f"least {grey['PSNR'].min():.1f} dB; it is better than {(table[MSE] > extreme).sum()} of "
        f"the {len(table)} rows",
        paper=f"MSE at least {large:.0e}, PSNR at most {table[PSNR].min():.0f} dB (C = 1e4)",
    )


CAPTION = (
    "The paper's table of bounds, all 68 numbers computed: the worst-case success of an attacker "
    "who matches against candidates, and the bounds on MSE, PSNR and NCC, one parameter varied at "
    "a time. In green, what the paper does not print: the exact expectations of PSNR and NCC of "
    "the same reconstruction, which exceed the columns called Max."
)


def alt(tables: Tables) -> str:
    table = tables["table"]
    row = table.loc[(table["exact E[PSNR] (dB)"] - table[PSNR]).idxmax()]
    return (
        f"Table of {len(table)} rows: noise multiplier, clipping norm, dimension, steps and prior, "
        "then worst-case success, least expected MSE, largest expected PSNR and NCC, and the exact "
        "expectations of PSNR and NCC. The exact ones differ most at dimension "
        f"{row['N']:.0f}: {row['exact E[PSNR] (dB)']:.2f} dB instead of {row[PSNR] + 0.0:.0f} and "
        f"{row['exact E[NCC] (%)']:.1f}% instead of {row[NCC]:.1f}%."
    )


HEADS = {
    "vary": 0.6,
    r"$\sigma$": 0.7,
    "C": 0.7,
    "N": 0.7,
    "T": 0.7,
    r"$\kappa$": 0.7,
    "worst-case\nsuccess": 1.0,
    "min\nE[MSE]": 0.8,
    "max\nE[PSNR]": 1.05,
    "max\nE[NCC]": 0.9,
    "exact\nE[PSNR]": 1.1,
    "exact\nE[NCC]": 0.9,
}


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["table"]
    figure, axis = plt.subplots(figsize=(9.1, 5.4), layout="constrained")
    axis.axis("off")
    edges = np.cumsum([0, *HEADS.values()])
    centres = (edges[:-1] + edges[1:]) / 2
    colours = [GREEN if head.startswith("exact") else "black" for head in HEADS]
    for x, head, colour in zip(centres, HEADS, colours, strict=True):
        style = {"ha": "center", "va": "bottom", "fontsize": 9.5, "weight": "bold"}
        axis.text(x, -0.4, head, color=colour, **style)
    named = {"sigma": r"$\sigma$", "kappa": r"$\kappa$"}
    for i, row in table.iterrows():
        first = i == 0 or row["varied"] != table["varied"][i - 1]
        if first:
            axis.plot([0, edges[-1]], [i - 0.02] * 2, color="#B0B0B0", linewidth=0.7)
        kind = row["varied"] if first and i else ""
        cells = [named.get(kind, kind), *_cells(row)]
        bold = list(SETTINGS.values()).index(row["varied"]) + 1 if i else None
        for j, (x, cell, colour) in enumerate(zip(centres, cells, colours, strict=True)):
            weight = "bold" if j == bold else "normal"
            style = {"ha": "center", "va": "center", "fontsize": 9.5, "weight": weight}
            axis.text(x, i + 0.5, cell, color=colour, **style)
    axis.set(xlim=(0, edges[-1]), ylim=(len(table) + 0.1, -1.6))
    return figure


def _cells(row: pd.Series) -> list[str]:
    """A row as the table prints it, with the exact expectations."""
    decibel = (f"{row[PSNR] + 0.0:.1f} dB", f"{row['exact E[PSNR] (dB)']:.2f} dB")
    printed, exact = (text.replace("-", "\u2212") for text in decibel)
    return [
        *(_power(row[k], bold=k == row["varied"]) for k in SETTINGS.values()),
        f"{row[SUCCESS]:.1f}%",
        _power(row[MSE]),
        printed,
        f"{row[NCC]:.1f}%",
        exact,
        f"{row['exact E[NCC] (%)']:.1f}%",
    ]


def _power(value: float, bold: bool = False) -> str:
    """A number as the table prints it: plain near one, else as a power of ten."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    if -2 < exponent < 4:
        return f"{value:g}"
    return rf"$\mathbf{{10^{{{exponent}}}}}$" if bold else rf"$10^{{{exponent}}}$"
