"""One DP-SGD run through every notion of reconstruction risk, and defences without noise.

A small network is trained by full-batch DP-SGD; the adversary knows all records but one, as in
Hayes et al. At each noise multiplier every bound of this study is computed for that run, and every
attack that it bounds is carried out on the same records. Defences without noise are measured on
the same records: what one record's defended gradient still reveals.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import optimize

from companion.exhibit import at_most, every
from companion.experiments.informed_adversary import scene_of
from companion.experiments.tools import attack_repeatedly, data_folder, mean_and_error
from companion.papers.beyond.defended_records import defended_records
from companion.papers.beyond.guesses import RARELY, Guesses
from companion.papers.beyond.informed_adversary import attack_run
from companion.papers.beyond.run_parameters import HAYES, OURS, RUN
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.study.parameters import Settings
from companion.study.verdicts import STANDARD_ERRORS
from companion.style import BOUND, GREEN, GREY, ORANGE, PURPLE, SKY, drawing, legend_below
from reconrisk import DPSGD, bounds, privacy
from reconrisk.attacks import conversion_success, success_interval

_LIU = "as Liu et al."
_EPSILONS = (0.3, 1.0, 10.0, 200.0, 1e3, 1e4, 1e5)
_PAPER_EPSILONS = (0.3, 1.0, 4.0, 10.0, 50.0, 200.0, 1e3, 3e3, 1e4, 1e5)
_LEVELS = "epsilons that set the noise levels, smallest first"
PARAMETERS = {
    "data": RUN["data"],
    "hidden": RUN["hidden"],
    "known": Parameter("int", 299, 999, HAYES, "records known to the attacker", low=1),
    "pool": Parameter("int", 400, 2000, OURS, "records that candidates are drawn from", low=50),
    "targets": Parameter("int", 48, 200, OURS, "records attacked at each noise level", low=8),
    "ranked": Parameter("int", 200, 200, OURS, "records of the prior-aware attack, in all", low=8),
    "fitted": Parameter("int", 8, 4, OURS, "of these, fitted by least squares", low=4),
    "epsilons": Parameter("floats", _EPSILONS, _PAPER_EPSILONS, OURS, _LEVELS, low=1e-2),
    "delta": RUN["delta"],
    "steps": Parameter("int", 20, 100, "100 (Hayes et al.)", "full-batch steps", low=1),
    "max_grad_norm": Parameter("float", 0.1, 0.1, HAYES, "C, clipping norm", low=1e-9),
    "training_rate": Parameter(
        "float", 20.0, 20.0, "swept", "learning rate on the mean clipped gradient", low=1e-9
    ),
    "prior_size": Parameter("int", 8, 8, "8", "candidates of the prior-aware attack", low=2),
    "iterations": Parameter("int", 200, 600, OURS, "iterations of gradient matching", low=1),
    "rate": Parameter("float", 0.05, 0.05, OURS, "its learning rate", low=1e-9),
    "analytic_repeats": Parameter("int", 100, 100, OURS, "analytic attacks on each target", low=10),
    "pruned": Parameter("floats", (0.5, 0.9), (0.5, 0.9), _LIU, "shares of entries pruned", 0.0),
    "dropped": Parameter(
        "floats", (0.5, 0.9), (0.5, 0.9), _LIU, "shares of entries dropped at random", low=0.0
    ),
    "local_steps": Parameter("int", 5, 5, _LIU, "local steps", low=1),
    "local_rate": Parameter("float", 0.1, 0.1, OURS, "learning rate of the local steps", low=0.0),
}
SETTLES = ("O-051", "O-052")
FALSIFIERS = (
    world(
        "a bound that rises with the noise",
        column("notions", "ReRo", lambda c: c.to_numpy()[::-1]),
    ),
    graded(
        "errors of gradient matching {} smaller",
        column("notions", "RMSE", lambda c, by: c * (1 - by)),
    ),
    graded(
        "success of the prior-aware attack {} above the bound",
        frame("notions", lambda t, by: _above(t, "prior-aware", "ReRo", by)),
        "O-051",
        unit="",
    ),
    graded(
        "near misses of gradient matching {} above the bound",
        frame("notions", lambda t, by: _above(t, "near, surely", "ReRo of a near miss", by)),
        "O-051",
        unit="",
    ),
    graded(
        "near misses of the analytic attack {} above the bound",
        frame("notions", lambda t, by: _above(t, "analytic near", "prior-free tail", by)),
        "O-051",
        unit="",
    ),
    graded(
        "errors of the analytic attack {} smaller",
        column("notions", "analytic RMSE", lambda c, by: c * (1 - by)),
        "O-051",
    ),
    graded(
        "least squares {} below the Cramer-Rao bound",
        column("notions", "least squares over bound", lambda c, by: 1 - by),
        "O-051",
    ),
    graded(
        "an epsilon {} smaller",
        column("notions", "epsilon", lambda c, by: c * (1 - by)),
        "O-051",
    ),
    world(
        "no capacity under any noise",
        column("notions", "log capacity", lambda c: 0.0),
        "O-051",
    ),
    world(
        "an update without a defence that does not determine the record",
        column("defences", "Cramer-Rao", lambda c: math.inf, "defence == 'none'"),
        "O-052",
    ),
    world(
        "one of a hundred right candidates missed",
        column("defences", "right candidate", lambda c: c - 0.01),
        "O-052",
    ),
    graded(
        "values read {} off",
        column("defences", "largest error of those", lambda c, by: c + by),
        "O-052",
        unit="",
    ),
    graded(
        "{} of the values not read after clipping and local steps",
        column("defences", "values read", lambda c, by: c - by, "`Cramer-Rao` == 0"),
        "O-052",
    ),
)

#: an advantage over guessing, or a probability of a near miss, that counts as none
NONE = 0.1
#: what an attack may seem to exceed its bound by, standard errors included: of its success among
#: candidates and of near misses (probabilities), of the analytic attack's error and of the
#: Cramer-Rao bound, which few records are fitted for (shares)
SUCCESS, NEAR, EXPECTED, UNBIASED = 0.1, 0.025, 0.01, 0.2
#: the Cramer-Rao bound is compared with least squares where it is at most this
SMALL = 0.05


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tasks = run_tasks(study)
    scene = scene_of(tasks[0])
    pool = scene.images.inputs[scene.positions("pool")].astype(float)
    guesses, weights = Guesses.of(pool), scene.classifier.parameter_count
    rows = []
    results = study.sweep(attack_run, tasks, "noise", threads=1)
    for epsilon, found in zip(p.epsilons, results, strict=True):
        sigma = privacy.noise_for_epsilon(epsilon, p.delta, steps=p.steps)
        run = DPSGD(sigma, steps=p.steps, max_grad_norm=p.max_grad_norm)
        rows.append(
            bounds_of_run(run, p, weights, guesses)
            | informed_attacks(found, len(pool) - 1, p.prior_size, guesses)
            | unbiased_attack(found)
            | analytic_attack(study, run, epsilon, pool, guesses)
        )
    notions = pd.DataFrame(rows)
    defences = defended_records(study, scene, pool)
    shared = (weights, guesses, pool.shape[1], float(np.linalg.norm(pool, axis=1).min()))
    errors = [("mean image", guesses.mean), ("nearest neighbour", guesses.neighbour)]
    return Tables(
        {
            "notions": notions,
            "curves": bound_curves(p, notions["sigma"], *shared),
            "thresholds": thresholds(p, notions, *shared),
            "defences": defences,
            "guesses": pd.DataFrame(errors, columns=["guess", "RMSE"]),
        },
        ran=f"{p.data}, {scene.classifier.inputs}-{p.hidden}-10 network, {p.steps} full-batch "
        f"steps, {p.known} known records, {p.targets} targets at each of {len(p.epsilons)} noise "
        f"levels; {len(defences)} defences on the same targets.",
    )


def run_tasks(study: Context) -> list[dict[str, Any]]:
    """One task for each epsilon, see :func:`attack_run`."""
    p = study.parameters
    names = ("hidden", "known", "max_grad_norm", "training_rate", "delta", "steps", "iterations")
    shared = {name: p[name] for name in (*names, "rate", "pool", "fitted")} | {
        "data": p.data,
        "data_root": data_folder(study, p.data),
        "side": 32,
        "features": 0,
        "matched": p.targets,
        "device": study.device,
        "first": 0,
        "count": min(p.ranked, p.pool),
        "selection_seed": study.seed_of("records"),
    }
    return [shared | {"epsilon": e, "noise_seed": study.seed_of("noise", e)} for e in p.epsilons]


def bounds_of_run(run: DPSGD, p: Settings, weights: int, guesses: Guesses) -> dict[str, float]:
    """The bounds on one run."""
    capacity = float(bounds.bayes_capacity_gaussian(weights, run.noise_multiplier, 1.0))
    return {
        "sigma": run.noise_multiplier,
        "epsilon": privacy.epsilon(run, p.delta).upper,
        "log capacity": p.steps * capacity,
        "ReRo": bounds.rero(run, 1 / p.prior_size).upper,
        "ReRo of a near miss": bounds.rero(run, guesses.kappa).upper,
    }


def informed_attacks(
    found: Mapping[str, Any], others: int, prior_size: int, guesses: Guesses
) -> dict[str, float]:
    """Success among candidates, and errors of gradient matching."""
    aware, by_sum = (
        mean_and_error(conversion_success(np.asarray(found[f"above {score}"]), others, prior_size))
        for score in ("likelihood", "sum")
    )
    mse = np.asarray(found["mse"])
    mean, error = mean_and_error(mse)
    near = int(np.count_nonzero(mse <= guesses.threshold))
    return {
        "prior-aware": aware[0],
        "prior-aware error": aware[1],
        "prior-aware, sum": by_sum[0],
        "prior-aware, sum error": by_sum[1],
        "RMSE": math.sqrt(mean),
        "RMSE error": error / (2 * math.sqrt(mean)),
        "near": near / len(mse),
        "near, surely": success_interval(near, len(mse), 1 - 2 * RARELY)[0],
    }


def unbiased_attack(found: Mapping[str, Any]) -> dict[str, float]:
    """The Cramer-Rao bound and the error of least squares, root mean squares, and their ratio."""
    bound, error = (np.asarray(found[name], dtype=float) for name in ("bound", "error"))
    mean, spread = mean_and_error(np.mean(error**2, axis=1) / np.mean(bound, axis=1))
    return {
        "Cramer-Rao": math.sqrt(float(np.mean(bound))),
        "least squares": math.sqrt(float(np.mean(error**2))),
        "least squares over bound": math.sqrt(mean),
        "least squares over bound error": spread / (2 * math.sqrt(mean)),
    }


def analytic_attack(
    study: Context, run: DPSGD, epsilon: float, pool: np.ndarray, guesses: Guesses
) -> dict[str, float]:
    """The row mean of the server's own layer, which replaces the network, and its exact law."""
    p = study.parameters
    sigma, size = run.noise_multiplier, pool.shape[1]
    # the mean of T steps' reconstructions is one with T times less variance
    attack = (sigma / math.sqrt(p.steps), p.max_grad_norm, p.analytic_repeats)
    squares, expected, tails = [], [], []
    for target, record in enumerate(pool[: p.targets]):
        rebuilt = attack_repeatedly(study, record, *attack, key=("analytic", epsilon, target))
        squares.append(np.mean((rebuilt - record) ** 2, axis=1))
        norm = float(np.linalg.norm(record))
        expected.append(float(bounds.expected_mse(sigma, norm, p.steps)))
        tails.append(_tail(sigma, p.steps, guesses, size, norm))
    mse = np.asarray(squares)
    root = math.sqrt(float(mse.mean()))
    weakest = float(np.linalg.norm(pool, axis=1).min())
    variance = float(np.mean(mse.var(axis=1, ddof=1)))
    return {
        "analytic RMSE": root,
        "analytic RMSE error": math.sqrt(variance / mse.size) / (2 * root),
        "analytic, expected": math.sqrt(float(np.mean(expected))),
        "analytic near": float(np.mean(mse <= guesses.threshold)),
        "analytic near, exact": float(np.mean(tails)),
        # shares of one record's repeats are binomial; records differ
        "analytic near error": math.sqrt(float(np.mean([t * (1 - t) for t in tails])) / mse.size),
        "prior-free tail": _tail(sigma, p.steps, guesses, size, weakest),
    }


