"""Runs of DP-SGD ordered by each notion of risk, and where two notions disagree."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from companion.style import COLOURS, drawing, legend_below, panels
from reconrisk import DPSGD, bounds, privacy

_OURS = "not printed: our own"
_RATES, _STEPS, _EPSILONS = (1.0, 1.0, 0.1, 0.01), (1, 100, 100, 10_000), (1.0, 4.0, 16.0)
PARAMETERS = {
    "rates": Parameter("floats", _RATES, _RATES, _OURS, "q", low=1e-6),
    "steps": Parameter("ints", _STEPS, _STEPS, _OURS, "T", low=1),
    "epsilons": Parameter("floats", _EPSILONS, _EPSILONS, _OURS, "epsilons", low=1e-2),
    "apart": Parameter("float", 1.1, 1.1, _OURS, "factor between the noise of two runs", low=1.0),
    "delta": Parameter("float", 1e-5, 1e-5, _OURS, "delta", low=1e-100),
    "dimension": Parameter("int", 784, 784, _OURS, "N, values of a record", low=2),
    "parameters": Parameter("int", 7960, 7960, "7,960 (Hayes et al.)", "p, released values", low=2),
}
SETTLES = ("O-059",)
FALSIFIERS = (
    graded(
        "a run with {} more risk than one of its family with less noise",
        column("runs", "capacity", lambda c, by: c * (1 + by), "index == 1"),
    ),
    world(
        "an advantage that noise does not move",
        column("runs", "advantage", lambda c: 0.5),
    ),
    world(
        "all notions rank the runs as epsilon does",
        frame("runs", lambda t: t.assign(**{name: t["epsilon"] for name in _notions(t)})),
        "O-059",
    ),
    world(
        "the error without a prior ranks the runs as epsilon does",
        frame("runs", lambda t: t.assign(**{"prior-free": t["epsilon"]})),
        "O-059",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    rows = []
    for (q, steps), epsilon in itertools.product(zip(p.rates, p.steps, strict=True), p.epsilons):
        sigma = privacy.noise_for_epsilon(epsilon, p.delta, sampling_rate=q, steps=steps)
        # with a little more noise, so that no two runs have the same epsilon
        for factor in (1.0, p.apart):
            run = DPSGD(factor * sigma, q, steps)
            known = {"q": q, "T": steps, "sigma": run.noise_multiplier}
            rows.append(known | risks(run, p.delta, p.parameters))
    runs = pd.DataFrame(rows)
    return Tables(
        {
            "runs": runs,
            "agreement": rank_correlations(runs).reset_index(names="notion"),
            "reversals": pd.DataFrame(reversals(runs), columns=["first", "second", "runs"]),
        },
        ran=f"{len(runs)} runs of DP-SGD: q and T of {len(p.rates)} families, noise tuned to "
        f"{len(p.epsilons)} epsilons at delta = {p.delta:g}, and {p.apart:g} times that; N = "
        f"{p.dimension}, p = {p.parameters:,}.",
    )


def risks(run: DPSGD, delta: float, parameters: int) -> dict[str, float]:
    """Each notion's value for one run, larger where the risk is higher."""
    taken = max(1.0, run.sampling_rate * run.steps)
    sigma = run.noise_multiplier
    return {
        "epsilon": privacy.epsilon(run, delta).upper,
        "advantage": privacy.delta(run, 0.0).upper,
        "ReRo, 10": bounds.rero(run, 0.1).upper,
        "ReRo, 1e-6": bounds.rero(run, 1e-6).upper,
        "prior-free": taken / sigma**2,
        "no sampling": run.steps / sigma**2,
        "capacity": run.steps * float(bounds.bayes_capacity_gaussian(parameters, sigma, 1.0)),
    }


def _notions(runs: pd.DataFrame) -> list[str]:
    return list(runs.columns.drop(["q", "T", "sigma"]))


def rank_correlations(runs: pd.DataFrame) -> pd.DataFrame:
    """Kendall's rank correlation of every two notions over all runs."""
    names = _notions(runs)
    tau = [[float(stats.kendalltau(runs[a], runs[b]).statistic) for b in names] for a in names]
    return pd.DataFrame(tau, index=names, columns=names)


def reversals(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Pairs of notions that order two runs oppositely by at least one per cent, and the runs."""
    found = []
    for first, second in itertools.combinations(_notions(runs), 2):
        a, b = runs[first].to_numpy(), runs[second].to_numpy()
        worse = (a[:, None] > 1.01 * a) & (1.01 * b[:, None] < b)
        if not worse.any():
            continue
        # the pair with the largest product of the two gaps
        with np.errstate(divide="ignore"):
            size = np.where(worse, np.log(a[:, None] / a) * np.log(b / b[:, None]), 0.0)
        pair = np.unravel_index(size.argmax(), size.shape)
        found.append((first, second, " against ".join(_in_words(runs.iloc[k]) for k in pair)))
    return found


def _in_words(run: pd.Series) -> str:
    return f"q = {run['q']:g}, T = {run['T']:,.0f}, sigma = {run['sigma']:.2f}"


def judge(tables: Tables) -> Iterator[Verdict]:
    runs = tables["runs"]
    names = _notions(runs)
    families = [own for _, own in runs.sort_values("sigma").groupby(["q", "T"])]
    yield check(
        "beyond/orderings",
        all((own[name].diff().dropna() < 0).all() for own in families for name in names),
        "all notions order runs that differ only in the noise alike",
        ours=f"{len(names)} notions, {len(runs)} runs in {len(families)} families",
    )
    found = {(first, second) for first, second, _ in reversals(runs)}
    pairs = len(names) * (len(names) - 1) // 2
    yield check(
        "O-059",
        len(found) >= pairs - 1 and ("epsilon", "prior-free") in found,
        "across sampling rates and numbers of steps all pairs of notions, except at most one, "
        "order some runs oppositely",
        ours=f"{len(found)} of {pairs} pairs of notions; lowest rank correlation "
        f"{rank_correlations(runs).min(axis=None):.2f}",
    )


CAPTION = (
    "Runs of DP-SGD as the notions rank them. Left: rank correlations between notions over "
    "all runs; one means the same order. Right: each run by epsilon and by the noise left to an "
    "attacker without a prior; lines join runs of one sampling rate and number of steps."
)


@drawing
def draw(tables: Tables) -> Figure:
    tau = rank_correlations(tables["runs"])
    figure, (row,) = panels(1, 2, 4.9, 3.9)
    row[0].imshow(tau, cmap="Blues", vmin=0, vmax=1.4)
    for i, j in np.ndindex(tau.shape):
        row[0].text(j, i, f"{tau.iloc[i, j]:.2f}", ha="center", va="center", fontsize=8)
    row[0].set_xticks(range(len(tau)), tau.columns, rotation=40, ha="right")
    row[0].set_yticks(range(len(tau)), tau.index)
    row[0].grid(False)
    families = tables["runs"].sort_values("epsilon").groupby(["q", "T"])
    for colour, marker, ((q, steps), own) in zip(COLOURS, "os^D", families, strict=False):
        look = {"marker": marker, "color": colour, "ms": 4}
        label = f"q = {q:g}, T = {steps:,}"
        row[1].plot(own["epsilon"], own["prior-free"] ** -0.5, label=label, **look)
    row[1].set(xscale="log", yscale="log", xlabel=r"$\varepsilon$")
    row[1].set_ylabel(r"noise of the averaged record, $\sigma/\sqrt{qT}$")
    legend_below(row[1])
    return figure
