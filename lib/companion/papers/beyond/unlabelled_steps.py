"""Steps without labels: copies matched by clustering, and the noise at which that fails.

The noise at which principal components vanish limits clustering of the releases as they are.
Whoever knows that photographs are smooth filters them first, and gets further.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy import fft
from scipy.optimize import linear_sum_assignment

from companion.exhibit import *
from reconrisk import DPSGD, attacks

_OURS = "our own exhibit"
_NOISES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4)

PARAMETERS = {
    "records": Parameter("int", 8, 8, _OURS, "|D|, photographs; the attacker knows how many", 2),
    "size": Parameter("int", 32, 64, _OURS, "pixels a side", 8),
    "steps": Parameter("ints", (100, 400), (100, 400, 1600), _OURS, "T, each of one record", 2),
    "noises": Parameter("floats", _NOISES, _NOISES, _OURS, "sigma over its limit", 1e-12),
    "repeats": Parameter("int", 3, 20, _OURS, "runs at each noise", 2),
}
SETTLES = ("O-073",)
ALTERED = {
    "matching": {
        "share matched": by("T", "shares matched", where="`sigma over limit` >= 1"),
        "share after a filter": "shares matched after a filter",
        "MSE matched": "errors of matched averages",
        "sigma over limit": "noises over the limit",
    }
}
PHOTOGRAPHS = True

#: noises count as these shares of the limit up to this factor
_NEAR = 1.1
#: up to this share of the limit clustering finds every step's record, or nearly
_EASY, _NEARLY = 0.2, 0.98
#: averages are as good as with labels up to this factor
_AS_GOOD = 1.05
#: between numbers of steps the noise that fails, over the limit, differs by less than this factor
_SAME = 1.25
#: half of what chance leaves is matched between these shares of the limit
_HALF = (0.5, 0.8)
#: from the limit on, the share of steps is no more above chance than this
_CHANCE = 0.08
#: at the limit filtered releases match more above chance than this
_FILTERED = 0.2
#: frequencies that the filter keeps, along either side
_KEPT = 4


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    pictures = photographs(study, p.size, p.records).reshape(p.records, -1)
    records = tensor(study, pictures)
    # no gradient is clipped: a release is the record under noise of standard deviation C sigma
    clipping = float(np.linalg.norm(pictures, axis=1).max())
    rows = []
    for steps in p.steps:
        limit = attacks.matching_limit(pictures, steps) / clipping
        for noise in p.noises:
            run = DPSGD(noise * limit, max_grad_norm=clipping)
            for repeat in range(p.repeats):
                rng = study.rng(steps, noise, repeat)
                drawn = rng.integers(p.records, size=steps)
                generator = study.generator(steps, noise, repeat)
                released = attacks.unscaled(attacks.observe(records[drawn], run, generator))
                found = attacks.match_steps(released, p.records, rng)
                by_chance = rng.permutation(found)
                smooth = attacks.match_steps(low_pass(released, p.size), p.records, rng)
                averages = {
                    "matched": attacks.average_matched(released, found, p.records),
                    "with labels": attacks.average_matched(released, drawn, p.records),
                    "all": released.mean(dim=0).expand_as(records),
                }
                rows.append(
                    {
                        "T": steps,
                        "sigma over limit": noise,
                        "sigma": noise * limit,
                        "share matched": _share(found, drawn, p.records),
                        "share after a filter": _share(smooth, drawn, p.records),
                        "share by chance": _share(by_chance, drawn, p.records),
                        **{f"MSE {k}": _mse(as_numpy(v), pictures) for k, v in averages.items()},
                        "MSE of one release": (noise * limit * clipping) ** 2,
                    }
                )
    return Tables(
        {"matching": pd.DataFrame(rows)},
        ran=f"{p.records} photographs of {p.size}x{p.size}x3 values, one drawn in each of "
        f"{' or '.join(map(str, p.steps))} real DP-SGD steps, {p.repeats} runs at each noise.",
    )


def low_pass(released: torch.Tensor, size: int) -> torch.Tensor:
    """Return the lowest frequencies of the brightness of pictures in noise, (T, 16)."""
    grey = as_numpy(released.reshape(len(released), size, size, -1).mean(dim=-1))
    spectrum = fft.dctn(grey, axes=(1, 2), norm="ortho")[:, :_KEPT, :_KEPT]
    return torch.as_tensor(spectrum.reshape(len(released), -1))


def _share(found: np.ndarray, drawn: np.ndarray, records: int) -> float:
    """Share of steps in their record's cluster, clusters named as favourably as can be."""
    together_in = np.zeros((records, records))
    np.add.at(together_in, (found, drawn), 1)
    return float(together_in[linear_sum_assignment(-together_in)].sum() / len(drawn))


