"""A layer that sends bits: one DP-SGD step copies a photograph that a linear layer leaves in noise.

Four layers without a prior at the same clipping norm and noise: the linear one of paper A, and one
with an offset, shrunken; the bits of every value; the same bits through a polar code. And two that
know how other photographs vary: the bits of transform coefficients, and these coefficients in a
linear layer, which tells the prior's gain from the code's.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from companion.exhibit import *
from reconrisk import DPSGD, attacks, bounds

_OURS = "our own exhibit"
#: that of paper A's Figure 1, and those of our Figure 6
_FIGURE_1, _FIGURE_6 = 5e-4, (1e-3, 4e-3, 3e-2)
_PAPER = (1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 1e-2, 3e-2)

PARAMETERS = {
    "pictures": Parameter("int", 1, 4, _OURS, "photographs rebuilt, of 8-bit values", 1),
    "others": Parameter("int", 7, 50, _OURS, "further photographs, for the prior", 2),
    "size": Parameter("int", 224, 224, _OURS, "pixels a side", 8),
    "light_noise": Parameter("float", _FIGURE_1, _FIGURE_1, _OURS, "sigma of Figure 1", 1e-12),
    "noise_multipliers": Parameter(
        "floats", _FIGURE_6, _PAPER, _OURS, "sigma of Figure 6, in increasing order", 1e-12
    ),
    "least_noise": Parameter("float", 1e-6, 1e-6, _OURS, "sigma of a control", 1e-12),
    "failure": Parameter("float", 1e-3, 1e-3, _OURS, "chance of a wrong bit, at most", 0),
}
SETTLES = ("O-070", "O-071", "O-072")
LINEAR, OFFSET, BITS, CODE = "X_hat", "offset", "bits", "coded"
TRANSFORM, PRIOR = "transform", "linear with the prior"
PHOTOGRAPHS = True

#: how near the bits' measured MSE must come to its exact expectation, relative
_MARGIN = 0.1
#: energies of a value, in units of the noise's variance, that count as high and as low
_HIGH, _LOW = 10, 1
#: the prior is worth at least this factor in the MSE
_WORTH = 0.75
#: an MSE of copies without a wrong bit: single-precision rounding
_EXACT = 1e-12

ALTERED = {
    "errors": {
        "MSE": (
            by("layer", "errors"),
            at(f"layer == '{BITS}'", "errors of bits"),
        ),
    }
}
SCENARIOS = (
    scenario(
        "one wrong value in every coded copy",
        column("errors", "wrong values", lambda c: c + 1, f"layer == '{CODE}'"),
        "O-071",
    ),
    scenario(
        "one bit of eight left out by the code",
        column("errors", "bits of a value", lambda c: c * 7 / 8, f"layer == '{CODE}'"),
        "O-071",
    ),
)

Prior = attacks.TransformPrior
Copy = tuple[torch.Tensor, dict[str, float]]


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    # the pixels' format: 256 levels
    loaded = np.round(255 * photographs(study, p.size, p.pictures + p.others)) / 255
    originals, others = loaded[: p.pictures], loaded[p.pictures :]
    prior = attacks.transform_prior(others)
    images, rows, constants = {}, [], []
    for index, original in enumerate(originals):
        images[f"{index} original"] = original
        for name, constant in (("grey", 0.5), ("mean of the others", others.mean(axis=0))):
            constants.append((index, name, float(np.mean((original - constant) ** 2))))
        for sigma in (p.least_noise, p.light_noise, *p.noise_multipliers):
            for layer, copied in LAYERS.items():
                rebuilt, found = copied(study, index, original, sigma, prior)
                picture_of = as_numpy(rebuilt).reshape(original.shape)
                images[f"{index} {sigma:g} {layer}"] = picture_of
                mse, error = mean_and_error((picture_of - original) ** 2)
                row = {"picture": index, "sigma": sigma, "layer": layer, "MSE": mse}
                rows.append({**row, "standard error": error, **found})
    return Tables(
        {
            "errors": pd.DataFrame(rows),
            "constants": pd.DataFrame(constants, columns=["picture", "constant", "MSE"]),
        },
        images=images,
        ran=f"{p.pictures} photograph(s) of {p.size}x{p.size}x3 values of 8 bits, one DP-SGD step "
        f"for each layer and sigma; the prior from {p.others} others.",
    )


def _linear(study: Context, index: int, original: np.ndarray, sigma: float, _: Prior) -> Copy:
    """Paper A's attack with known scale: X_hat."""
    inputs, noise = tensor(study, original[None]), study.generator(index, sigma, "linear")
    rebuilt = attacks.known_scale(attacks.observe(inputs, DPSGD(sigma), noise))
    clipped = float(((rebuilt.clamp(0, 1) - inputs) ** 2).mean())
    expected = float(bounds.expected_mse(sigma, np.linalg.norm(original)))
    return rebuilt, {"expected MSE": expected, "MSE in [0, 1]": clipped}


