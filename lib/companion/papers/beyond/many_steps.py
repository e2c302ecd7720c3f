"""The averaged attack over many sampled steps: exact tail and expected MSE over T and |D|."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.experiments.tools import attack_repeatedly, jointly
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.study.falsifiers import column, graded, together, world
from companion.study.verdicts import rounded, within
from companion.style import COLOURS, GREY, drawing, panels
from reconrisk import bounds

_OURS = "our own exhibit"
_RECORDS, _STEPS = (100, 1000, 10_000), (1, 10, 100, 1000, 10_000, 100_000)

PARAMETERS = {
    "noise_multiplier": Parameter("float", 0.05, 0.05, _OURS, "sigma", 1e-12),
    "dimension": Parameter("int", 64, 64, _OURS, "N", 1),
    "records": Parameter("ints", _RECORDS, _RECORDS, _OURS, "|D|", 2),
    "steps": Parameter("ints", _STEPS, _STEPS, _OURS, "T", 1),
    "points": Parameter("int", 60, 60, _OURS, "values of T on a curve", 2),
    "threshold": Parameter("float", 0.02, 0.02, _OURS, "eta, in units of ||X||^2 / N", 1e-12),
    "trials": Parameter("int", 10_000, 100_000, _OURS, "simulated runs for the check", 1000),
}
SETTLES = ("O-004",)
FALSIFIERS = (
    graded(
        "simulated runs that succeed {} more often",
        column("simulated", "simulated", lambda c, by: c * (1 + by)),
        *("", "O-004"),
    ),
    world(
        "a tail that does not grow with T",
        together(
            column("mixture", "log tail", lambda c: c.to_numpy()[::-1]),
            column("mixture", "P(MSE <= eta)", lambda c: c.to_numpy()[::-1]),
        ),
        *("", "O-004"),
    ),
    world(
        "as likely as when every step is a hit",
        column("simulated", "simulated", lambda c: 1.0),
        *("", "O-004"),
    ),
    graded(
        "a tail with certain hits {} smaller",
        column("mixture", "every step a hit", lambda c, by: c * (1 - by)),
        *("", "O-004"),
    ),
)

#: how near the simulated share must come to the exact probability
MARGIN = 0.03

#: T of the simulated runs
_SIMULATED_STEPS = 1000


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    law = (p.threshold / p.dimension, p.dimension, p.noise_multiplier, 1.0)  # ||X|| = 1
    rows = [_mixture(law, records, steps) for records in p.records for steps in p.steps]
    ends = math.log10(min(p.steps)), math.log10(max(p.steps))
    between = np.unique(np.logspace(*ends, p.points).round()).astype(int)
    curves = [_mixture(law, records, int(steps)) for records in p.records for steps in between]
    simulated = {
        "|D|": min(p.records),
        "T": _SIMULATED_STEPS,
        "simulated": _share_within(study, min(p.records)),
        "exact": float(bounds.mse_tail_sampled(*law, _SIMULATED_STEPS, 1 / min(p.records))),
    }
    return Tables(
        {
            "mixture": pd.DataFrame(rows),
            "curves": pd.DataFrame(curves),
            "simulated": pd.DataFrame([simulated]),
        },
        exact=("mixture",),
        ran=f"closed forms at N = {p.dimension}, sigma = {p.noise_multiplier:g}, eta = "
        f"{p.threshold:g} ||X||^2 / N; {p.trials} simulated runs of {_SIMULATED_STEPS} steps.",
    )


def _mixture(law: tuple[float, int, float, float], records: int, steps: int) -> dict[str, float]:
    """The averaged attack's laws for one size of the data set and one number of steps."""
    tail = float(bounds.mse_tail_sampled(*law, steps, 1 / records, log=True))
    expected = bounds.expected_mse_sampled(law[2], law[3], steps, 1 / records)
    return {
        "|D|": records,
        "T": steps,
        "log tail": tail,
        "P(MSE <= eta)": math.exp(tail),
        "P(met at all)": -math.expm1(steps * math.log1p(-1 / records)),
        "E[MSE | met]": float(expected),
        "every step a hit": float(bounds.mse_tail(*law, steps)),
    }


def _share_within(study: Context, records: int) -> float:
    """Select, attack the real step, average: the share of averages within the threshold."""
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    hits = study.rng("selection").binomial(_SIMULATED_STEPS, 1 / records, p.trials)
    rebuilt = attack_repeatedly(
        study, record, p.noise_multiplier, 0.5, int(hits.sum()), key=("steps",)
    )
    met = np.flatnonzero(hits)
    first = np.concatenate([[0], np.cumsum(hits[met])[:-1]])  # each run's own steps
    average = np.add.reduceat(rebuilt, first, axis=0) / hits[met, None]
    within = np.square(average - record).mean(axis=1) <= p.threshold / p.dimension
    return float(within.sum() / p.trials)


def judge(tables: Tables) -> Iterator[Verdict]:
    table, simulated = tables["mixture"], tables["simulated"].iloc[0]
    exact = simulated["exact"]
    error = math.sqrt(exact * (1 - exact) / tables.parameters.trials)
    agrees = within(simulated["simulated"], exact, error, MARGIN)
    grows = all(
        (own["log tail"].diff().dropna() >= -1e-12).all() for _, own in table.groupby("|D|")
    )
    below = (table["P(MSE <= eta)"] <= table["every step a hit"] * (1 + 1e-12)).all()
    verdict = check(
        "beyond/many_steps",
        jointly(agrees, bool(grows and below)),
        "simulated selection and averaging agree with the mixture, whose tail grows with T and "
        "stays below that of T certain hits",
        ours=f"{len(table)} settings; T = {simulated['T']:.0f}, |D| = {simulated['|D|']:.0f}: "
        f"{rounded(simulated['simulated'], error)} simulated, {exact:.4f} exact",
        tolerance=f"{MARGIN:g}, its error included",
    )
    yield from shared_by(verdict, "O-004")


CAPTION = (
    "The averaged attack when every step picks one of |D| records: exact probability of success "
    "(left) and expected MSE given that the record is drawn at all (right), over the number of "
    "steps. Grey: every step a hit."
)


@drawing
def draw(tables: Tables) -> Figure:
    table = tables["curves"]
    figure, (row,) = panels(1, 2, 4.2, 3.2)
    for colour, style, (size, own) in zip(
        COLOURS, ("-", "--", ":"), table.groupby("|D|"), strict=False
    ):
        look = {"color": colour, "linestyle": style}
        row[0].plot(own["T"], own["P(MSE <= eta)"], label=f"|D| = {size:,}", **look)
        row[1].plot(own["T"], own["E[MSE | met]"], **look)
    certain = table[table["|D|"] == table["|D|"].min()]
    row[0].plot(certain["T"], certain["every step a hit"], color=GREY, lw=1, label="every step")
    for axis in row:
        axis.set(xscale="log", yscale="log", xlabel="steps T")
    row[0].set(ylim=(1e-12, 3), ylabel=r"P(MSE $\leq \eta$)")
    row[1].set(ylabel=r"E[MSE | drawn] / $\|X\|^2$")
    row[0].legend(loc="lower right")
    return figure
