"""Figure 5: bound and attack along the curve of constant (4, 1e-5)-DP."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import equal_epsilon_curves as curves
from companion.papers.hayes2023 import subsampled_attack as subsampled

#: how many times larger the bound's excess over 1/n at the largest q must be (C-028)
UNEQUAL = 2

PARAMETERS = {
    "epsilon": Parameter("float", 4.0, 4.0, "4", "epsilon at delta = 1e-5", low=0.01),
    "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
    "rates": curves.rates(
        (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.99),
        curves.FINE,
        "q, where the bound is computed",
    ),
    "attack_rates": curves.rates(
        (0.01, 0.99),
        (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99),
        "q, where the attack is run",
    ),
    "swept_rates": curves.rates((0.01, 0.1, 0.5, 0.99), curves.COARSE, "q, where T varies as well"),
    "swept_steps": Parameter(
        *("ints", (1, 10, 100, 1000), (1, 10, 100, 1000, 10000), "100 (C-027: varied)"),
        "T, steps of the further curves",
        low=1,
    ),
    "candidates": Parameter(
        *("int", 100, 100, "10 (each trial has its own)"),
        "candidates of a trial; success is averaged over all choices of n of them",
        low=2,
    ),
    **subsampled.attack_parameters(200),
}
SETTLES = (*("hayes2023/fig5a", "hayes2023/fig5b"), *("C-025", "C-026", "C-027", "C-028", "C-029"))


ALTERED = {
    "bound": {("gamma from", "gamma to"): ("bounds", at("q > 0.98", "bounds at the largest q"))},
    "attack": {
        "success": (
            "successes",
            at("q < 0.02", "successes at the smallest q"),
            at("q > 0.98", "successes at the largest q"),
        )
    },
    "steps": {("gamma from", "gamma to"): by("T", "bounds", each="at T = {}")},
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    bound = curves.bound_along([p.epsilon], p.rates, [p.steps], [p.prior_size])
    swept = curves.bound_along([p.epsilon], p.swept_rates, p.swept_steps, [p.prior_size])
    points = [(p.epsilon, rate) for rate in p.attack_rates]
    attack = subsampled.attack_along(study, points, [p.prior_size], p.candidates)
    return Tables(
        {"bound": curves.with_best_attack(bound), "steps": swept, "attack": attack},
        exact=("bound", "steps"),
        ran=f"enclosures at {len(bound)} values of q; {p.trials} networks for each of "
        f"{len(p.attack_rates)} values of q on {data_name(p.data)}, each attacked with "
        f"{p.candidates} candidates, of which all choices of {p.prior_size} are averaged.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    bound, attack, top = _tables(tables)
    grows, below = curves.rises(bound), subsampled.never_above(attack)
    gained, (difference, error) = subsampled.gains(attack), subsampled.gain(attack)
    (low, high), (few, many) = _ends(bound), _ends(top)
    bounds_text = (
        f"{low['gamma']:.4f} at q = {low['q']:g}, {high['gamma']:.4f} at q = {high['q']:g}"
    )
    attack_text = " and ".join(rounded(row["success"], row["error"]) for row in (few, many))
    yield check(
        "hayes2023/fig5",
        grows and below and gained,
        "along the curve of equal epsilon bound and attack grow with q, and no attack is "
        "significantly above the bound",
        ours=f"bound {bounds_text}; Algorithm 3 {attack_text}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
        stand_in=tables.stand_in,
    )
    width = max((bound["gamma to"] - bound["gamma from"]).max(), 1e-12)
    rising = check(
        "hayes2023/fig5a",
        grows,
        "the bound grows with q at equal epsilon",
        ours=f"{bounds_text}; {len(bound)} values of q, enclosed to within "
        f"1e{math.ceil(math.log10(width))}",
    )
    yield from shared_by(rising, "C-029")
    yield check(
        "hayes2023/fig5b",
        below and gained,
        "the improved attack succeeds more often at larger q than at the smallest, and never "
        "significantly more often than the bound allows",
        ours=f"{attack_text} at q = {few['q']:g} and {many['q']:g}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
        stand_in=tables.stand_in,
    )
    for target, rate in (("C-025", 0.01), ("C-026", 0.99)):
        yield from _as_printed(target, rate, bound, top, tables)
    yield _grows_with_steps(tables["steps"])
    chance = 1 / tables.parameters.prior_size
    yield check(
        "C-028",
        high["gamma"] - chance > UNEQUAL * (low["gamma"] - chance),
        "runs of equal (epsilon, delta) leave attackers unequal chances: the bound's excess over "
        f"1/n differs by a factor of more than {UNEQUAL}",
        ours=f"bound minus 1/{tables.parameters.prior_size}: {low['gamma'] - chance:.4f} at q = "
        f"{low['q']:g}, {high['gamma'] - chance:.4f} at q = {high['q']:g}",
    )
    yield check(
        "C-029",
        gained,
        "the attack succeeds less often at the smallest q",
        ours=f"{rounded(difference, error)} less at q = {few['q']:g} than at larger q on average",
        tolerance=f"{STANDARD_ERRORS:g} standard errors",
        stand_in=tables.stand_in,
    )


def _tables(tables: Tables) -> tuple[pd.DataFrame, ...]:
    """The bound with its middle, the attack, and Algorithm 3's part of it, by q."""
    attack = tables["attack"].sort_values("q")
    return curves.middle(tables["bound"]), attack, attack[attack["score"] == "top"]