def _tail(sigma: float, steps: int, guesses: Guesses, dimension: int, norm: float) -> float:
    return float(bounds.mse_tail(guesses.threshold, dimension, sigma, norm, steps))


# Noise that is enough ----------------------------------------------------------------------------


def bound_curves(
    p: Settings, levels: pd.Series, weights: int, guesses: Guesses, dimension: int, norm: float
) -> pd.DataFrame:
    """The bounds in closed form between the noise levels; the tail at the smallest norm."""
    sigma = np.geomspace(0.7 * levels.min(), 1.4 * levels.max(), 61)
    capacity = p.steps * bounds.bayes_capacity_gaussian(weights, sigma, 1.0)
    epsilon = [privacy.epsilon(DPSGD(s, steps=p.steps), p.delta).upper for s in sigma]
    return pd.DataFrame(
        {
            "sigma": sigma,
            "epsilon": epsilon,
            "log capacity": capacity,
            "ReRo": bounds.rero_gaussian(sigma, 1 / p.prior_size, steps=p.steps),
            "ReRo of a near miss": bounds.rero_gaussian(sigma, guesses.kappa, steps=p.steps),
            "by epsilon": np.minimum(np.exp(np.minimum(epsilon, 50.0)) / p.prior_size + p.delta, 1),
            "by capacity": np.exp(np.minimum(capacity - math.log(p.prior_size), 0.0)),
            "prior-free tail": [_tail(s, p.steps, guesses, dimension, norm) for s in sigma],
        }
    )


