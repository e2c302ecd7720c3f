"""The best possible attack under sub-sampling, beside the paper's Algorithms 2 and 3."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special as sc

from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.verdicts import STANDARD_ERRORS, rounded, within
from companion.style import BOUND, GREY, SCORES, drawing, panels
from reconrisk import DPSGD, bounds, privacy

_PRINTED = "not stated (axis of Figure 4)"
_EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_PAPER_EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0)

PARAMETERS = {
    "epsilons": Parameter("floats", _EPSILONS, _PAPER_EPSILONS, _PRINTED, "epsilon", 1e-3),
    "sampling_rate": Parameter("float", 0.02, 0.02, "0.02", "q", 1e-9),
    "steps": Parameter("int", 1000, 1000, "1,000", "T", 2),
    "prior_size": Parameter("int", 10, 10, "10", "n", 2),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-300),
    "trials": Parameter("int", 40_000, 400_000, "10,000 models", "simulated attacks", 500),
}
SETTLES = ("O-022",)

_EXCHANGED: dict[str, str] = {"likelihood": "Algorithm 3", "Algorithm 3": "likelihood"}
#: how near a success simulated step by step must be, its error included
MARGIN = 0.05
#: shares of the bound's excess over 1/n: at least of the likelihood, at most of Algorithm 3's least
MOST, THIRD = 0.8, 0.4
FALSIFIERS = (
    graded(
        "a likelihood that succeeds {} less often",
        column("success", "likelihood", lambda c, by: c * (1 - by)),
        *("", "O-022"),
    ),
    world(
        "the likelihood and Algorithm 3 exchanged",
        frame("success", lambda t: t.rename(columns=_EXCHANGED)),
        *("", "O-022"),
    ),
    world(
        "Algorithm 3 no worse than Algorithm 2 at the smallest epsilon",
        column(
            "success", "Algorithm 3", lambda c: 0.145, lambda t: t["epsilon"] == t["epsilon"].min()
        ),
    ),
    graded(
        "an Algorithm 3 that succeeds {} more often",
        column("success", "Algorithm 3", lambda c, by: c * (1 + by)),
        *("", "O-022"),
    ),
    graded(
        "a bound {} lower",
        column("success", "bound", lambda c, by: c * (1 - by)),
        *("", "O-022"),
    ),
    graded(
        "simulations that succeed {} more often",
        column("step by step", "simulated", lambda c, by: c + by),
        "O-022",
        unit="",
    ),
)
_SCORES = ("likelihood", "Algorithm 2", "Algorithm 3")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    n, q, steps = p.prior_size, p.sampling_rate, p.steps
    top = _top(study)
    # a candidate that was not there: in units of the noise the same at every epsilon
    rng = study.rng("others")
    sizes = [min(4000, p.trials - start) for start in range(0, p.trials, 4000)]
    others = [largest_normals(rng, (size, n - 1), steps, top) for size in sizes]
    best_other = np.concatenate([own.sum(axis=2).max(axis=1) for own in others])
    rng = study.rng("targets")
    count = rng.binomial(steps, q, p.trials)
    absent = largest_normals(rng, (p.trials,), (steps - count)[:, None], top)
    present = rng.standard_normal((p.trials, count.max()))
    present[np.arange(count.max()) >= count[:, None]] = -np.inf
    rows = []
    for epsilon in p.epsilons:
        sigma = privacy.noise_for_epsilon(epsilon, p.delta, sampling_rate=q, steps=steps)
        run = DPSGD(sigma, q, steps)
        target = np.concatenate([absent, present + 1.0 / sigma], axis=1)
        own = np.partition(target, target.shape[1] - top, axis=1)[:, -top:].sum(axis=1)
        algorithm3 = float(np.mean(own > best_other))
        certified, best = bounds.rero(run, 1.0 / n).upper, bounds.bayes_success_subsampled(run, n)
        error = math.sqrt(algorithm3 * (1 - algorithm3) / p.trials)
        simple = bounds.sum_score_success(run, n)
        rows.append((epsilon, sigma, certified, best, simple, algorithm3, error))
    columns = ["epsilon", "sigma", "bound", *_SCORES, "standard error"]
    table = pd.DataFrame(rows, columns=columns)
    return Tables(
        {
            "success": table,
            "exact": table[["epsilon", "sigma", "likelihood", "Algorithm 2"]].round(7),
            "step by step": _step_by_step(study, table),
        },
        exact=("exact",),
        ran=f"orthogonal candidates, n = {n}, q = {q:g}, T = {steps}, delta = {p.delta:g}: the "
        f"likelihood and Algorithm 2 exactly, Algorithm 3 by {p.trials} simulated attacks.",
    )


def _top(study: Context) -> int:
    """How many of the largest inner products Algorithm 3 sums."""
    return max(1, round(study.parameters.sampling_rate * study.parameters.steps))


def largest_normals(
    rng: np.random.Generator, shape: tuple[int, ...], steps: int | np.ndarray, top: int
) -> np.ndarray:
    """Draw the ``top`` largest of ``steps`` normal variables, (*shape, top), in decreasing order.

    The logarithms of the largest uniform variables fall by exponential spacings (Renyi 1953), so
    that ``top`` draws do instead of ``steps``.
    """
    spacings = rng.standard_exponential((*shape, top)) / (steps - np.arange(top))
    return -sc.ndtri(-np.expm1(-np.cumsum(spacings, axis=-1)))


def _step_by_step(study: Context, table: pd.DataFrame) -> pd.DataFrame:
    """Attacks simulated with every inner product, beside the values in the table."""
    p = study.parameters
    trials, chunk, top = 4000, 125, _top(study)
    rows = []
    for number in sorted({0, len(table) // 2, len(table) - 1}):
        row = table.iloc[number]
        sigma = np.float32(row["sigma"])
        rng = study.rng("step by step", number)
        hits = np.zeros(len(_SCORES))
        for _ in range(trials // chunk):
            z = rng.standard_normal((chunk, p.prior_size, p.steps), dtype=np.float32)
            z[:, 0] += (rng.random((chunk, p.steps)) < p.sampling_rate) / sigma
            loss = z / sigma - np.float32(0.5 / row["sigma"] ** 2)
            loss = np.log1p(p.sampling_rate * np.expm1(loss)).sum(axis=2, dtype=float)
            plain = z.sum(axis=2, dtype=float)
            largest = np.partition(z, p.steps - top, axis=2)[..., -top:].sum(axis=2)
            hits += [np.sum(scores.argmax(axis=1) == 0) for scores in (loss, plain, largest)]
        for share, score in zip(hits / trials, _SCORES, strict=True):
            value = row[score]
            error = math.sqrt(value * (1 - value) * (1 / trials + 1 / p.trials))
            rows.append((row["epsilon"], score, share, value, error))
    columns = ["epsilon", "score", "simulated", "in the table", "standard error"]
    return pd.DataFrame(rows, columns=columns)


def judge(tables: Tables) -> Iterator[Verdict]:
    table, error = tables["success"], tables["success"]["standard error"]
    simulated = tables["step by step"]
    spread = simulated["standard error"]
    agree = within(simulated["simulated"], simulated["in the table"], spread, MARGIN)
    ahead = (table["likelihood"] - table["Algorithm 3"]) / error
    optimal = (ahead > STANDARD_ERRORS).all() and (table["likelihood"] > table["Algorithm 2"]).all()
    below = (table["likelihood"] < table["bound"]).all()
    share = _recovered(tables)
    first = table.iloc[0]
    behind = (first["Algorithm 2"] - first["Algorithm 3"]) / first["standard error"]
    yield check(
        "beyond/subsampled_success",
        optimal and below and behind > STANDARD_ERRORS,
        "the likelihood score beats both algorithms at every epsilon, and Algorithm 3 is worse "
        "than Algorithm 2 at the smallest",
        ours=f"epsilon = {first['epsilon']:g}: {first['likelihood']:.4f}, Algorithm 2 "
        f"{first['Algorithm 2']:.4f}, Algorithm 3 "
        f"{rounded(first['Algorithm 3'], first['standard error'])}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
    )
    recovered = share["likelihood"].min() > MOST and share["Algorithm 3"].min() < THIRD
    off = (simulated["simulated"] - simulated["in the table"]).abs().max()
    yield check(
        "O-022",
        optimal and below and recovered and agree,
        "the likelihood's exact success agrees with its simulation and recovers four fifths of the "
        "bound's excess over 1/n at every epsilon, Algorithm 3 as little as a third",
        ours=f"at least {share['likelihood'].min():.2f} of it, Algorithm 3 as little as "
        f"{rounded(share['Algorithm 3'].min(), 0.05)}; simulations off by up to {off:.3f}",
        tolerance=f"{MARGIN:g} for simulations, with {STANDARD_ERRORS:g} standard errors inside",
    )


def _recovered(tables: Tables) -> pd.DataFrame:
    """The share of the bound's excess over 1/n that each score recovers."""
    table, blind = tables["success"], 1 / tables.parameters.prior_size
    return (table[list(_SCORES)] - blind).div(table["bound"] - blind, axis=0)


