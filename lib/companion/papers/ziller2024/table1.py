"""Table 1: its 68 numbers, and what its columns bound."""

import functools
import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.ziller2024.projection_steps import random_record, released
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
    "pictures": Parameter("int", 8, 8, "not in the paper", "photographs compared with grey", low=2),
}
SETTLES = (*(f"B-0{i}" for i in (14, 15, 16, 17, 18, 19, 20, 21, 23)), "O-010", "E-B-03", "E-B-07")
SHOWN = ("table",)
#: what each parameter changes, by claim
CHANGES = {
    "B-018": ("C", [MSE, PSNR]),
    "B-019": ("N", [NCC]),
    "B-020": ("T", [SUCCESS, MSE, PSNR, NCC]),
    "B-021": ("kappa", [SUCCESS]),
}


#: relative, of means of 200 errors of 1,000 values, whose standard error is 0.3%
SHRUNKEN_MARGIN = 0.05


ALTERED = {
    "table": {
        SUCCESS: "successes",
        MSE: ("errors", at("varied == 'N'", "errors where N varies")),
        PSNR: "PSNRs [dB]",
        NCC: (
            "NCCs",
            at("varied == 'C'", "NCCs where C varies"),
            at("varied == 'kappa'", "NCCs where kappa varies"),
        ),
    },
    "ziller2024/table1": {"value": "printed numbers"},
    "no prior": {
        "success": at("`log kappa` == -inf", "a success at kappa = 0"),
        "log success": at("`log kappa` > -inf", "logarithms of successes at small kappa"),
    },
    "mse over sigma": {"mean MSE": "mean MSEs"},
    "common factor": {"MSE": at("factor > 1", "scaled MSEs")},
    "grey": {"PSNR": "PSNRs of grey pictures [dB]"},
    "shrunken": {"shrunken": "errors of shrunken reconstructions"},
}