def thresholds(
    p: Settings, levels: pd.DataFrame, weights: int, guesses: Guesses, dimension: int, norm: float
) -> pd.DataFrame:
    """The noise multiplier from which each notion sees no risk.

    Probabilities: an advantage of at most a tenth over the guess. Errors: no better than the mean
    image, or than the nearest other record.
    """
    n, steps = p.prior_size, p.steps

    def least(value: Callable[[float], float], level: float) -> float:
        """Where a falling function of sigma reaches a level."""
        return math.exp(optimize.brentq(lambda u: value(math.exp(u)) - level, -12.0, 16.0))

    def rero(kappa: float) -> float:
        level = min(kappa + NONE, 0.999)
        return least(lambda s: float(bounds.rero_gaussian(s, kappa, steps=steps)), level)

    def measured(column: str, level: float) -> float:
        return crossing(levels["sigma"], levels[column], level)

    capacity = least(
        lambda s: steps * float(bounds.bayes_capacity_gaussian(weights, s, 1.0)), math.log(n)
    )
    tail = least(lambda s: _tail(s, steps, guesses, dimension, norm), NONE)
    rows = [
        ("bound", "epsilon = 1", privacy.noise_for_epsilon(1.0, p.delta, steps=steps)),
        ("bound", "epsilon = 10", privacy.noise_for_epsilon(10.0, p.delta, steps=steps)),
        ("bound", "capacity = prior size", capacity),
        ("bound", "ReRo, candidates", rero(1 / n)),
        ("attack", "prior-aware attack", measured("prior-aware", 1 / n + NONE)),
        ("bound", "ReRo, near miss", rero(guesses.kappa)),
        ("bound", "prior-free tail", tail),
        ("attack", "analytic attack: mean image", measured("analytic RMSE", guesses.mean)),
        ("bound", "Cramer-Rao: mean image", measured("Cramer-Rao", guesses.mean)),
        ("attack", "gradient matching: mean image", measured("RMSE", guesses.mean)),
        ("attack", "gradient matching: neighbour", measured("RMSE", guesses.neighbour)),
    ]
    found = pd.DataFrame(rows, columns=["kind", "notion", "sigma"])
    return found.sort_values("sigma", ascending=False, ignore_index=True)