def _offset(study: Context, index: int, original: np.ndarray, sigma: float, _: Prior) -> Copy:
    """A linear layer without a prior: fed the difference from grey, and shrunken."""
    inputs, noise = tensor(study, original[None]), study.generator(index, sigma, "offset")
    grey = torch.full_like(inputs[0], 0.5)
    seen = attacks.known_scale(attacks.observe(inputs, DPSGD(sigma), noise, offset=grey))
    spread = np.linalg.norm(original - 0.5)
    expected = float(bounds.expected_mse_shrunk(original.size, sigma, spread))
    return grey + attacks.shrink(seen - grey, sigma), {"expected MSE": expected}


def _bits(study: Context, index: int, original: np.ndarray, sigma: float, _: Prior) -> Copy:
    """Every bit by itself."""
    inputs, noise = tensor(study, original[None], torch.float32), study.generator(index, sigma, "b")
    energies = attacks.bit_energies(1 / (original.size * sigma**2))
    expected = attacks.expected_mse_of_bits(energies, original)
    return attacks.bits_attack(inputs, DPSGD(sigma), noise), {"expected MSE": expected}


def _coded(study: Context, index: int, original: np.ndarray, sigma: float, _: Prior) -> Copy:
    """As many bits as a polar code carries, the most significant of all values first."""
    inputs, noise = tensor(study, original[None], torch.float32), study.generator(index, sigma, "c")
    failure = study.parameters.failure
    rebuilt, code = attacks.coded_attack(inputs, DPSGD(sigma), noise, failure=failure)
    bits = attacks.pixel_bits(inputs).flatten(-2)
    bits[:, 0 if code is None else code.bits :] = 0.5
    without_error = attacks.pixels_from_bits(bits.unflatten(-1, (8, -1)))
    return rebuilt, {
        "expected MSE": float(((without_error - inputs) ** 2).mean()),
        "bits of a value": min(8.0, 0.0 if code is None else code.bits / original.size),
        "wrong values": int(((rebuilt - without_error).abs() > 1e-5).sum()),
        "chance of an error": 0.0 if code is None else code.error_bound,
    }


def _transform(
    study: Context, index: int, original: np.ndarray, sigma: float, prior: Prior
) -> Copy:
    """As many bits of transform coefficients as a polar code carries: with a prior."""
    inputs = torch.as_tensor(original[None], dtype=torch.float32, device=study.device)
    noise, failure = study.generator(index, sigma, "t"), study.parameters.failure
    run = DPSGD(sigma)
    rebuilt, code = attacks.transform_attack(inputs, run, noise, prior, failure=failure)
    return rebuilt, {
        "bits of a value": 0.0 if code is None else code.bits / original.size,
        "chance of an error": 0.0 if code is None else code.error_bound,
    }


def _linear_prior(
    study: Context, index: int, original: np.ndarray, sigma: float, prior: Prior
) -> Copy:
    inputs = torch.as_tensor(original[None], dtype=torch.float64, device=study.device)
    noise = study.generator(index, sigma, "p")
    return attacks.linear_transform_attack(inputs, DPSGD(sigma), noise, prior), {}


LAYERS = {
    LINEAR: _linear,
    OFFSET: _offset,
    BITS: _bits,
    CODE: _coded,
    TRANSFORM: _transform,
    PRIOR: _linear_prior,
}


def judge(tables: Tables) -> Iterator[Verdict]:
    yield from _judge_bits(tables)
    yield _judge_code(tables)
    yield _judge_prior(tables)