@measurement
def measure(study: Context) -> Tables:
    return Tables(
        {
            "table": _bounds(),
            **_scaling_of_the_mse(study),
            **_grey_pictures(study),
            "no prior": _no_prior(),
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


def _scaling_of_the_mse(study: Context) -> dict[str, pd.DataFrame]:
    """The mean MSE over sigma, and that of record and reconstruction times a factor (E-B-03)."""
    record = random_record(study.rng("record"), 1000, 0.5)
    release = functools.partial(released, study, record)
    means = {
        sigma: release(DPSGD(sigma, max_grad_norm=1.0), 200, metrics.mse, ("E-B-03", sigma)).mean()
        for sigma in (0.1, 1.0, 10.0)
    }
    rebuilt = release(DPSGD(1.0, max_grad_norm=1.0), 1, key=("factor",))[0]
    errors = {factor: metrics.mse(factor * record, factor * rebuilt) for factor in (1, 3)}
    return {
        "mse over sigma": pd.DataFrame(means.items(), columns=["sigma", "mean MSE"]),
        "common factor": pd.DataFrame(errors.items(), columns=["factor", "MSE"]),
    }


def _grey_pictures(study: Context) -> dict[str, pd.DataFrame]:
    """A constant grey picture, and the projection at the largest C, for photographs (E-B-07)."""
    count = study.parameters.pictures
    pictures = datasets.pictures(32, count).reshape(count, -1)
    half = np.full(pictures.shape[1], 0.5)
    grey = {"MSE": metrics.mse(pictures, half), "PSNR": metrics.psnr(pictures, half, 1.0)}
    run = DPSGD(1.0, max_grad_norm=1e4)
    errors = released(study, pictures[0], run, 20, metrics.mse, ("grey",))
    return {
        "grey": pd.DataFrame(grey),
        "projection at large C": pd.DataFrame({"MSE": errors}),
        "shrunken": _shrunken(study),
    }


def _shrunken(study: Context) -> pd.DataFrame:
    """MSEs of the projection and of it over 1 + N sigma^2, which needs no data, at row 1."""
    run, rows = DPSGD(1.0, max_grad_norm=1.0), []
    for norm in (0.0, 0.5, 1.0):
        record = random_record(study.rng("shrunken"), 1000, 1.0) * norm
        rebuilt = released(study, record, run, 200, key=("shrunken", norm))
        shrunken = rebuilt / (1 + record.size * run.noise_multiplier**2)
        means = (metrics.mse(record, values).mean() for values in (rebuilt, shrunken))
        rows.append((norm, *means))
    return pd.DataFrame(rows, columns=["norm over C", "projection", "shrunken"])


def _no_prior() -> pd.DataFrame:
    """The worst-case success at sigma = 1 as kappa falls to zero."""
    rows = [
        (log, float(bounds.rero_gaussian(1.0, log_prior_success=log, log=True)))
        for log in (-1e2, -1e4, -1e6)
    ]
    table = pd.DataFrame(rows, columns=["log kappa", "log success"])
    none = float(bounds.rero_gaussian(1.0, 0.0))
    table.loc[len(table)] = (-math.inf, math.log(none) if none else -math.inf)
    return table.assign(success=np.exp(table["log success"]))


def judge(tables: Tables) -> Iterator[Verdict]:
    table = tables["table"]
    claims = (f"B-0{i}" for i in range(14, 22))
    yield from shared_by(_as_printed(tables), *claims, "O-010")
    by_sigma = table[table["varied"].isin(["baseline", "sigma"])].sort_values("sigma")
    last = by_sigma[SUCCESS].iloc[-1]
    yield check(
        "B-014",
        (by_sigma[SUCCESS].diff().iloc[1:] <= 0).all() and abs(last - 10) < 0.01,
        "the worst-case success falls towards kappa as sigma grows",
        ours=f"{last:.3f}% at sigma = 1e4, kappa = 10%",
    )
    slope = _slope(by_sigma["sigma"], by_sigma[MSE])
    statement = "E[MSE] scales with the square of sigma"
    yield check("B-016", abs(slope - 2) < 1e-9, statement, ours=f"log-log slope {slope:.3f}")
    base, settings = table.iloc[0], list(SETTINGS.values())
    for target, (varied, expected) in CHANGES.items():
        part = table[table["varied"] == varied]
        same = part.loc[(part[settings] == base[settings]).all(axis=1), "row"]
        yield check(
            target,
            expected
            == [k for k in COLUMNS.values() if not np.allclose(part[k], base[k], rtol=1e-12)],
            f"{varied} changes {', '.join(expected)} and no other column",
            ours=f"{len(part)} rows against the first"
            + "".join(f"; row {r} repeats the first, though printed in bold" for r in same),
        )
    none = tables["no prior"].set_index("log kappa")
    least, small = none.index[np.isfinite(none.index)].min(), none["log success"]
    yield check(
        "B-023",
        none["success"][-math.inf] == 0
        and (small / small.index - 1).loc[least:least].abs().max() < 0.01,
        "at kappa = 0 the worst-case success is zero, and it tends to kappa with kappa",
        ours=f"{none['success'][-math.inf]:g}; log success at log kappa = {least:.0e}: "
        f"{small[least]:.0f}",
    )
    yield _square(tables, slope)
    yield _grey(tables)


def beside_print(tables: Tables) -> pd.DataFrame:
    """Return each printed number beside ours."""
    printed = registry.printed("ziller2024/table1")
    rows = tables["table"].set_index("row")
    cells = printed[["row_index", "metric"]].itertuples(index=False)
    ours = [float(rows.loc[row, COLUMNS[metric]]) for row, metric in cells]
    return pd.DataFrame({"printed": printed["value"].astype(float), "ours": ours})


def _as_printed(tables: Tables) -> Verdict:
    """Compare our table with the printed one, number by number.

    Raises
    ------
    ValueError
        Unless 68 numbers are printed: a comparison of fewer must not pass.
    """
    both, printed = beside_print(tables), registry.printed("ziller2024/table1")
    if len(printed) != 68:
        raise ValueError(f"68 printed numbers were expected in the table; got {len(printed)}")
    return compare(
        "ziller2024/table1",
        "all 17 rows and 4 columns, number by number",
        both["ours"].to_list(),
        both["printed"].to_list(),
        list(printed["printed"]),
    )


def _slope(x: pd.Series, y: pd.Series) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _square(tables: Tables, of_bound: float) -> Verdict:
    """E-B-03: how the MSE scales with sigma, and with a common factor."""
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
    """E-B-07: attackers without a prior beat "Min E[MSE]" and "Max E[PSNR]"."""
    table, grey, shrunken = tables["table"], tables["grey"], tables["shrunken"]
    large, first = table[MSE].max(), table.iloc[0]
    least = first[MSE] / (1 + first["N"] * first["sigma"] ** 2)
    return refute(
        "E-B-07",
        holds=grey["MSE"].max() >= large or shrunken["shrunken"].max() >= first[MSE],
        corrected_holds=grey["MSE"].max() <= 0.25
        and grey["PSNR"].min() >= 10 * math.log10(4) - 1e-9
        and tables["projection at large C"]["MSE"].min() > 0.9 * large
        and shrunken["shrunken"].max() < least * (1 + SHRUNKEN_MARGIN)
        and (shrunken["projection"] / first[MSE] - 1).abs().max() < SHRUNKEN_MARGIN,
        ours=f"X_hat / (1 + N sigma^2) at row 1: MSE at most {shrunken['shrunken'].max():.4f}; "
        f"grey against {len(grey)} photographs: MSE at most {grey['MSE'].max():.3f}, PSNR at "
        f"least {grey['PSNR'].min():.1f} dB",
        paper=f"MSE at least {first[MSE]:g} (row 1) and {large:.0e} (C = 1e4), PSNR at most "
        f"{table[PSNR].min():.0f} dB",
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


HEADS: tuple[str, ...] = ("vary", r"$\sigma$", "C", "N", "T", r"$\kappa$")
HEADS += ("worst-case\nsuccess", "min\nE[MSE]", "max\nE[PSNR]", "max\nE[NCC]")
HEADS += ("exact\nE[PSNR]", "exact\nE[NCC]")
WIDTHS = (0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 1.0, 0.8, 1.05, 0.9, 1.1, 0.9)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["table"]
    figure, axis = plt.subplots(figsize=(8.4, 5.4), layout="constrained")
    axis.axis("off")
    edges = np.cumsum([0, *WIDTHS])
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
    """A number as the table prints it: plain near one, otherwise a power of ten."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    if -2 < exponent < 4:
        return f"{value:g}"
    return rf"$\mathbf{{10^{{{exponent}}}}}$" if bold else rf"$10^{{{exponent}}}$"