def crossing(sigma: pd.Series, values: pd.Series, level: float) -> float:
    """The noise at which values cross a level, by interpolation in log sigma.

    Outside of the levels that were run, the nearest of them.
    """
    order = np.argsort(sigma.to_numpy())
    x, y = np.log(sigma.to_numpy()[order]), values.to_numpy()[order] - level
    change = np.flatnonzero(np.sign(y[:-1]) != np.sign(y[1:]))
    if not len(change):
        return float(np.exp(x[0] if abs(y[0]) < abs(y[-1]) else x[-1]))
    i = int(change[0])
    return float(np.exp(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))


def judge(tables: Tables) -> Iterator[Verdict]:
    table, defences = tables["notions"], tables["defences"]
    guesses = tables["guesses"].set_index("guess")["RMSE"]
    by_noise = table.sort_values("sigma")
    falling = ("epsilon", "log capacity", "ReRo", "ReRo of a near miss", "prior-free tail")
    least, most = by_noise["RMSE"].iloc[[0, -1]]
    yield check(
        "beyond/one_scale",
        all(by_noise[name].is_monotonic_decreasing for name in falling)
        and most > guesses["nearest neighbour"] > least,
        "every notion falls as the noise grows, and gradient matching, better than the nearest "
        "other record under the least noise, is worse under the most",
        ours=f"RMSE {least:.2f} to {most:.2f}, nearest neighbour "
        f"{guesses['nearest neighbour']:.2f}, mean image {guesses['mean image']:.2f}",
    )
    kept = bounds_kept(table, tables.parameters)
    ratio = table.loc[table["Cramer-Rao"] <= SMALL, "least squares over bound"]
    yield check(
        "O-051",
        every(len(ratio), *itertools.chain(*kept.values())),
        "at every noise level every bound holds for its attack: ReRo, epsilon and "
        "Bayes' capacity for the prior-aware attack, ReRo of a near miss for gradient matching, "
        "the prior-free tail for the analytic attack, Cramer-Rao for least squares at small noise",
        ours=", ".join(f"{name} {held.count(True)} of {len(held)}" for name, held in kept.items())
        + f"; least squares over Cramer-Rao {ratio.min():.1f} to {ratio.max():.1f}; ReRo is up to "
        f"{(table['ReRo'] - table['prior-aware']).max():.1f} above the prior-aware attack",
        tolerance=f"{SUCCESS:g} of success, {NEAR:g} of near misses, {EXPECTED:.0%} of the "
        f"analytic error, {UNBIASED:.0%} of the Cramer-Rao bound, {STANDARD_ERRORS:g} standard "
        "errors included",
        decided_by="more targets",
    )
    whole = defences[defences["defence"].str.startswith(("none", "clipping", "local"))]
    partial = defences.drop(whole.index)
    yield check(
        "O-052",
        (defences["right candidate"] == 1).all()
        and (whole["values read"] == 1).all()
        and (defences["largest error of those"] < 1e-9).all()
        and (whole["Cramer-Rao"] == 0).all(),
        "under defences without noise the prior-aware attack is always right; after clipping and "
        "local steps the record is read off exactly; after pruning and entry dropout the values "
        "that remain are read exactly",
        ours="values read and RMSE of the whole: "
        + ", ".join(
            f"{row['values read']:.0%} and {row['RMSE']:.2g} ({row['defence']})"
            for row in partial.to_dict("records")
        ),
    )


