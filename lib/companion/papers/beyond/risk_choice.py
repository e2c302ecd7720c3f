"""Hyperparameters of least risk at equal epsilon and equal signal-to-noise.

After T steps with a learning rate proportional to 1/T the weights have moved by the mean of the
privatised gradients, with noise of standard deviation ``sigma C / (q n sqrt(T))`` per coordinate.
The signal-to-noise ratio is ``q sqrt(T) / sigma`` times a factor of the data set, and stands for
the utility. It ignores the sampling of the batch (little, where weights outnumber records) and how
far optimisation gets in T steps.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import optimize

from companion.papers.beyond.rounding import four_digits
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.style import COLOURS, GREY, drawing, panels
from reconrisk import DPSGD, bounds, privacy

_OURS = "our own exhibit"
_STEPS, _PRIORS = (1, 3, 10, 30), (0.5, 0.1, 0.01)
_RATIO = "signal-to-noise ratio over that of the full batch"

PARAMETERS = {
    "epsilons": Parameter("floats", (1.0, 4.0), (1.0, 4.0, 10.0), _OURS, "epsilon", 1e-2),
    "shares": Parameter("floats", (0.5, 0.8), (0.5, 0.8, 0.95), _OURS, _RATIO, 1e-2),
    "steps": Parameter("ints", (*_STEPS, 300), (*_STEPS, 100, 300, 1000, 10_000), _OURS, "T", 1),
    "prior_successes": Parameter("floats", _PRIORS, _PRIORS, _OURS, "kappa", 1e-9),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-100),
}
SETTLES = ("O-017",)

#: the least factor between the risks of a family that counts as a difference
FACTOR = 1.02
#: the most steps at which the risk may be least, and those from which on it must rise
FEW, MANY = 10, 30
FALSIFIERS = (
    graded(
        "risks {} larger",
        column("choices", "of full batch", lambda c, by: c * (1 + by)),
    ),
    graded(
        "risks that differ by the power 1 - {}",
        frame("choices", lambda t, by: _more_equal(t, by)),
        unit="",
    ),
    world(
        "the same risk at every number of steps",
        frame("choices", lambda t: _more_equal(t, 1.0)),
        *("", "O-017"),
    ),
    graded(
        "a risk {} lower at the largest number of steps",
        column(
            "choices", "of full batch", lambda c, by: c * (1 - by), lambda t: t["T"] == t["T"].max()
        ),
        "O-017",
    ),
    world(
        "a risk that is least after one step",
        column("choices", "of full batch", lambda c: c / 2, "T == 1"),
        "O-017",
    ),
)


def _more_equal(table: pd.DataFrame, by: float) -> pd.DataFrame:
    """Risks nearer to the largest of their family, on a logarithmic scale."""
    most = table.groupby(_FAMILY)["of full batch"].transform("max")
    return table.assign(**{"of full batch": most * (table["of full batch"] / most) ** (1 - by)})


_FAMILY = ["epsilon", "share", "kappa"]


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    kappa = np.array(p.prior_successes)
    rows = []
    for epsilon in p.epsilons:
        full = 1 / privacy.noise_for_epsilon(epsilon, p.delta)
        most = bounds.rero_gaussian(1 / full, kappa) - kappa
        for share in p.shares:
            for steps in p.steps:
                q = _rate_of(epsilon, p.delta, share, full, int(steps))
                run = DPSGD(q * math.sqrt(steps) / (share * full), q, int(steps))
                _, gamma = bounds.rero_curve(run, kappa)
                plan = four_digits({"q": q, "sigma": run.noise_multiplier})
                for k, value, excess in zip(kappa, gamma, (gamma - kappa) / most, strict=True):
                    risk = four_digits({"gamma": value, "of full batch": excess})
                    family = {"epsilon": epsilon, "share": share, "T": int(steps)}
                    rows.append(family | plan | {"kappa": float(k)} | risk)
    table = pd.DataFrame(rows)
    return Tables(
        {"choices": table},
        exact=("choices",),
        ran=f"{table.groupby(_FAMILY).ngroups} families of runs at delta = {p.delta:g}, T = "
        f"{min(p.steps)} to {max(p.steps):,}; deterministic.",
    )


def _rate_of(epsilon: float, delta: float, share: float, full: float, steps: int) -> float:
    """The sampling rate at which both epsilon and ``q sqrt(T) / sigma = share * full`` hold."""
    signal = share * full

    def excess(log_rate: float) -> float:
        q = math.exp(log_rate)
        run = DPSGD(q * math.sqrt(steps) / signal, q, steps)
        return privacy.epsilon(run, delta).upper / epsilon - 1

    # by the central limit theorem of Gaussian differential privacy, for many steps
    def limit(log_noise: float) -> float:
        return 2 * log_noise + math.log(math.expm1(math.exp(-2 * log_noise))) + 2 * math.log(share)

    start = signal * math.exp(optimize.brentq(limit, -3.0, 9.0)) / math.sqrt(steps)
    low, high = _bracket(excess, min(math.log(start), math.log(0.5)))
    return math.exp(optimize.brentq(excess, low, high, xtol=1e-7, rtol=1e-9))


def _bracket(excess: Callable[[float], float], start: float) -> tuple[float, float]:
    """An interval of the log rate in which a falling function changes its sign."""
    low = high = start
    if excess(start) > 0:
        while excess(high) > 0:
            low, high = high, min(high + 0.25, 0.5 * high)
    else:
        while excess(low) <= 0:
            low, high = low - 0.25, low
    return low, high


def judge(tables: Tables) -> Iterator[Verdict]:
    table, best = tables["choices"], _best(tables)
    relative = table.groupby(_FAMILY)["of full batch"]
    moved = relative.max() / relative.min()
    yield check(
        "beyond/risk_choice",
        (table["of full batch"] < 1).all() and moved.min() > FACTOR,
        "runs of equal epsilon and equal signal-to-noise ratio differ in risk by factors of "
        f"{FACTOR:g} and more, and all have less "
        "risk than the full batch, which has more signal",
        ours=f"the excess of gamma over kappa differs by factors of {moved.min():.2f} to "
        f"{moved.max():.2f} over T",
    )
    later = table[table["T"] >= MANY].sort_values("T").groupby(_FAMILY)["of full batch"]
    rises = all((own.diff().dropna() > 0).all() for _, own in later)
    yield check(
        "O-017",
        max(best) <= FEW and rises and len(best) > 1,
        f"the least gamma is at {FEW} steps or fewer, but not always at one; from {MANY} steps on "
        "it rises with T",
        ours="steps of least gamma: " + ", ".join(map(str, best)),
    )


def _best(tables: Tables) -> list[int]:
    """The numbers of steps at which some family has the least risk."""
    table = tables["choices"].sort_values("T")
    least = table.groupby(_FAMILY)["of full batch"].idxmin()
    return sorted(table.loc[least, "T"].unique())


CAPTION = (
    "Runs of equal epsilon and equal signal-to-noise of the summed gradient, as a share of the "
    "full batch's: for every number of steps there is one sampling rate. The excess of gamma over "
    "kappa relative to that of the full batch at the same epsilon; dots mark the least."
)


@drawing
def draw(tables: Tables) -> Figure:
    table, styles = tables["choices"], ("-", "--", ":")
    priors = sorted(table["kappa"].unique(), reverse=True)
    figure, (row,) = panels(1, len(priors), 3.6, 3.5)
    for axis, kappa in zip(row, priors, strict=True):
        groups = table[table["kappa"] == kappa].groupby("epsilon")
        for colour, (epsilon, part) in zip(COLOURS, groups, strict=False):
            for style, (_, own) in zip(styles, part.groupby("share"), strict=False):
                own = own.sort_values("T")
                axis.plot(own["T"], own["of full batch"], style, color=colour)
                best = own.loc[own["of full batch"].idxmin()]
                axis.plot(best["T"], best["of full batch"], "o", ms=5, color=colour)
            axis.plot([], [], color=colour, label=rf"$\varepsilon$ = {epsilon:g}")
        for style, share in zip(styles, sorted(table["share"].unique()), strict=False):
            axis.plot([], [], style, color=GREY, label=f"share {share:g}")
        axis.axhline(1, color=GREY, lw=1, ls=(0, (1, 2)))
        axis.set(xscale="log", xlabel="steps T", ylim=(0.2, 1.03), title=rf"$\kappa$ = {kappa:g}")
    row[0].set_ylabel("excess over that of the full batch")
    row[0].legend(loc="lower right", ncols=2, fontsize=8)
    return figure
