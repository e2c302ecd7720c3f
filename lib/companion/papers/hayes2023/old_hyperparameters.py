"""Hayes et al. 2023, Figures 5, 14 and 15: runs of equal epsilon and unequal risk.

Every run has its noise tuned to (epsilon, delta). Its bound is an enclosure, so that the grids of q
can be as fine as one likes; the attack trains a network for every trial.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.special import gammaln

from reconrisk import DPSGD, attacks, bounds
from reconrisk.models import Classifier
from companion.study import registry
from reconrisk import datasets
from companion.study.computations import Context, computes
from companion.papers.hayes2023.equal_epsilon import tuned_run
from companion.study.results import Result
from companion.study.sweep import as_table, run_sweep
from companion.study.verdicts import STANDARD_ERRORS, Verdict, check, rounded

__all__ = ["attack_point", "beats_random_others"]

KEY = "hayes2023"

#: how near to a number that the paper gives with "about" a value has to be
ABOUT = 0.02
#: rises below this do not show: calibrated noise is above the least by up to 1e-4 of itself
NEARLY = 1e-4
#: half-width of a 95% interval in standard errors
NORMAL_95 = 1.959964

SCORES = ("top", "likelihood")


# Bounds along a curve of equal epsilon -----------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _gammas(run: DPSGD, prior_sizes: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    """Both ends of the enclosure of gamma for uniform priors, one composition for all of them."""
    lower, upper = bounds.rero_curve(run, 1 / np.array(prior_sizes), tolerance=1e-6)
    return {n: (float(a), float(b)) for n, a, b in zip(prior_sizes, lower, upper, strict=True)}


def _bound_rows(
    epsilons: Iterable[float],
    rates: Iterable[float],
    steps: Iterable[int],
    prior_sizes: Sequence[int],
) -> pd.DataFrame:
    """Noise and enclosure of every run and prior size."""
    rows = []
    for epsilon, count, rate in itertools.product(epsilons, steps, rates):
        run = tuned_run(epsilon, rate, count)
        for n, ends in _gammas(run, tuple(prior_sizes)).items():
            rows.append((epsilon, count, rate, run.noise_multiplier, n, *ends))
    columns = ["epsilon", "T", "q", "sigma", "n", "gamma from", "gamma to"]
    return pd.DataFrame(rows, columns=columns)


def _rises(part: pd.DataFrame, along: str = "q") -> bool:
    """Whether gamma certainly rises from each row to the next, to within ``NEARLY``."""
    part = part.sort_values(along)
    low, high = part["gamma from"].to_numpy(), part["gamma to"].to_numpy()
    return bool((low[1:] > high[:-1] - NEARLY).all() and low[-1] > high[0])


def _at(table: pd.DataFrame, **where: float) -> pd.Series:
    """The one row with these values."""
    for column, value in where.items():
        table = table[np.isclose(table[column], value)]
    if len(table) != 1:
        raise ValueError(f"one row was expected with {where}; got {len(table)}")
    return table.iloc[0]


def _middle(row: pd.Series) -> float:
    return float(row["gamma from"] + row["gamma to"]) / 2


# The attack --------------------------------------------------------------------------------------


def beats_random_others(below: np.ndarray, others: int, prior_size: int) -> np.ndarray:
    """Chance that the target has the largest score among itself and n - 1 random others.

    A trial with many candidates is a trial for every smaller prior: its n - 1 other candidates
    could have been any of those present. This averages over all such choices.

    Parameters
    ----------
    below : ndarray of int
        How many of the others have a score below the target's, in [0, others].
    others : int
        Candidates besides the target.
    prior_size : int
        n, at most ``others + 1``.

    Returns
    -------
    ndarray
        ``C(below, n - 1) / C(others, n - 1)``, in [0, 1].
    """
    chosen = prior_size - 1
    b = np.asarray(below, dtype=float)
    enough = b >= chosen
    safe = np.where(enough, b, chosen)
    log_share = _log_choose(safe, chosen) - _log_choose(np.array(float(others)), chosen)
    return np.where(enough, np.exp(log_share), 0.0)


def _log_choose(n: np.ndarray, k: int) -> np.ndarray:
    return gammaln(n + 1) - gammaln(n - k + 1) - math.lgamma(k + 1)


def attack_point(task: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Attack one run of DP-SGD, one network for every trial; a row for each prior size and score.

    Parameters
    ----------
    task : dict
        ``epsilon``, ``q``, ``steps`` and ``max_grad_norm`` name the run, whose noise is tuned
        here; ``data``, ``data_root``, ``known``, ``pool`` and ``data_seed`` the records;
        ``hidden``, ``learning_rate``, ``trials``, ``candidates``, ``prior_sizes``, ``noise_seed``
        and ``device`` the attack.
    seed : int
        The sweep's own seed of this task; not used: the task names its seeds.

    Returns
    -------
    list of dict
        ``n``, ``score``, ``success`` and its ``standard error``.
    """
    del seed
    device = task["device"]
    images = _records(task["data"], task["data_root"])
    order = np.random.default_rng(task["data_seed"]).permutation(len(images))
    known, pool = task["known"], order[task["known"] :][: task["pool"]]
    inputs = torch.as_tensor(images.inputs, device=device)
    labels = torch.as_tensor(images.labels, device=device)
    run = tuned_run(task["epsilon"], task["q"], task["steps"])
    run = dataclasses.replace(run, max_grad_norm=task["max_grad_norm"])
    guesses = attacks.prior_aware_attack(
        Classifier(images.dimension, task["hidden"], images.classes),
        run,
        inputs[order[:known]],
        labels[order[:known]],
        inputs[pool],
        labels[pool],
        prior_size=task["candidates"],
        trials=task["trials"],
        learning_rate=task["learning_rate"],
        generator=torch.Generator(device=device).manual_seed(task["noise_seed"]),
    )
    rows = []
    for score, n in itertools.product(SCORES, task["prior_sizes"]):
        values = guesses.scores[score]
        own = values.gather(1, guesses.target[:, None])
        below = (values < own).sum(dim=1).cpu().numpy()
        right = beats_random_others(below, values.shape[1] - 1, n)
        # at least that of one trial in doubt, so that a run of luck has an error too
        error = max(float(right.std(ddof=1)), 1 / math.sqrt(len(right))) / math.sqrt(len(right))
        rows.append({"n": n, "score": score, "success": float(right.mean()), "error": error})
    return rows


