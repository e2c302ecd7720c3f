"""What an epsilon means: every other notion at its noise, for fixed sampling rate and steps."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from companion.experiments.tools import data_folder
from companion.papers.beyond.guesses import Guesses
from companion.papers.beyond.run_parameters import OURS, RUN
from companion.study import Context, Parameter, Tables, Verdict, check, measurement
from companion.study.falsifiers import column, frame, graded, world
from reconrisk import DPSGD, bounds, datasets, privacy
from reconrisk.models import Classifier

_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 480.0)
PARAMETERS = {
    **RUN,
    "epsilons": Parameter("floats", _EPSILONS, _EPSILONS, OURS, "smallest first", low=1e-2),
}
SETTLES = ("O-060",)
SHOWN = ("what an epsilon means",)
FALSIFIERS = (
    world(
        "a notion that epsilon does not move",
        column("values", "near miss", lambda c: c.iloc[0]),
    ),
    world(
        "an error that grows with epsilon",
        column("values", "RMSE (A)", lambda c: c.to_numpy()[::-1]),
    ),
    world(
        "2 and 1,000 candidates exchanged",
        frame("levels", lambda t: t.assign(notion=t["notion"].replace(_EXCHANGED))),
        "O-060",
    ),
    graded(
        "an attacker with 1,000 candidates who needs {} less epsilon",
        frame("values", lambda t, by: _sooner(t, "1,000 candidates", 1 - by)),
        "O-060",
        most=0.9,
    ),
    graded(
        "an attacker without a prior who needs {} less epsilon",
        frame("values", lambda t, by: _sooner(t, "RMSE (A)", 1 - by)),
        "O-060",
        most=0.9,
    ),
)
_EXCHANGED: dict[str, str] = {
    "2 candidates": "1,000 candidates",
    "1,000 candidates": "2 candidates",
}

#: notion -> whether it grows with the risk
GROWS = {
    "membership advantage": True,
    "2 candidates": True,
    "10 candidates": True,
    "1,000 candidates": True,
    "near miss": True,
    "RMSE (A)": False,
    "NCC (A)": True,
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    root = data_folder(study, p.data)
    images = datasets.classified(p.data, Path(root) if root else None, "train")
    chosen = study.rng("records").permutation(len(images))[: p.pool]
    pool = images.inputs[chosen].astype(float)
    guesses = Guesses.of(pool)
    norms = np.linalg.norm(pool, axis=1)
    middle = pool[int(np.argsort(norms)[len(norms) // 2])]
    record = {
        "dimension": pool.shape[1],
        "norm": float(np.linalg.norm(middle)),
        "contrast": float(bounds.contrast_of(middle)),
        "kappa": guesses.kappa,
        "parameters": Classifier(pool.shape[1], p.hidden, images.classes).parameter_count,
    }
    rows = []
    for epsilon in p.epsilons:
        sigma = privacy.noise_for_epsilon(
            epsilon, p.delta, sampling_rate=p.sampling_rate, steps=p.steps
        )
        run = DPSGD(sigma, p.sampling_rate, p.steps)
        rows.append({"epsilon": epsilon, "sigma": sigma} | readings(run, record))
    table = pd.DataFrame(rows)
    levels = {
        # an advantage of one half over the guess
        "2 candidates": 0.5 * (1 + 0.5),
        "10 candidates": 0.5 * (1 + 0.1),
        "1,000 candidates": 0.5 * (1 + 1e-3),
        "near miss": 0.5 * (1 + guesses.kappa),
        # the mean picture's error, which needs no gradient
        "RMSE (A)": guesses.mean,
    }
    return Tables(
        {
            "what an epsilon means": table.map(lambda value: f"{value:.3g}"),
            "values": table,
            "levels": pd.DataFrame(levels.items(), columns=["notion", "level"]),
        },
        ran=f"closed forms and certified bounds at q = {p.sampling_rate:g}, T = {p.steps}, delta = "
        f"{p.delta:g}; records of {p.data}, one of median norm.",
    )


def readings(run: DPSGD, record: Mapping[str, float]) -> dict[str, float]:
    """All notions at one noise, for a record of given dimension, norm, contrast and kappa."""
    taken = max(1, round(run.sampling_rate * run.steps))
    sigma, n, norm = run.noise_multiplier, int(record["dimension"]), record["norm"]
    capacity = float(bounds.bayes_capacity_gaussian(int(record["parameters"]), sigma, 1.0))
    return {
        "membership advantage": privacy.delta(run, 0.0).upper,
        "2 candidates": bounds.rero(run, 0.5).upper,
        "10 candidates": bounds.rero(run, 0.1).upper,
        "1,000 candidates": bounds.rero(run, 1e-3).upper,
        "near miss": bounds.rero(run, record["kappa"]).upper,
        "RMSE (A)": math.sqrt(float(bounds.expected_mse_shrunk(n, sigma, norm, taken))),
        "PSNR (A)": float(bounds.expected_psnr(n, sigma, norm, 1.0, taken)),
        "NCC (A)": float(bounds.expected_ncc(n, sigma, record["contrast"], taken)),
        "RMSE (Guo et al.)": math.sqrt(float(bounds.mse_lower_bound(sigma, taken))),
        "log capacity": run.steps * capacity,
    }


def epsilon_of_level(epsilons: pd.Series, values: pd.Series, level: float) -> float:
    """The epsilon at which a monotone notion reaches a level, by interpolation in log epsilon.

    ``epsilons`` must increase; infinite if the level is not reached.
    """
    x, gap = np.log(np.asarray(epsilons, dtype=float)), np.asarray(values, dtype=float) - level
    change = np.flatnonzero(np.sign(gap[:-1]) != np.sign(gap[1:]))
    if not len(change):
        return math.inf
    i = int(change[0])
    return float(np.exp(x[i] - gap[i] * (x[i + 1] - x[i]) / (gap[i + 1] - gap[i])))


def _sooner(values: pd.DataFrame, notion: str, share: float) -> pd.DataFrame:
    """A notion that says at this share of an epsilon what it says at the whole."""
    epsilons = np.log(values["epsilon"].to_numpy())
    sooner = np.interp(epsilons - math.log(share), epsilons, values[notion])
    return values.assign(**{notion: sooner})


def judge(tables: Tables) -> Iterator[Verdict]:
    values, levels = tables["values"], tables["levels"].set_index("notion")["level"]
    yield check(
        "beyond/epsilon_means",
        all(
            ((values[name] if grows else -values[name]).diff().dropna() > 0).all()
            for name, grows in GROWS.items()
        ),
        "at a fixed sampling rate and number of steps, every notion of risk falls with epsilon",
        ours=f"{len(GROWS)} notions at {len(values)} epsilons",
    )
    found = {
        notion: epsilon_of_level(values["epsilon"], values[notion], level)
        for notion, level in levels.items()
    }
    two, ten, thousand = (found[f"{n} candidates"] for n in ("2", "10", "1,000"))
    yield check(
        "O-060",
        two < ten < thousand < found["RMSE (A)"] and found["near miss"] < found["RMSE (A)"],
        "the epsilon at which a notion allows an advantage of one half over guessing grows with "
        "the number of candidates, and is largest for a reconstruction without a prior that beats "
        "the mean picture",
        ours=", ".join(f"{name} at epsilon {value:.2g}" for name, value in found.items()),
    )
