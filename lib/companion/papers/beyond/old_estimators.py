"""Our own: better than "optimal", the corrected ReRo statement, and the price of the scale."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from companion.experiments.tools import as_numpy, photographs, tensor
from companion.study.computations import Context, computes
from companion.study.results import Result
from companion.study.verdicts import check
from reconrisk import DPSGD, bounds, datasets, metrics
from reconrisk.attacks import (
    clip_to_range,
    james_stein,
    known_scale,
    observe,
    scaled_direction,
    shrink,
    with_estimated_scale,
)


def _data_sets(context: Context) -> dict[str, np.ndarray]:
    p = context.settings
    data = {}
    for size in p.sizes:
        pictures = photographs(context, size, p.pictures).reshape(p.pictures, -1)
        data[f"photographs, {size} px"] = np.repeat(pictures, p.repeats, axis=0)
    data["digits"] = datasets.digits()[: p.digits]
    for dimension in p.dimensions:
        data[f"synthetic, N = {dimension}"] = context.rng("synthetic", dimension).random(
            (p.synthetic, dimension)
        )
    return data


@computes("beyond/estimators", "O-005", "O-006", photographs=True)
def estimators(context: Context) -> Result:
    """MSE of five reconstructions over that of X_hat, on photographs, digits, synthetic data."""
    p = context.settings
    rows_table = []
    for name, records in _data_sets(context).items():
        inputs = tensor(context, records)
        norms = inputs.norm(dim=1)
        offset = tensor(context, np.full((1, records.shape[1]), 0.5))[0]
        offset_norms = (inputs - offset).norm(dim=1)
        # low enough that every gradient is clipped, also after the offset
        clipping = 0.1 * float(min(norms.min(), offset_norms.min()))
        for sigma in p.noise_multipliers:
            run = DPSGD(sigma, max_grad_norm=clipping)
            x_hat = known_scale(observe(inputs, run, context.generator(name, sigma)))
            shifted = known_scale(
                observe(inputs, run, context.generator(name, sigma, "offset"), offset=offset)
            )
            noise_std = sigma * norms
            rebuilt = {
                "X_hat": x_hat,
                "shrunken": shrink(x_hat, sigma),
                "James-Stein": james_stein(x_hat, noise_std),
                "clipped to [0, 1]": clip_to_range(x_hat),
                "offset 1/2": shifted,
                "offset 1/2, clipped": clip_to_range(shifted),
            }
            variance = as_numpy(noise_std) ** 2
            unbiased = metrics.mse(records, as_numpy(x_hat))
            own = np.stack(
                [
                    np.full(len(records), 1.0),
                    np.full(len(records), 1 / (1 + records.shape[1] * sigma**2)),
                    np.full(len(records), np.nan),
                    _clipped(records, as_numpy(noise_std)) / variance,
                    as_numpy(offset_norms) ** 2 / as_numpy(norms) ** 2,
                    _clipped(records, sigma * as_numpy(offset_norms)) / variance,
                ]
            )
            for (label, values), theory in zip(rebuilt.items(), own, strict=True):
                # ratios of sums over the records; residuals record by record
                squares = metrics.mse(records, as_numpy(values))
                residual = squares - theory * variance
                z = residual.mean() / (residual.std(ddof=1) / math.sqrt(len(residual)))
                # against X_hat record by record: both share their noise (not with the offset)
                change = (squares - unbiased) / variance
                rows_table.append(
                    (
                        name,
                        records.shape[1],
                        sigma,
                        label,
                        float(squares.sum() / variance.sum()),
                        float((theory * variance).sum() / variance.sum()),
                        float(z),
                        bool(change.mean() < 4 * change.std(ddof=1) / math.sqrt(len(change))),
                    )
                )
    table = pd.DataFrame(
        rows_table,
        columns=["data", "N", "sigma", "reconstruction", "ratio", "theory", "z-score", "not worse"],
    )
    by = table.set_index(["reconstruction", "data", "sigma"]).sort_index()
    largest = f"photographs, {max(p.sizes)} px"
    shrunk = by.loc["shrunken"]
    offset_rows = by.loc["offset 1/2"].loc[largest]
    # the gain at small sigma is too small to measure: the exact expectations decide, and the
    # measurements must agree with them; the positive part improves on plain James-Stein
    beats = bool((by.loc[["shrunken", "clipped to [0, 1]"], "theory"] < 1).all()) and all(
        float(bounds.expected_mse_james_stein(n, sigma, 1.0)) < sigma**2
        for n in table["N"].unique()
        for sigma in p.noise_multipliers
    )
    beats &= bool(by.loc["James-Stein", "not worse"].all())
    exact_fits = bool((table["z-score"].abs().dropna() < 5).all())
    gain = by.loc["shrunken"].loc[largest]
    first, last = gain.iloc[0], gain.iloc[-1]
    stand_in = context.stand_in
    return Result(
        "beyond/estimators",
        [
            check(
                "beyond/estimators",
                beats and exact_fits,
                "shrinkage, James-Stein and clipping have a lower expected MSE than X_hat at every "
                "sigma on every data set, and the measured ones agree",
                ours=f"photographs, shrunken: {first['ratio']:.3g} at sigma = "
                f"{p.noise_multipliers[0]:g}, {last['ratio']:.2g} at "
                f"{p.noise_multipliers[-1]:g}",
                paper="1 is optimal (Theorem 1)",
                tolerance="5 standard errors",
                stand_in=stand_in,
            ),
            check(
                "O-005",
                bool((shrunk["z-score"].abs() < 5).all()),
                "the shrunken MSE over that of X_hat is 1 / (1 + N sigma^2)",
                ours=f"largest deviation {shrunk['z-score'].abs().max():.1f} standard errors "
                f"over {len(shrunk)} settings",
                tolerance="5 standard errors",
                stand_in=stand_in,
            ),
            check(
                "O-006",
                bool((offset_rows["z-score"].abs() < 5).all())
                and bool((offset_rows["theory"] < 1).all()),
                "the offset layer's MSE is sigma^2 ||X - c||^2, below that of X_hat",
                ours=f"ratio {offset_rows['ratio'].mean():.2f} for c = 1/2; largest deviation "
                f"{offset_rows['z-score'].abs().max():.1f} "
                "standard errors",
                tolerance="5 standard errors",
                stand_in=stand_in,
            ),
        ],
        {"ratios": table},
        ran=f"{p.pictures} photographs ({p.repeats} steps each) at "
        f"{' and '.join(map(str, p.sizes))} pixels a side, {p.digits} digits (N = 64), "
        f"{p.synthetic} synthetic records for each N, one DP-SGD step per sigma.",
    )


def _clipped(records: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Exact expected MSE of the clipped reconstruction of each record."""
    return np.array(
        [
            float(bounds.expected_mse_clipped_to_range(record, std, 0.0, 1.0))
            for record, std in zip(records, noise_std, strict=True)
        ]
    )