@functools.lru_cache(maxsize=2)
def _records(data: str, data_root: str) -> datasets.LabelledImages:
    split = "all" if data == "digits" else "train"
    return datasets.classified(data, Path(data_root) if data_root else None, split)


def _attack(
    context: Context,
    points: Sequence[tuple[float, float]],
    prior_sizes: Sequence[int],
    candidates: int,
) -> pd.DataFrame:
    """The attack at every (epsilon, q), with 95% intervals and the bound."""
    p = context.settings
    tasks = [
        {
            "epsilon": epsilon,
            "q": rate,
            "steps": p.steps,
            "max_grad_norm": p.max_grad_norm,
            "data": p.data,
            "data_root": str(context.data_root) if context.data_root else "",
            "known": p.known,
            "pool": p.pool,
            "data_seed": context.seed_of("records"),
            "hidden": p.hidden,
            "learning_rate": p.learning_rate,
            "trials": p.trials,
            "prior_sizes": list(prior_sizes),
            "candidates": candidates,
            "noise_seed": context.seed_of("attack", epsilon, rate),
            "device": context.device,
        }
        for epsilon, rate in points
    ]
    store = context.checkpoints / context.exhibit.replace("/", "-") if context.checkpoints else None
    results = run_sweep(
        attack_point,
        tasks,
        seed=context.seed,
        workers=context.workers,
        scheduler=context.scheduler,
        store=store,
        label=context.exhibit,
    )
    named = [{"epsilon": t["epsilon"], "q": t["q"]} for t in tasks]
    table = as_table(named, results)
    table["low"] = (table["success"] - NORMAL_95 * table["error"]).clip(lower=0)
    table["high"] = (table["success"] + NORMAL_95 * table["error"]).clip(upper=1)
    sizes = tuple(prior_sizes)
    table["bound"] = [
        _gammas(tuned_run(e, q, p.steps), sizes)[n][1]
        for e, q, n in zip(table["epsilon"], table["q"], table["n"], strict=True)
    ]
    return table


def _never_above(table: pd.DataFrame) -> bool:
    return bool((table["success"] - STANDARD_ERRORS * table["error"] < table["bound"]).all())


def _stand_in(context: Context) -> bool:
    return context.settings.data != "MNIST"


def _with_best_attack(table: pd.DataFrame) -> pd.DataFrame:
    """Add the success of the best attack on orthogonal candidates to a table of bounds."""
    values = [
        bounds.bayes_success_subsampled(DPSGD(row.sigma, row.q, row.T), row.n)
        for row in table.itertuples()
    ]
    return table.assign(**{"best attack": values})