CAPTION = (
    "The setting of paper C's Figure 4 (q = 0.02, T = 1000, ten candidates) with orthogonal "
    "gradients: the bound, the best possible attack, and the paper's Algorithms 2 and 3. Left: "
    "success. Right: the share of the bound's excess over 1/n that each attack recovers."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, share = tables["success"], _recovered(tables)
    epsilon = table["epsilon"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    row[0].plot(epsilon, table["bound"], color=BOUND, label="ReRo bound")
    likelihood, top, sums = (SCORES[score] for score in ("likelihood", "top", "sum"))
    row[0].plot(epsilon, table["likelihood"], color=likelihood, label="likelihood (exact)")
    look = {"fmt": "^--", "ms": 4.5, "color": top, "capsize": 2}
    room = 1.96 * table["standard error"]
    row[0].errorbar(
        epsilon, table["Algorithm 3"], room, label="Algorithm 3 (simulated, 95%)", **look
    )
    row[0].plot(epsilon, table["Algorithm 2"], "-.", color=sums, label="Algorithm 2 (exact)")
    row[0].axhline(1 / tables.parameters.prior_size, color=GREY, lw=1, ls=":")
    row[0].set(ylabel="success", ylim=(0, 1.02))
    row[0].legend(loc="upper left")
    looks = zip(_SCORES, ("-", "-.", "^--"), (likelihood, sums, top), strict=True)
    for name, style, colour in looks:
        row[1].plot(epsilon, share[name], style, ms=4.5, color=colour)
    row[1].set(ylabel="recovered share of the excess", ylim=(0, 1.05))
    for axis in row:
        axis.set(xscale="log", xlabel=r"$\varepsilon$")
        axis.set_xticks(list(epsilon), [f"{e:g}" for e in epsilon])
        axis.minorticks_off()
    return figure