def _judge_bits(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    bits, linear, offset = (_of(tables, layer) for layer in (BITS, LINEAR, OFFSET))
    # below Figure 1's noise wrong bits are too rare to be counted
    sums = bits[bits.index.get_level_values("sigma") >= p.light_noise].groupby("sigma").sum()
    sums = sums[sums["expected MSE"] > len(bits) * _EXACT]
    error = np.sqrt((bits["standard error"] ** 2).groupby("sigma").sum())[sums.index]
    expected = sums["expected MSE"]
    agrees = within(sums["MSE"] / expected, 1, error / expected, _MARGIN)
    x_hat = linear[["MSE", "MSE in [0, 1]"]].min(axis=1)
    energy = 1 / (3 * p.size**2 * bits.index.get_level_values("sigma") ** 2)
    less = (bits["MSE"] < np.minimum(offset["MSE"], x_hat))[energy > _HIGH].all()
    more = (bits["MSE"] > offset["MSE"])[energy < _LOW].all()
    at = p.light_noise
    verdict = check(
        "O-070",
        every(bool(less and more), agrees),
        ours=f"at sigma = {at:g} {_mean(bits, at):.1e}, X_hat {_mean(linear, at):.1e}, offset and "
        f"shrunken {_mean(offset, at):.1e}",
        paper="X_hat is optimal (Theorem 1)",
        tolerance=f"{_MARGIN:.0%} of the expected error, errors included",
        stand_in=tables.stand_in,
    )
    yield from shared_by(verdict, "beyond/bit_layer")


def _judge_code(tables: Tables) -> Verdict:
    p, table = tables.parameters, tables["errors"]
    coded = table[table["layer"] == CODE]
    light = coded[coded["sigma"] <= p.light_noise]
    heavy = coded[coded["sigma"] > p.light_noise]
    return check(
        "O-071",
        bool(
            (coded["wrong values"] == 0).all()
            and (coded["chance of an error"] <= p.failure).all()
            and (light["bits of a value"] == 8).all()
            and (light["MSE"] < _EXACT).all()
        ),
        ours=f"MSE {light['MSE'].max():.0e}; at sigma = {heavy['sigma'].min():g} "
        f"{heavy['bits of a value'].max():.1f} bits of a value",
        tolerance=f"no wrong value, MSE below {_EXACT:g}",
        stand_in=tables.stand_in,
    )


def _judge_prior(tables: Tables) -> Verdict:
    table = tables["errors"][tables["errors"]["sigma"] > tables.parameters.light_noise]
    knowing = table["layer"].isin([TRANSFORM, PRIOR])
    best = table[~knowing].groupby(["picture", "sigma"])["MSE"].min()
    constant = tables["constants"].groupby("picture")["MSE"].min()
    best = best.combine(constant.reindex(best.index, level="picture"), min)
    best = best[best > _EXACT]  # nothing is below an exact copy
    code, linear = (_of(tables, layer)["MSE"].loc[best.index] for layer in (TRANSFORM, PRIOR))
    gain = (code / linear).groupby("sigma").mean()
    return check(
        "O-072",
        bool(
            (pd.concat([code, linear]) < _WORTH * pd.concat([best, best])).all()
            and gain.iloc[0] < _WORTH
            and gain.iloc[-1] > 1
        ),
        ours=f"linear {(linear / best).min():.2g} to {(linear / best).max():.2g} of the best "
        f"without a prior; the code {', '.join(f'{of:.2g}' for of in gain)} of the linear layer at "
        f"sigma = {', '.join(f'{sigma:g}' for sigma in gain.index)}",
        tolerance=f"below {_WORTH:g} of the next best",
        stand_in=tables.stand_in,
    )


def _of(tables: Tables, layer: str) -> pd.DataFrame:
    """The rows of one layer by picture and sigma, without the control."""
    table = tables["errors"]
    own = table[(table["layer"] == layer) & (table["sigma"] > tables.parameters.least_noise)]
    return own.set_index(["picture", "sigma"]).sort_index()


def _mean(rows: pd.DataFrame, sigma: float) -> float:
    return float(rows.xs(sigma, level="sigma")["MSE"].mean())


def _shown(tables: Tables, layer: str, sigma: float) -> str:
    """The error of the first picture's copy as it is shown, in [0, 1]."""
    row = _of(tables, layer).loc[0, sigma]
    error = row["MSE in [0, 1]"] if layer == LINEAR else row["MSE"]
    return "exact" if error < _EXACT else f"MSE {error:.2g}"


_SHOWN = {
    LINEAR: "linear",
    BITS: "bits",
    CODE: "coded bits",
    TRANSFORM: "coded, a prior",
    PRIOR: "linear, a prior",
}


def caption(tables: Tables) -> str:
    p = tables.parameters
    coded = _of(tables, CODE)
    energy = 1 / (3 * p.size**2 * p.light_noise**2)
    return (
        "One photograph, one DP-SGD step a picture, the same clipping norm; sigma grows downwards "
        f"from Figure 1's, {p.light_noise:g}, where a value has the energy {energy:.0f}. The "
        "architecture alone differs: a linear layer (X_hat, clipped to [0, 1]), a layer that sends "
        "every bit of every value, one that sends them through a polar code "
        f"({', '.join(f'{b:.2g}' for b in coded['bits of a value'].xs(0, level='picture'))} bits "
        "of a value), one that sends transform coefficients through the code, and a linear one "
        "that is fed them. The last two know how other photographs vary; the others know only that "
        "values have 8 bits."
    )


def alt(tables: Tables) -> str:
    p = tables.parameters
    told = "; ".join(
        f"at sigma {sigma:g} " + ", ".join(_shown(tables, layer, sigma) for layer in _SHOWN)
        for sigma in (p.light_noise, *p.noise_multipliers)
    )
    return (
        f"{1 + len(p.noise_multipliers)} rows of six pictures: original, "
        f"{'; '.join(_SHOWN.values())}. In the first row the linear copy is grainy and the coded "
        "one cannot be told from the original. Further down the linear copy and the bits drown in "
        "noise while both layers with the prior keep the scene, ever more blurred. Mean squared "
        f"errors (MSE) in that order: {told}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    p = tables.parameters
    sigmas = (p.light_noise, *p.noise_multipliers)
    figure, axes = panels(len(sigmas), 1 + len(_SHOWN), 1.8, 2.05)
    for row, sigma in zip(axes, sigmas, strict=True):
        picture(row[0], tables.images["0 original"], r"original;" + "\n" + rf"$\sigma$ = {sigma:g}")
        for axis, (layer, name) in zip(row[1:], _SHOWN.items(), strict=True):
            error = f"{name},\n{_shown(tables, layer, sigma)}"
            picture(axis, tables.images[f"0 {sigma:g} {layer}"], error)
    return figure