def _above(notions: pd.DataFrame, attack: str, bound: str, by: float) -> pd.DataFrame:
    """An attack above its bound at the noise level where that is nearest to one half."""
    row = (notions[bound] - 0.5).abs().idxmin()
    notions.loc[row, attack] = notions.loc[row, bound] + by
    return notions


def bounds_kept(table: pd.DataFrame, p: Settings) -> dict[str, list[bool | None]]:
    """For each bound, whether it holds for its attack, at every noise level."""
    n = p.prior_size
    aware, by_sum = (
        (table[name], table[f"{name} error"]) for name in ("prior-aware", "prior-aware, sum")
    )
    by_epsilon = np.minimum(np.exp(np.minimum(table["epsilon"], 50.0)) / n + p.delta, 1.0)
    by_capacity = np.exp(np.minimum(table["log capacity"] - math.log(n), 0.0))
    small = table[table["Cramer-Rao"] <= SMALL]
    near, near_error = table["analytic near"], table["analytic near error"]
    expected = table["analytic, expected"]
    analytic = table["analytic RMSE"], table["analytic RMSE error"]
    fitted, exact = small["least squares over bound"], table["analytic near, exact"]
    unsure = table["near, surely"] * 0.0
    return {
        "ReRo (candidates)": _at_most(*aware, table["ReRo"], SUCCESS),
        "ReRo (candidates, sum)": _at_most(*by_sum, table["ReRo"], SUCCESS),
        "ReRo (near misses)": _at_most(
            table["near, surely"], unsure, table["ReRo of a near miss"], 0.0
        ),
        "epsilon": _at_most(*aware, by_epsilon, SUCCESS),
        "Bayes' capacity": _at_most(*aware, by_capacity, SUCCESS),
        "prior-free tail": _at_most(near, near_error, table["prior-free tail"], NEAR),
        "the tail's own law": _at_most((near - exact).abs(), near_error, 0.0, NEAR),
        "expected error of the analytic attack": _at_most(
            (analytic[0] - expected).abs(), analytic[1], 0.0, EXPECTED * expected
        ),
        "Cramer-Rao": _at_most(-fitted, small["least squares over bound error"], -1.0, UNBIASED),
    }