@computes("beyond/corrected_rero", "O-007", "O-008")
def corrected_rero(context: Context) -> Result:
    """Tails of the estimators, the sphere bound that none exceeds, closed-form ReRo above all."""
    p = context.settings
    if len(p.dimensions) != len(p.noise_multipliers):
        raise ValueError(
            "noise_multipliers must give one value for each of dimensions; got "
            f"{len(p.noise_multipliers)} for {len(p.dimensions)}"
        )
    relative = np.linspace(0, 1.3, p.points)[1:]
    frames, checks = [], []
    for dimension, sigma in zip(p.dimensions, p.noise_multipliers, strict=True):
        eta = relative / dimension  # ||X|| = 1: N eta / ||X||^2 is `relative`
        frame = pd.DataFrame(
            {
                "N": dimension,
                "sigma": sigma,
                "relative": relative,
                "X_hat": bounds.mse_tail(eta, dimension, sigma, 1.0),
                "shrunken": bounds.mse_tail_shrunk(eta, dimension, sigma, 1.0),
                "sphere bound": bounds.mse_tail_sphere(eta, dimension, sigma, 1.0),
                "ReRo": bounds.rero_sphere(eta, dimension, sigma, 1.0),
            }
        )
        frames.append(frame)
        checks += _simulate(context, dimension, sigma)
    curves = pd.concat(frames, ignore_index=True)
    simulated = pd.DataFrame(
        checks,
        columns=["N", "sigma", "relative", "reconstruction", "share", "error", "sphere bound"],
    )
    ordered = bool(
        (curves["X_hat"] <= curves["sphere bound"] * (1 + 1e-9)).all()
        and (curves["shrunken"] <= curves["sphere bound"] * (1 + 1e-9)).all()
    )
    none_above = bool(
        (simulated["share"] <= simulated["sphere bound"] + 4 * simulated["error"]).all()
    )
    best = simulated[simulated["reconstruction"] == "scaled direction"]
    attained = bool((np.abs(best["share"] - best["sphere bound"]) < 4 * best["error"]).all())
    covered = bool((curves["sphere bound"] <= curves["ReRo"] * (1 + 1e-9)).all())
    example = curves[(curves["N"] == p.dimensions[1])].iloc[p.points // 2]
    return Result(
        "beyond/corrected_rero",
        [
            check(
                "beyond/corrected_rero",
                ordered and none_above and attained and covered,
                "the sphere bound lies above every estimator and below closed-form ReRo",
                ours=f"N = {p.dimensions[1]}, N eta = {example['relative']:.2f} ||X||^2: X_hat "
                f"{example['X_hat']:.2g}, shrunken {example['shrunken']:.2g}, sphere bound "
                f"{example['sphere bound']:.3g}, ReRo {example['ReRo']:.3g}",
            ),
            check(
                "O-007",
                none_above and attained,
                "no simulated estimator exceeds the sphere bound; the scaled direction attains it",
                ours=f"{len(simulated)} simulated shares of {p.trials} records each",
                tolerance="4 standard errors",
            ),
            check(
                "O-008",
                covered,
                "closed-form ReRo with the cap's prior success covers the sphere bound",
                ours=f"{len(curves)} points; smallest ReRo over sphere bound "
                f"{(curves['ReRo'] / curves['sphere bound']).min():.3f}",
            ),
        ],
        {"curves": curves, "simulated": simulated},
        exact=("curves",),
        ran=f"closed forms, and {p.trials} records drawn uniformly from the unit sphere for "
        "each N, one DP-SGD step each.",
    )


def _simulate(context: Context, dimension: int, sigma: float) -> list[tuple]:
    """Success of five estimators on records drawn uniformly from the unit sphere."""
    p = context.settings
    relative = np.array([0.3, 0.6, 0.9])
    trials = max(500, min(p.trials, 20_000_000 // dimension))
    rng = context.rng(dimension)
    hits: dict[tuple[float, str], list[np.ndarray]] = {}
    run = DPSGD(sigma, max_grad_norm=0.5)
    generator = context.generator(dimension)
    chunk = max(1, 2_000_000 // dimension)
    for start in range(0, trials, chunk):
        records = rng.standard_normal((min(chunk, trials - start), dimension))
        records /= np.linalg.norm(records, axis=1, keepdims=True)
        x_hat = known_scale(observe(tensor(context, records), run, generator))
        rebuilt = {"X_hat": x_hat, "shrunken": shrink(x_hat, sigma)}
        if dimension >= 3:
            rebuilt["James-Stein"] = james_stein(x_hat, sigma)
        for level in relative:
            directed = scaled_direction(x_hat, 1.0, level / dimension)
            for name, values in {**rebuilt, "scaled direction": directed}.items():
                error = metrics.mse(records, as_numpy(values))
                hits.setdefault((float(level), name), []).append(error <= level / dimension)
    rows = []
    for (level, name), parts in hits.items():
        bound = float(bounds.mse_tail_sphere(level / dimension, dimension, sigma, 1.0))
        share = float(np.concatenate(parts).mean())
        error = math.sqrt(max(bound * (1 - bound), 1 / trials) / trials)
        rows.append((dimension, sigma, level, name, share, error, bound))
    return rows


@computes("beyond/unknown_scale", "O-009")
def unknown_scale(context: Context) -> Result:
    """The MSE with the scale estimated, over that with it known, for several input scales.

    To first order in sigma the rows keep the noise ``sigma^2 (||X||^2 + 1/a^2)`` (the bias takes
    its share of the gradient's norm) and the estimated scale has the relative error
    ``sigma sqrt(a^2 ||X||^2 + 1)``, which multiplies the whole record: with u = (a ||X||)^2 the
    price is ``1 + 1/u + (1 + u)/N``.
    """
    p = context.settings
    digits = datasets.digits()
    records = digits[context.rng("choice").integers(len(digits), size=p.records)]
    inputs = tensor(context, records)
    norms = as_numpy(inputs.norm(dim=1))
    dimension = records.shape[1]
    clipping = 1e-3 * float(norms.min())  # every gradient is clipped at every input scale
    rows_table = []
    for sigma in p.noise_multipliers:
        run = DPSGD(sigma, max_grad_norm=clipping)
        variance = (sigma * norms) ** 2
        for scaled_norm in p.scaled_norms:
            scale = scaled_norm / float(np.median(norms))
            observed = observe(
                inputs,
                run,
                context.generator(sigma, scaled_norm),
                rows=p.rows,
                bias=True,
                input_scale=scale,
            )
            ratio = metrics.mse(records, as_numpy(with_estimated_scale(observed))) / variance
            u = (scale * norms) ** 2
            first_order = 1 + 1 / u + (1 + u) / dimension
            residual = ratio - first_order
            rows_table.append(
                (
                    sigma,
                    scaled_norm,
                    float(np.median(ratio)),
                    float(first_order.mean()),
                    float(residual.mean() / (residual.std(ddof=1) / math.sqrt(len(residual)))),
                    float(sigma * np.sqrt(1 + u).max()),
                    float(np.mean(ratio > 4 * first_order)),
                )
            )
    table = pd.DataFrame(
        rows_table,
        columns=[
            "sigma",
            "a ||X||",
            "median ratio",
            "first order",
            "z-score",
            "scale error",
            "share above four times",
        ],
    )
    # second-order terms are of the size of the squared relative error of the scale
    small = table[table["scale error"] < 0.02]
    agrees = len(small) > 0 and bool((small["z-score"].abs() < 5).all())
    best = 1 / math.sqrt(dimension)
    price = float(table.loc[table["sigma"] == min(p.noise_multipliers), "first order"].min())
    high = table[table["sigma"] == max(p.noise_multipliers)]
    low = table[table["sigma"] == min(p.noise_multipliers)]
    at_low, at_high = (t.loc[t["first order"].idxmin()] for t in (low, high))
    low_share, high_share = at_low["share above four times"], at_high["share above four times"]
    measured = float(at_low["median ratio"])
    return Result(
        "beyond/unknown_scale",
        [
            check(
                "beyond/unknown_scale",
                agrees and low_share == 0 and high_share > 0.05 and price < 1.05 * (1 + best) ** 2,
                "a suitable input scale makes the unknown scale cheap at small sigma, until its "
                "estimate itself drowns in noise",
                ours=f"first-order price {price:.3f}, median {measured:.2f} at sigma = "
                f"{min(p.noise_multipliers):g}; more than four times that for none there and for "
                f"{high_share:.0%} at {max(p.noise_multipliers):g}",
                paper=f"known scale assumed; (1 + 1/sqrt(N))^2 = {(1 + best) ** 2:.3f}",
            ),
            check(
                "O-009",
                agrees,
                "the first-order price 1 + 1/u + (1 + u)/N is measured",
                ours=f"{len(small)} settings, largest deviation "
                f"{small['z-score'].abs().max():.1f} standard errors",
                tolerance="5 standard errors",
            ),
        ],
        {"price": table},
        ran=f"{p.records} digits (N = {dimension}), one DP-SGD step each through {p.rows} rows "
        "with bias, for each input scale and sigma.",
    )