def _mse(averages: np.ndarray, records: np.ndarray) -> float:
    """MSE per value of averages against the records, named as favourably as can be."""
    errors = ((averages[:, None] - records) ** 2).mean(axis=-1)
    return float(errors[linear_sum_assignment(errors)].mean())


def judge(tables: Tables) -> Iterator[Verdict]:
    mean = _means(tables)
    noise = mean.index.get_level_values("sigma over limit")
    easy, beyond = mean[noise <= _EASY * _NEAR], mean[noise >= 1 / _NEAR]
    ratio = easy["MSE matched"] / easy["MSE with labels"]
    gain = (easy["MSE of one release"] / easy["MSE matched"]).max()
    above = beyond["share matched"] - beyond["share by chance"]
    at_limit = beyond.groupby("T").head(1)
    filtered = at_limit["share after a filter"] - at_limit["share by chance"]
    halves = [_half(mean.loc[steps]) for steps in mean.index.unique("T")]
    last = easy["sigma"].groupby("T").max()
    verdict = check(
        "O-073",
        bool(
            (easy["share matched"] > _NEARLY).all()
            and (ratio < _AS_GOOD).all()
            and (above < _CHANCE).all()
            and max(halves) < _SAME * min(halves)
            and _HALF[0] < min(halves)
            and max(halves) < _HALF[1]
            and (filtered > _FILTERED).all()
        ),
        ours=f"all is matched at sigma = {', '.join(f'{s:.2g} (T = {t})' for t, s in last.items())}"
        f", and averaging divides the error by {gain:.0f}; half is at "
        f"{', '.join(f'{half:.2f}' for half in halves)} of the limit; at the limit "
        f"{', '.join(f'{share:.2f}' for share in at_limit['share after a filter'])} of the steps "
        "after a filter",
        tolerance=f"{_NEARLY:.0%} of steps, {_AS_GOOD - 1:.0%} in the MSE, {_CHANCE:g} above "
        f"chance, {_FILTERED:g} after a filter, a factor of {_SAME:g} between numbers of steps",
        stand_in=tables.stand_in,
    )
    yield from shared_by(verdict, "beyond/unlabelled_steps")


def _means(tables: Tables) -> pd.DataFrame:
    return tables["matching"].groupby(["T", "sigma over limit"]).mean()


def _half(own: pd.DataFrame) -> float:
    """Noise over its limit at which half of what chance leaves is matched, one T."""
    known = (own["share matched"] - own["share by chance"]) / (1 - own["share by chance"])
    return float(np.interp(-0.5, -known, own.index))


CAPTION = (
    "Left: share of steps that clustering assigns to their record (dotted: by chance), over the "
    "noise in units of that at which the releases' principal components vanish in it; green: after "
    "a low-pass filter. Right: "
    "error of the averages, with labels, matched, and of the mean of all releases, which is what "
    "remains to an attacker who cannot tell the steps apart. One release alone is off the scale."
)


@drawing
def draw(tables: Tables) -> Figure:
    mean = _means(tables)
    figure, ((left, right),) = panels(1, 2, 4.2, 3.2)
    styles = ("-", "--", "-.")
    for index, (steps, own) in enumerate(mean.groupby("T")):
        rows, style = own.droplevel("T"), styles[index % len(styles)]
        left.plot(rows["share matched"], style, color=BLUE, marker="o", ms=4, label=f"T = {steps}")
        smooth = rows["share after a filter"]
        left.plot(smooth, style, color=GREEN, marker="s", ms=4, label=f"filtered, T = {steps}")
        left.plot(rows["share by chance"], ":", color=GREY)
        for name, colour in (("with labels", GREY), ("matched", BLUE), ("all", ORANGE)):
            right.plot(rows[f"MSE {name}"], style, color=colour, label=f"{name}, T = {steps}")
    left.set(xlabel=r"$\sigma$ over its limit", ylabel="share of steps matched", ylim=(0, 1.05))
    right.set(xlabel=r"$\sigma$ over its limit", ylabel="MSE", yscale="log")
    left.legend()
    right.legend()
    return figure
