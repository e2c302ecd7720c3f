"""Risk instead of epsilon: noise, risk and epsilon over sampling rate and number of steps."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.beyond.rounding import FOUR_DIGITS, four_digits
from reconrisk import DPSGD, bounds, privacy

_OURS = "our own exhibit"
_RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

PARAMETERS = {
    "sampling_rates": Parameter("floats", (0.01, 0.03, 0.1, 1.0), _RATES, _OURS, "q", 1e-6),
    "steps": Parameter("ints", (100, 10_000), (100, 1000, 10_000), _OURS, "T", 1),
    "epsilons": Parameter("floats", (1.0, 4.0), (1.0, 4.0, 10.0), _OURS, "epsilon", 1e-2),
    "successes": Parameter("floats", (0.2, 0.5), (0.2, 0.5), _OURS, "targets of gamma", 1e-9),
    "kappa": Parameter("float", 0.1, 0.1, "1/10", "prior success", 1e-9),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-100),
}
SETTLES = ("O-016",)

#: factors by which the risk differs at equal epsilon, at every one and at the largest, and epsilon
#: at equal risk
RISKS, EPSILONS = (1.5, 2.5), (2.5, 4.0)
ALTERED = {
    "equal epsilon": {"excess": ("excess risks", at("q == 1", "excess risks of full batches"))},
    "equal risk": {"epsilon": ("epsilons", at("q == 1", "epsilons of full batches"))},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    # a record takes part at least once on average
    plans = [(float(q), int(t)) for t in p.steps for q in p.sampling_rates if q * t >= 1]
    equal_epsilon, equal_risk = [], []
    for epsilon, (q, steps) in itertools.product(p.epsilons, plans):
        sigma = privacy.noise_for_epsilon(epsilon, p.delta, sampling_rate=q, steps=steps)
        gamma = bounds.rero(DPSGD(sigma, q, steps), p.kappa).upper
        found = {"sigma": sigma, "gamma": gamma, "excess": gamma - p.kappa}
        equal_epsilon.append({"epsilon": epsilon, "q": q, "T": steps} | four_digits(found))
    for success, (q, steps) in itertools.product(p.successes, plans):
        sigma = privacy.noise_for_success(success, p.kappa, sampling_rate=q, steps=steps)
        epsilon = privacy.epsilon(DPSGD(sigma, q, steps), p.delta).upper
        found = {"sigma": sigma, "epsilon": epsilon}
        equal_risk.append({"gamma": success, "q": q, "T": steps} | four_digits(found))
    return Tables(
        {"equal epsilon": pd.DataFrame(equal_epsilon), "equal risk": pd.DataFrame(equal_risk)},
        exact=("equal epsilon", "equal risk"),
        ran=f"certified calibration at delta = {p.delta:g}, kappa = {p.kappa:g}, T = "
        f"{min(p.steps)} to {max(p.steps):,}, q = {min(p.sampling_rates):g} to 1; deterministic.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    equal_epsilon, equal_risk = tables["equal epsilon"], tables["equal risk"]
    rises = _rises(equal_epsilon, "epsilon", equal_epsilon["excess"])
    falls = _rises(equal_risk, "gamma", -equal_risk["epsilon"])
    yield check(
        "beyond/iso_risk",
        rises and falls,
        "at equal epsilon the risk rises with the sampling rate and with the number of steps, up "
        "to that of the full batch; at equal risk epsilon falls",
        ours=f"{len(equal_epsilon)} runs of equal epsilon, {len(equal_risk)} of equal risk",
        tolerance=f"{FOUR_DIGITS:g} of the value",
    )
    excesses = equal_epsilon.groupby("epsilon")["excess"]
    epsilons = equal_risk.groupby("gamma")["epsilon"]
    factors, ratios = excesses.max() / excesses.min(), epsilons.max() / epsilons.min()
    (risk, most_risk), (epsilon, most_epsilon) = RISKS, EPSILONS
    yield check(
        "O-016",
        factors.min() > risk
        and factors.max() > most_risk
        and ratios.min() > epsilon
        and ratios.max() > most_epsilon,
        ours="; ".join(
            [f"epsilon {e:g}: excess by a factor {f:.1f}" for e, f in factors.items()]
            + [f"gamma {g:g}: epsilon by a factor {r:.1f}" for g, r in ratios.items()]
        ),
    )


def _rises(table: pd.DataFrame, group: str, values: pd.Series) -> bool:
    """Whether values rise with q at each T, and with T at each q."""
    table = table.assign(values=values)
    for fixed, moving in (("T", "q"), ("q", "T")):
        for _, own in table.sort_values(moving).groupby([group, fixed])["values"]:
            if (np.diff(own) < -FOUR_DIGITS * own.abs().to_numpy()[:-1]).any():
                return False
    return True


CAPTION = (
    "Risk instead of epsilon, over sampling rate and number of steps (runs in which a record takes "
    "part at least once on average). Left: noise for a target risk (solid) and for a fixed epsilon "
    "(dashed). Middle: success at equal epsilon. Right: epsilon at equal success."
)


@drawing
def draw(tables: Tables) -> Figure:
    equal, risk = tables["equal epsilon"], tables["equal risk"]
    figure, (row,) = panels(1, 3, 3.9, 3.4)
    steps = sorted(equal["T"].unique())
    target, epsilon = risk["gamma"].min(), equal["epsilon"].max()
    for colour, count in zip(COLOURS, steps, strict=False):
        own = risk[(risk["T"] == count) & (risk["gamma"] == target)].sort_values("q")
        row[0].plot(own["q"], own["sigma"], "o-", ms=3.5, color=colour, label=f"T = {count:,}")
        own = equal[(equal["T"] == count) & (equal["epsilon"] == epsilon)].sort_values("q")
        row[0].plot(own["q"], own["sigma"], "s--", ms=3, color=colour)
    row[0].plot([], [], "o-", ms=3.5, color=GREY, label=rf"$\gamma$ = {target:g}")
    row[0].plot([], [], "s--", ms=3, color=GREY, label=rf"$\varepsilon$ = {epsilon:g}")
    row[0].set(ylabel=r"noise multiplier $\sigma$", yscale="log")
    row[0].legend(loc="upper left", fontsize=8)
    for axis, table, group, name, symbol in (
        (row[1], equal, "epsilon", "gamma", r"$\varepsilon$"),
        (row[2], risk, "gamma", "epsilon", r"$\gamma$"),
    ):
        for style, (value, part) in zip(("-", "--", ":", "-."), table.groupby(group), strict=False):
            for colour, count in zip(COLOURS, steps, strict=False):
                own = part[part["T"] == count].sort_values("q")
                axis.plot(own["q"], own[name], style, marker="o", ms=3, color=colour)
            axis.plot([], [], style, color=GREY, label=f"{symbol} = {value:g}")
    row[1].set(ylabel=r"$\gamma$ at equal $\varepsilon$", ylim=(0, None))
    row[1].legend(loc="lower right")
    row[2].set(ylabel=r"$\varepsilon$ at equal $\gamma$", yscale="log")
    row[2].set_yticks([2, 5, 10, 20], ["2", "5", "10", "20"])
    row[2].minorticks_off()
    row[2].legend(loc="upper right")
    for axis in row:
        axis.set(xscale="log", xlabel="sampling rate q")
    return figure