def _ends(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """The rows of the smallest and of the largest q."""
    ordered = table.sort_values("q")
    return ordered.iloc[0], ordered.iloc[-1]


def _as_printed(
    target: str, rate: float, bound: pd.DataFrame, top: pd.DataFrame, tables: Tables
) -> Iterator[Verdict]:
    """C-025 and C-026: what the text gives with "about" at one end of the curve."""
    limit, attack = (table[np.isclose(table["q"], rate)] for table in (bound, top))
    if limit.empty or attack.empty:
        yield not_run(target, f"bound and attack at q = {rate:g}", f"q = {rate:g} among the rates")
        return
    printed = _printed(rate)
    gamma, (success, error) = limit["gamma"].iloc[0], attack[["success", "error"]].iloc[0]
    trials, printed_trials = tables.parameters.trials, PARAMETERS["trials"].paper
    needed = f"more than {trials:,} networks"
    if trials < printed_trials:
        needed = f"{printed_trials:,} networks, as in the paper"
    yield check(
        target,
        abs(gamma - float(printed["upper_bound"])) < subsampled.ABOUT,
        f"at q = {rate:g} the bound is about {printed['upper_bound']}",
        ours=f"{gamma:.4f}",
        paper=printed["upper_bound"],
        tolerance=f"{subsampled.ABOUT:g}, for 'about'",
    )
    yield check(
        target,
        within(success, float(printed["attack_success"]), error, subsampled.ABOUT),
        f"at q = {rate:g} the improved attack succeeds with probability about "
        f"{printed['attack_success']}",
        ours=rounded(success, error),
        paper=printed["attack_success"],
        tolerance=f"{subsampled.ABOUT:g}, for 'about', with {STANDARD_ERRORS:g} standard errors "
        "inside",
        stand_in=tables.stand_in,
        decided_by=f"{needed} ({rounded(success, error)} here)",
    )


def _printed(rate: float) -> pd.Series:
    """What the text gives at one end of the curve, by metric."""
    printed = registry.printed("hayes2023/fig5")
    return printed[printed["condition"] == f"q={rate:g}"].set_index("metric")["value"]


def _grows_with_steps(swept: pd.DataFrame) -> Verdict:
    """C-027: the bound over T and q, the noise tuned to epsilon at each."""
    inner = curves.middle(swept[swept["q"] < 1])
    along_q = all(curves.rises(part) for _, part in swept.groupby("T"))
    along_t = all(curves.rises(part, "T") for _, part in inner.groupby("q"))
    small = inner[inner["q"] == inner["q"].min()].sort_values("T")
    first, last = small.iloc[0], small.iloc[-1]
    return check(
        "C-027",
        along_q and along_t,
        f"at equal epsilon the bound for {swept['n'].iloc[0]:g} candidates grows with q and with T",
        ours=f"q = {first['q']:g}: {first['gamma']:.4f} at T = {first['T']:g}, "
        f"{last['gamma']:.4f} at T = {last['T']:g}",
    )


CAPTION = (
    "Runs of equal epsilon: noise multiplier over sampling rate, coloured by the largest success "
    "of any attack (a) and by that of Algorithm 3 (b). Hollow: the values that the paper's "
    "text gives at both ends. Added: the same over q (c), with 95% intervals, the likelihood "
    "score, and the best attack on orthogonal candidates; and the bound for other numbers of "
    "steps, with the noise tuned for each (d)."
)


@drawing
def draw(tables: Tables) -> Figure:
    bound, attack, top = _tables(tables)
    top = top.assign(sigma=np.interp(top["q"], bound["q"], bound["sigma"]))
    figure, (upper, lower) = plt.subplots(
        2, 2, figsize=(8.4, 6.0), height_ratios=(2, 3), layout="constrained"
    )
    for axes, part, value, name in (
        (upper[0], bound, "gamma", "(a) upper bound"),
        (upper[1], top, "success", "(b) Algorithm 3"),
    ):
        norm = Normalize(part[value].min(), part[value].max())
        figure.colorbar(curves.coloured_curve(axes, part, value, norm), ax=axes, label="success")
        axes.set(xlabel="sampling rate q", ylabel=r"noise multiplier $\sigma$")
        axes.set_title(name, loc="left")
    measured, steps = lower
    subsampled.draw_over_rates(measured, bound, attack)
    marks = np.array([(rate, float(v)) for rate in (0.01, 0.99) for v in _printed(rate)])
    mark_printed(measured, *marks.T, label="printed, in the text")
    for colour, (count, part) in zip(
        COLOURS, curves.middle(tables["steps"]).groupby("T"), strict=False
    ):
        steps.plot(part["q"], part["gamma"], "o-", ms=4, color=colour, label=f"T = {count:,}")
    curves.log_rates(steps)
    highest = 1.15 * max(bound["gamma"].max(), attack["high"].max())
    for axes, label, title, columns in (
        (measured, "success", "(c) bound and attacks", 1),
        (steps, "upper bound", "(d) other numbers of steps", 2),
    ):
        axes.set(xlabel="sampling rate q", ylabel=label, ylim=(0, highest))
        axes.set_title(title, loc="left")
        axes.legend(loc="lower right", ncols=columns)
    return figure