def _at_most(
    value: pd.Series, error: pd.Series, bound: pd.Series | float, margin: pd.Series | float
) -> list[bool | None]:
    """Whether each value is at most a bound and a margin."""
    return [
        at_most(*row) for row in np.transpose(np.broadcast_arrays(value, bound + margin, error))
    ]


CAPTION = (
    "One network, one data set, one run of DP-SGD over the noise multiplier. Lines: "
    "bounds; marks: attacks, with four standard errors. Row by row: finding the record among "
    "candidates; the error of reconstructions; near misses; epsilon and capacity; the noise "
    "from which each notion sees no risk (an advantage of a tenth, or no better than a "
    "guess); the error that reading the first layer leaves under defences without noise, whose "
    "epsilon is infinite and whose ReRo is one. Grey: nearest neighbour and mean image."
)


def alt(tables: Tables) -> str:
    sigma = tables["thresholds"].set_index("notion")["sigma"]
    powers = math.log10(sigma.max() / sigma.min())
    exact = tables["defences"].query("RMSE < 1e-9")["defence"]
    return (
        "Six panels. Success marks lie below the falling S-shaped bound; error marks rise with the "
        "noise along the Cramér-Rao line and flatten below it; near misses fall early. Thresholds "
        f"spread over {powers:.1f} powers of ten: {sigma.idxmin()} at {sigma.min():.2g}, "
        f"{sigma.idxmax()} at {sigma.max():.0f}. Bars: no error for {', '.join(exact)}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    table, curves, guesses = tables["notions"], tables["curves"], tables["guesses"]
    figure = plt.figure(figsize=(8.4, 9.9), layout="constrained")
    # the long names of the lowest panels would narrow those above
    upper, lower = figure.subfigures(2, 1, height_ratios=(2, 1))
    axes = [*upper.subplots(2, 2), lower.subplots(1, 2)]
    _candidates(axes[0][0], table, curves, int(tables.parameters.prior_size))
    _errors(axes[0][1], table, guesses)
    _near_misses(axes[1][0], table, curves)
    _sizes(axes[1][1], curves)
    _thresholds(axes[2][0], tables["thresholds"])
    _defences(axes[2][1], tables["defences"], guesses)
    for axis in (*axes[0], *axes[1]):
        axis.set(xscale="log", xlabel="noise multiplier")
    return figure


def _marks(
    axis: Axes, table: pd.DataFrame, name: str, colour: str, marker: str, label: str
) -> None:
    look: dict[str, Any] = {"color": colour, "fmt": marker, "ms": 5, "capsize": 2, "label": label}
    room = STANDARD_ERRORS * table[f"{name} error"] if f"{name} error" in table else None
    axis.errorbar(table["sigma"], table[name], yerr=room, **look)


def _candidates(axis: Axes, table: pd.DataFrame, curves: pd.DataFrame, count: int) -> None:
    x = curves["sigma"]
    axis.plot(x, curves["by capacity"], ":", color=PURPLE, label="Bayes' capacity")
    axis.plot(x, curves["by epsilon"], "--", color=GREEN, label="epsilon")
    axis.plot(x, curves["ReRo"], color=BOUND, label="ReRo")
    _marks(axis, table, "prior-aware", ORANGE, "o", "prior-aware attack")
    axis.axhline(1 / count, color=GREY, linewidth=1)
    axis.set(ylim=(0, 1.05), ylabel=f"success with {count} candidates")
    legend_below(axis)


def _errors(axis: Axes, table: pd.DataFrame, guesses: pd.DataFrame) -> None:
    x, expected = table["sigma"], table["analytic, expected"]
    axis.plot(x, table["Cramer-Rao"], color=BOUND, label="Cramér-Rao")
    axis.plot(x, expected, color=SKY, label="analytic attack, expected")
    _marks(axis, table, "analytic RMSE", SKY, "v", "analytic attack")
    small = table[table["Cramer-Rao"] < 1]
    _marks(axis, small, "least squares", GREEN, "s", "least squares")
    _marks(axis, table, "RMSE", ORANGE, "o", "gradient matching")
    for style, row in zip(("-.", ":"), guesses.itertuples(), strict=True):
        axis.axhline(row.RMSE, color=GREY, linestyle=style, linewidth=1.1, label=row.guess)
    axis.set(yscale="log", ylim=(2e-3, 3), ylabel="RMSE")
    legend_below(axis)


def _near_misses(axis: Axes, table: pd.DataFrame, curves: pd.DataFrame) -> None:
    x = curves["sigma"]
    axis.plot(x, curves["ReRo of a near miss"], color=BOUND, label="ReRo")
    axis.plot(x, curves["prior-free tail"], color=SKY, label="prior-free tail")
    _marks(axis, table, "analytic near", SKY, "v", "analytic attack")
    _marks(axis, table, "near", ORANGE, "o", "gradient matching")
    axis.set(ylim=(-0.03, 1.05), ylabel="probability of a near miss")
    legend_below(axis)


def _sizes(axis: Axes, curves: pd.DataFrame) -> None:
    axis.plot(curves["sigma"], curves["epsilon"], "--", color=GREEN, label="epsilon")
    axis.plot(curves["sigma"], curves["log capacity"], ":", color=PURPLE, label="log capacity")
    axis.set(yscale="log", ylabel="nats")
    legend_below(axis)


def _thresholds(axis: Axes, table: pd.DataFrame) -> None:
    place = np.arange(len(table))[::-1]
    for kind, colour, marker in (("bound", BOUND, "s"), ("attack", ORANGE, "o")):
        own = (table["kind"] == kind).to_numpy()
        axis.plot(table["sigma"][own], place[own], marker, color=colour, ms=6, label=kind)
    axis.set_yticks(place, table["notion"], fontsize=8)
    axis.set(xscale="log", xlabel="noise multiplier from which no risk is seen")
    legend_below(axis)


def _defences(axis: Axes, table: pd.DataFrame, guesses: pd.DataFrame) -> None:
    place = np.arange(len(table))[::-1]
    axis.barh(place, table["RMSE"], color=PURPLE, height=0.55)
    look: dict[str, Any] = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
    look |= {"fontsize": 8, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}}
    for y, error, read in zip(place, table["RMSE"], table["values read"], strict=True):
        axis.annotate(f"{read:.0%} read", (error, y), **look)
    axis.set_yticks(place, table["defence"], fontsize=8)
    for style, guess in zip(("-.", ":"), guesses.itertuples(), strict=True):
        axis.axvline(guess.RMSE, color=GREY, linestyle=style, linewidth=1.1)
    axis.set(xlim=(0, 1.25 * guesses["RMSE"].max()), xlabel="RMSE of the record as read")
