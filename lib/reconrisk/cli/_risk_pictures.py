"""Figures of a risk report: success against the prior and the noise, quality of the attack."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reconrisk import bounds, risk
from reconrisk.plotting import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, styled
from reconrisk.risk._composed import composed_numerically, success_at
from reconrisk.risk._judgement import PICTURE_SIDE, picture_words, thumbnail_psnr

__all__ = ["Example", "Picture", "examples", "pictures"]

#: smallest prior success that is drawn
_LEAST_PRIOR = 1e-9
_PRIOR_POINTS = 61
#: largest factor on the noise, and number of factors
_NOISE_FACTOR, _NOISE_POINTS = 8.0, 15
#: fewest values of a record that is shown as a picture
_LEAST_PICTURE = 64
_COLOURS, _STYLES = (BLUE, ORANGE, GREEN, PURPLE), ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Picture:
    """One figure of a report, with its title, caption and alternative text."""

    title: str
    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True)
class Example:
    """A drawn picture under the noise of a reconstruction, as PNG, with its words."""

    png: bytes
    caption: str
    alt: str


def examples(report: risk.Report) -> tuple[Example, ...]:
    """Draw what the analytic attack leaves of a picture, beside known amounts of noise.

    Parameters
    ----------
    report : risk.Report

    Returns
    -------
    tuple of Example
        Without dimension, norm or range, and of no picture: none. A drawn face stands for the
        record, at its own size, or averaged to the thumbnail that the judgement speaks of; the
        noise is white, as the attack's is.
    """
    entry, size = report["psnr"], report.record.dimension
    if not report.record.picture or entry.value is None or size is None or size < _LEAST_PICTURE:
        return ()
    side = min(PICTURE_SIDE, math.isqrt(size))
    seen = thumbnail_psnr(entry.value, size)
    what = f"{side} x {side} values"
    found = [Example(_png(_face(side)), f"A drawn face, {what}", "A drawn face.")]
    for level in (20.0, 10.0, 3.0):
        verdict, _ = picture_words(level)
        png = _png(_noisy(side, level))
        found.append(Example(png, f"{level:.0f} dB: {verdict}", f"The face at {level:.0f} dB."))
    own = f"This run, {seen:.1f} dB: {picture_words(seen)[0]}"
    found.append(Example(_png(_noisy(side, seen)), own, f"The face as this run leaves it: {own}."))
    return tuple(found)


def _face(side: int) -> np.ndarray:
    """A face of two eyes, a nose and a mouth, values from 0 to 1."""
    y, x = (np.mgrid[:side, :side] + 0.5) / side - 0.5

    def disc(cx: float, cy: float, rx: float, ry: float) -> np.ndarray:
        distance = np.hypot((x - cx) / rx, (y - cy) / ry)
        return 1.0 / (
            1.0 + np.exp(np.clip((distance - 1.0) * 4.0 * side * min(rx, ry), -40.0, 40.0))
        )

    face = 0.25 + 0.6 * disc(0.0, 0.03, 0.34, 0.43)
    face -= 0.55 * disc(0.0, -0.36, 0.36, 0.16)  # hair
    for sign in (-1.0, 1.0):
        face -= 0.6 * disc(0.14 * sign, -0.06, 0.07, 0.045)
    face -= 0.2 * disc(0.0, 0.09, 0.035, 0.08)
    face -= 0.5 * disc(0.0, 0.26, 0.15, 0.04)
    return np.clip(face, 0.0, 1.0)


def _noisy(side: int, psnr: float) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((side, side))
    return np.clip(_face(side) + min(10.0 ** (-psnr / 20.0), 1e6) * noise, 0.0, 1.0)


def _png(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    plt.imsave(buffer, values, cmap="gray", vmin=0.0, vmax=1.0, format="png", metadata={})
    return buffer.getvalue()


def pictures(report: risk.Report) -> tuple[Picture, ...]:
    """Draw the two or three figures that a report's run allows.

    Parameters
    ----------
    report : risk.Report

    Returns
    -------
    tuple of Picture
        Success of any attack against the prior success; success against the noise; and, where the
        record's dimension and norm are known, the distribution of the analytic attack's error. The
        figures are closed: pyplot no longer holds them.

    Notes
    -----
    Cost: about twenty certified successes, half a second at most.
    """
    with plt.style.context("default"), styled():  # whatever the host's matplotlibrc asks for
        drawn = [_success(report), _noise(report), _analytic_quality(report)]
    return tuple(picture for picture in drawn if picture is not None)


def _panel() -> tuple[Figure, Axes]:
    figure, ((axes,),) = panels(1, 1, 4.2, 3.1)
    plt.close(figure)
    return figure, axes


# Success against the prior -----------------------------------------------------------------------


def _curve(run: risk.TrainingRun, kappa: np.ndarray) -> np.ndarray:
    """Certified upper bounds on the success of any attack."""
    if isinstance(run.guarantee, bounds.Releases):
        return run.guarantee.successes(kappa)
    if not composed_numerically(run) or run.guarantee is not None:
        return np.array([success_at(run, math.log(k)).upper for k in kappa])
    if run.mechanism == "gaussian":
        return bounds.rero_curve(run.releases, kappa)[1]
    assert run.concentration is not None and run.parameters is not None
    noise = run.concentration, run.parameters
    if run.steps == 1 and run.sampling_rate == 1.0:
        return np.asarray(bounds.rero_vmf_one_release(*noise, kappa), dtype=float)
    return bounds.rero_vmf_curve(*noise, kappa, sampling_rate=run.sampling_rate, steps=run.steps)[1]


def _success(report: risk.Report) -> Picture | None:
    kappa = np.geomspace(_LEAST_PRIOR, 0.9, _PRIOR_POINTS)
    try:
        gamma = _curve(report.run, kappa)
    except ValueError:  # out of range: the report's entries give the reason
        return None
    figure, axes = _panel()
    axes.plot(kappa, gamma, color=BLUE, label="after seeing the run")
    axes.plot(kappa, kappa, ":", color=GREY, label="blind guess")
    sizes = [n for n in report.questions.prior_sizes if n <= 1 / _LEAST_PRIOR]
    asked = 1.0 / np.array(sizes, dtype=float)
    axes.plot(asked, np.interp(np.log(asked), np.log(kappa), gamma), "o", color=ORANGE, ms=5)
    axes.set(xscale="log", yscale="log", xlabel="chance of a blind guess", ylabel="success")
    axes.set_ylim(0.5 * _LEAST_PRIOR, 2.0)
    axes.legend(loc="lower right")
    at = int(np.argmin(np.abs(kappa - 1e-3)))
    return Picture(
        "What any attack can gain",
        figure,
        "The most that the chance of naming the right candidate can rise to, for every prior "
        "chance at once. Read as a test of membership, the horizontal axis is the rate of false "
        "alarms and the vertical one that of members found. Dots: the numbers of candidates asked.",
        f"A curve above the dotted diagonal of blind guessing: a chance of 1 in 1000 rises to "
        f"{gamma[at]:.2g} at most, one of nine in ten to {gamma[-1]:.2g}.",
    )


#: most phases whose success is drawn for other noises, too
_MOST_PHASES = 3

# Success against the noise -----------------------------------------------------------------------


def _noise(report: risk.Report) -> Picture | None:
    run = report.run
    if run.guarantee is not None or len(run.phases) > _MOST_PHASES:
        return None
    name = "noise_multiplier" if run.mechanism == "gaussian" else "concentration"
    here = float(getattr(run, name))
    values = here * np.geomspace(1 / _NOISE_FACTOR, _NOISE_FACTOR, _NOISE_POINTS)
    sizes = sorted(n for n in report.questions.prior_sizes if n <= 1 / _LEAST_PRIOR)[
        : len(_COLOURS)
    ]
    if not sizes:
        return None
    kappa = 1.0 / np.array(sizes, dtype=float)
    rows = []
    for value in values:
        try:
            other: dict[str, Any] = {name: float(value)}
            noisier = run.with_noise(value) if run.phases else replace(run, **other)
            rows.append((value, _curve(noisier, kappa)))
        except ValueError:  # out of range for this mechanism: draw the other values
            continue
    if len(rows) < 2:
        return None
    at, gamma = np.array([v for v, _ in rows]), np.array([g for _, g in rows])
    figure, axes = _panel()
    for i, size in enumerate(sizes):
        axes.plot(at, gamma[:, i], _STYLES[i], color=_COLOURS[i], label=_count(size))
    axes.axvline(here, color=GREY, lw=1, ls=":")
    axes.annotate("this run", (here, 1.0), xycoords=("data", "axes fraction"), ha="center",
                  va="bottom", fontsize=8.5, color=GREY)  # fmt: skip
    words = name.replace("_", " ")
    axes.set(xscale="log", yscale="log", xlabel=words, ylabel="success")
    axes.set_ylim(min(0.5 * float(gamma.min()), 0.1), 2.0)
    marks = [here * 2.0**power for power in (-3, -1.5, 0, 1.5, 3)]
    axes.set_xticks(marks, [_two_digits(mark) for mark in marks])
    axes.minorticks_off()
    axes.legend(loc="best", title="candidates", title_fontsize=8.5)
    return Picture(
        f"Where this run stands as its {words} varies",
        figure,
        "Success of any attack that has a list of candidates, with everything else as in this run. "
        "Dotted: this run.",
        f"Curves over the {words}, one for each number of candidates: with {_count(sizes[0])} the "
        f"most that any attack can reach goes from {gamma[0, 0]:.2g} to {gamma[-1, 0]:.2g}.",
    )


def _two_digits(value: float) -> str:
    rounded = float(f"{value:.2g}")
    plain = 1e-4 <= rounded < 1e6
    return np.format_float_positional(rounded, trim="-") if plain else f"{rounded:g}"


def _count(size: float) -> str:
    return f"{int(size):,}"


# How likely a quality is --------------------------------------------------------------------------

#: probabilities below ten to this power are not drawn
_LEAST_LOG10 = -40.0


_Law = Callable[[np.ndarray], np.ndarray]


def _dense_grid(laws: Sequence[_Law], low: float, high: float) -> np.ndarray:
    """Return points at which to draw decreasing log10 probabilities, dense where they fall.

    The higher the dimension, the steeper they are: for a photograph they fall within a tenth of a
    decibel.
    """
    ends = []
    for law in laws:
        top = float(law(np.array([low]))[0])
        ends += [_crossing(law, level, low, high) for level in (top - 0.01, _LEAST_LOG10)]
    pad = 0.3 * (max(ends) - min(ends)) + 1e-9
    falls = zip(ends[::2], ends[1::2], strict=True)
    parts = [np.linspace(max(min(ends) - pad, low), max(ends) + 0.1 * pad, 41)]
    return np.unique(np.concatenate(parts + [np.linspace(a, b, 61) for a, b in falls]))


def _crossing(law: _Law, level: float, low: float, high: float) -> float:
    """Where a decreasing law reaches a level, to a ten-thousandth of the first interval."""
    for _ in range(3):
        grid = np.linspace(low, high, 25)
        below = int(np.argmax(law(grid) < level))
        low, high = float(grid[max(below - 1, 0)]), float(grid[below])
    return high


def _analytic_quality(report: risk.Report) -> Picture | None:
    """The analytic attack's PSNR, or its MSE where the range of values is unknown."""
    run, record = report.run, report.record
    if (
        run.mechanism != "gaussian"
        or run.phases
        or record.dimension is None
        or record.data_norm is None
    ):
        return None
    span = 1.0 if record.data_range is None else record.data_range
    single = dict(
        dimension=record.dimension,
        noise_multiplier=run.effective_noise,
        data_norm=record.data_norm,
        data_range=span,
    )
    whole = dict(single, steps=run.steps, selection_probability=run.sampling_rate)
    laws: tuple[_Law, _Law] = (
        lambda x: bounds.psnr_tail_sampled(x, **whole, log=True) / math.log(10.0),
        lambda x: bounds.psnr_tail(x, **single, log=True) / math.log(10.0),
    )
    try:
        centre = float(bounds.expected_psnr(**single))
        most = 10.0 * math.log10(max(1.0, run.steps * run.sampling_rate))
        grid = _dense_grid(laws, centre - 25.0, centre + most + 25.0)
        all_steps, one = (law(grid) for law in laws)
    except ValueError:  # out of range: the report's entries give the reason
        return None
    drawn = (all_steps > _LEAST_LOG10) | (one > _LEAST_LOG10)
    figure, axes = _panel()
    known = record.data_range is not None
    x = grid if known else 10.0 ** (-grid / 10.0)
    shown = [p for p in report.questions.psnr if x[drawn].min() <= p <= x[drawn].max()]
    asked = shown if known else []
    axes.plot(x[drawn], all_steps[drawn], color=BLUE, label="whole run")
    axes.plot(x[drawn], one[drawn], "--", color=ORANGE, label="one step")
    if known:
        axes.set_xlabel("PSNR of at least, dB")
        for threshold in asked:
            axes.axvline(threshold, color=GREY, lw=1, ls=":")
    else:
        axes.set(xscale="log", xlabel="mean squared error of at most")
    axes.set(ylim=(_LEAST_LOG10, 2.0), ylabel="probability, as a power of ten")
    axes.legend(loc="best")
    quality = "peak signal-to-noise ratio" if known else "mean squared error"
    return Picture(
        "How good the analytic attack gets",
        figure,
        f"How likely an attacker without prior knowledge is to reach a {quality}, by averaging "
        "what the steps give away, and from one step that took the record. This is the law of one "
        "attack, not a bound on all." + (" Dotted: what is asked about." if asked else ""),
        f"Two falling curves of probability over the {quality}: near certainty on one side, below "
        f"ten to the power {_LEAST_LOG10:.0f} on the other; the whole run's reaches further.",
    )