# Figure 5 ----------------------------------------------------------------------------------------


@computes(f"{KEY}/fig5", f"{KEY}/fig5a", f"{KEY}/fig5b", *(f"C-0{i}" for i in range(25, 30)))
def figure5(context: Context) -> Result:
    """Bound and attack along the curve of constant (4, 1e-5)-DP."""
    p = context.settings
    n = p.prior_size
    bound = _bound_rows([p.epsilon], p.rates, [p.steps], [n])
    swept = _bound_rows([p.epsilon], p.swept_rates, p.swept_steps, [n])
    attack = _attack(context, [(p.epsilon, q) for q in p.attack_rates], [n], p.candidates)
    top = attack[attack["score"] == "top"]
    few, many = min(p.rates), max(p.rates)
    ends = _at(top, q=few), _at(top, q=many)
    gain, gain_error = _difference(*ends)
    stand_in = _stand_in(context)
    values = _middle(_at(bound, q=few)), _middle(_at(bound, q=many))
    bounds_text = f"{values[0]:.4f} at q = {few:g}, {values[1]:.4f} at q = {many:g}"
    attack_text = " and ".join(rounded(row["success"], row["error"]) for row in ends)
    below = _never_above(attack)
    rises = _rises(bound)
    return Result(
        f"{KEY}/fig5",
        [
            check(
                f"{KEY}/fig5",
                rises and below and gain > gain_error,
                "along the curve of equal epsilon bound and attack grow with q, and no attack is "
                "above the bound",
                ours=f"bound {bounds_text}; Algorithm 3 {attack_text}",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
                stand_in=stand_in,
            ),
            check(
                f"{KEY}/fig5a",
                rises,
                "the bound grows with q at equal epsilon",
                ours=f"{bounds_text}; {len(bound)} values of q, enclosed to within "
                f"{_power_of_ten(bound['gamma to'] - bound['gamma from'])}",
            ),
            check(
                f"{KEY}/fig5b",
                below and gain > gain_error,
                "the improved attack succeeds more often at larger q, and never more often than "
                "the bound allows",
                ours=f"{attack_text} at q = {few:g} and {many:g}",
                stand_in=stand_in,
            ),
            *(
                verdict
                for target, q, row, value in zip(
                    ("C-025", "C-026"), (few, many), ends, values, strict=True
                )
                for verdict in _as_printed(target, q, value, row, stand_in)
            ),
            _grows_with_steps(swept, n),
            check(
                "C-028",
                values[1] - 1 / n > 2 * (values[0] - 1 / n),
                "runs of equal (epsilon, delta) leave attackers unequal chances",
                ours=f"bound less 1/{n}: {values[0] - 1 / n:.4f} at q = {few:g}, "
                f"{values[1] - 1 / n:.4f} at q = {many:g}",
            ),
            check("C-029", rises, "the bound is lower at small q", ours=bounds_text),
            check(
                "C-029",
                gain > gain_error,
                "the attack succeeds less often at small q",
                ours=f"{rounded(gain, gain_error)} less at q = {few:g} than at q = {many:g}",
                stand_in=stand_in,
            ),
        ],
        {"bound": _with_best_attack(bound), "steps": swept, "attack": attack},
        exact=("bound", "steps"),
        ran=f"enclosures at {len(bound)} values of q; {p.trials} networks for each of "
        f"{len(p.attack_rates)} values of q on {_data_name(context)}, each attacked with "
        f"{p.candidates} candidates, of which all choices of {n} are averaged.",
    )


def _difference(low: pd.Series, high: pd.Series) -> tuple[float, float]:
    """How much more often the second attack succeeds, and the standard error of that."""
    return float(high["success"] - low["success"]), math.hypot(low["error"], high["error"])


def _as_printed(
    target: str, rate: float, bound: float, attack: pd.Series, stand_in: bool
) -> list[Verdict]:
    """C-025 and C-026: what the text gives with "about" at one end of the curve."""
    printed = registry.printed(f"{KEY}/fig5")
    here = printed[printed["condition"] == f"q={rate:g}"].set_index("metric")["value"]
    error = float(attack["error"])
    found = float(attack["success"])
    return [
        check(
            target,
            abs(bound - float(here["upper_bound"])) < ABOUT,
            f"at q = {rate:g} the bound is about {here['upper_bound']}",
            ours=f"{bound:.4f}",
            paper=here["upper_bound"],
            tolerance=f"{ABOUT:g}, for 'about'",
        ),
        check(
            target,
            abs(found - float(here["attack_success"])) < ABOUT + STANDARD_ERRORS * error,
            f"at q = {rate:g} the improved attack succeeds with probability about "
            f"{here['attack_success']}",
            ours=rounded(found, error),
            paper=here["attack_success"],
            tolerance=f"{ABOUT:g} + {STANDARD_ERRORS:g} standard errors",
            stand_in=stand_in,
        ),
    ]


def _grows_with_steps(swept: pd.DataFrame, n: int) -> Verdict:
    """C-027: the bound over T and q, the noise tuned to epsilon at each."""
    inner = swept[swept["q"] < 1]
    along_q = all(_rises(part) for _, part in swept.groupby("T"))
    along_t = all(_rises(part, "T") for _, part in inner.groupby("q"))
    full = tuned_run(float(swept["epsilon"].iloc[0]), 1.0, 1)
    limit = float(bounds.rero_gaussian(full.noise_multiplier, 1 / n))
    small = inner[inner["q"] == inner["q"].min()].sort_values("T")
    return check(
        "C-027",
        along_q and along_t and bool((swept["gamma to"] < limit + 1e-6).all()),
        "at equal epsilon the bound grows with q and with T, towards that of the full batch, "
        "which depends on neither",
        ours=f"q = {small['q'].iloc[0]:g}: {_middle(small.iloc[0]):.4f} at T = "
        f"{small['T'].iloc[0]}, {_middle(small.iloc[-1]):.4f} at T = {small['T'].iloc[-1]}; full "
        f"batch {limit:.4f} at any T",
    )


def _power_of_ten(values: Iterable[float]) -> str:
    return f"1e{math.ceil(math.log10(max([*values, 1e-12])))}"


def _data_name(context: Context) -> str:
    return "handwritten digits" if context.settings.data == "digits" else context.settings.data


# Figures 14 and 15 -------------------------------------------------------------------------------

#: from where on an epsilon counts as large (C-053)
LARGE_EPSILON = 10
#: the prior sizes that both figures have panels for
PRIOR_SIZES = (2, 10, 100)


@computes(f"{KEY}/fig14", *(f"_prior{n}" for n in PRIOR_SIZES), "C-053")
def figure14(context: Context) -> Result:
    """Bound and attack over q, for several epsilons and prior sizes."""
    p = context.settings
    bound = _bound_rows(p.epsilons, p.rates, [p.steps], PRIOR_SIZES)
    points = list(itertools.product(p.epsilons, p.attack_rates))
    attack = _attack(context, points, PRIOR_SIZES, max(PRIOR_SIZES))
    stand_in = _stand_in(context)
    below = _never_above(attack)
    rises = {n: all(_rises(e) for _, e in part.groupby("epsilon")) for n, part in _by_n(bound)}
    # over all epsilons together: single points are too noisy to be ordered one by one
    gains = {n: _mean_gain(part[part["score"] == "top"]) for n, part in _by_n(attack)}
    return Result(
        f"{KEY}/fig14",
        [
            check(
                f"{KEY}/fig14",
                all(rises.values()) and below and all(g > e for g, e in gains.values()),
                "bound and attack grow with q at every epsilon and prior size",
                ours=f"{len(p.epsilons)} epsilons, {len(p.rates)} values of q; no attack above "
                "the bound",
                tolerance=f"{STANDARD_ERRORS:g} standard errors",
                stand_in=stand_in,
            ),
            *(
                check(
                    f"{KEY}/fig14_prior{n}",
                    rises[n] and gains[n][0] > gains[n][1] and _never_above(part),
                    f"{n} candidates: bound and attack are lower at small q",
                    ours=f"mean of the attack's gain from q = {min(p.attack_rates):g} to "
                    f"{max(p.attack_rates):g} over epsilon: {rounded(*gains[n])}",
                    stand_in=stand_in,
                )
                for n, part in _by_n(attack)
            ),
            *_fluctuation(bound, gains, stand_in),
        ],
        {"bound": _with_best_attack(bound), "attack": attack},
        exact=("bound",),
        ran=f"enclosures at {len(p.rates)} values of q; {p.trials} networks for each of "
        f"{len(points)} runs on {_data_name(context)}, all prior sizes from the same ones.",
    )


def _by_n(table: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    return [(n, table[table["n"] == n]) for n in PRIOR_SIZES]


def _mean_gain(attack: pd.DataFrame) -> tuple[float, float]:
    """The attack's gain from the smallest to the largest q, averaged over epsilon."""
    gains = [
        _difference(_at(part, q=part["q"].min()), _at(part, q=part["q"].max()))
        for _, part in attack.groupby("epsilon")
    ]
    values, errors = np.array(gains).T
    return float(values.mean()), float(np.sqrt(np.square(errors).sum())) / len(gains)


def _fluctuation(
    bound: pd.DataFrame, gains: dict[int, tuple[float, float]], stand_in: bool
) -> list[Verdict]:
    """C-053: where q matters, and how much at which epsilon."""
    ends = bound[bound["q"].isin([bound["q"].min(), bound["q"].max()])].sort_values("q")
    middle = ends.assign(gamma=(ends["gamma from"] + ends["gamma to"]) / 2)
    change = middle.pivot_table(index="epsilon", columns="n", values="gamma", aggfunc=np.ptp)
    largest = change.idxmax()
    return [
        check(
            "C-053",
            all(_rises(part) for _, part in bound.groupby(["epsilon", "n"]))
            and bool((largest >= LARGE_EPSILON).all()),
            "in all settings the bound is lower at smaller q, and for every prior size it changes "
            f"most at an epsilon of {LARGE_EPSILON:g} or more",
            ours="; ".join(
                f"n = {n}: by {change[n].min():.3f} to {change[n].max():.3f}, most at epsilon = "
                f"{largest[n]:g}"
                for n in change
            ),
        ),
        check(
            "C-053",
            all(gain > error for gain, error in gains.values()),
            "the attack succeeds less often at smaller q",
            ours="; ".join(f"n = {n}: by {rounded(*gain)}" for n, gain in gains.items())
            + " in the mean over epsilon",
            stand_in=stand_in,
        ),
    ]


@computes(f"{KEY}/fig15", *(f"_prior{n}" for n in PRIOR_SIZES), "C-054")
def figure15(context: Context) -> Result:
    """The bound along the curves of equal epsilon, for several epsilons and prior sizes."""
    p = context.settings
    bound = _bound_rows(p.epsilons, p.rates, [p.steps], PRIOR_SIZES)
    printed = registry.printed(f"{KEY}/fig15").set_index("condition")["value"]
    at_32 = bound[np.isclose(bound["epsilon"], 32) & (bound["n"] == 100)]
    ends = _middle(_at(at_32, q=0.01)), _middle(_at(at_32, q=0.99))
    rises = {n: all(_rises(e) for _, e in part.groupby("epsilon")) for n, part in _by_n(bound)}
    noise = all(
        bool((part.sort_values("q")["sigma"].diff().iloc[1:] > 0).all())
        for _, part in bound.groupby(["epsilon", "n"])
    )
    as_printed = (
        abs(ends[0] - float(printed["q=0.01"])) < 0.05
        and abs(ends[1] - float(printed["q=0.99"])) < 0.01
    )
    text = f"{ends[0]:.4f} at q = 0.01, {ends[1]:.4f} at q = 0.99"
    return Result(
        f"{KEY}/fig15",
        [
            check(
                f"{KEY}/fig15",
                noise and all(rises.values()),
                "at equal epsilon more sampling needs more noise, and yet the bound grows",
                ours=f"{len(p.epsilons)} epsilons, {len(p.rates)} values of q, three prior sizes",
            ),
            *(
                check(
                    f"{KEY}/fig15_prior{n}",
                    rises[n] and (n != 100 or as_printed),
                    f"{n} candidates: the bound grows along every curve",
                    ours=_range_of(part),
                )
                for n, part in _by_n(bound)
            ),
            check(
                "C-054",
                as_printed,
                "at epsilon = 32 and 100 candidates the bound is 0.4 at q = 0.01 and 1 at q = 0.99",
                ours=text,
                paper=f"{printed['q=0.01']}, {printed['q=0.99']}",
                tolerance="half a unit of the last printed digit; 0.01 for the 1",
            ),
        ],
        {"bound": bound},
        exact=("bound",),
        ran=f"enclosures of gamma for {len(bound)} runs and prior sizes.",
    )


def _range_of(part: pd.DataFrame) -> str:
    values = part.assign(gamma=(part["gamma from"] + part["gamma to"]) / 2)
    return "; ".join(
        f"epsilon = {epsilon:g}: {own['gamma'].min():.3f} to {own['gamma'].max():.3f}"
        for epsilon, own in values.groupby("epsilon")
    )
