"""Proposition B.2: the limit of the variance as M grows, and what other parameters do to it."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from reconrisk import DPSGD
from reconrisk.attacks import known_scale, observe
from reconrisk.mechanisms import global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients, single_record_steps

ROWS = (1, 10, 100, 1000)

PARAMETERS = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
    "rows": Parameter("ints", ROWS, (*ROWS, 10_000), STATED, "M", 1),
}
SETTLES = ("A-008", "A-013", "A-015", "E-A-12", "E-A-16")
ALTERED = {
    "variance": {
        "variance": "variances",
        "theory": "variances in closed form",
        "gradient norm": at("`rows M` == `rows M`.max()", "gradient norms at the most rows"),
    },
    "added": {
        "variance": by("added", "variances", each="with {}"),
        "bias over noise": "mean errors over the noise",
    },
}

#: how near measured variances must come to theirs, relative
MARGIN = 0.1
#: the same for the network with an added branch, which is cheap to measure
ADDED_MARGIN = 0.02
#: how large the bias of a coordinate may be, over its noise: adds a quarter of a per cent to an MSE
BIAS_MARGIN = 0.05
SHIFTED = "a branch fed X - 1/2"


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    record = study.rng("record").random(p.dimension)
    record /= np.linalg.norm(record)
    clipping = 2.0
    run = DPSGD(p.noise_multiplier, max_grad_norm=clipping)
    variances = []
    for rows in p.rows:
        repeats = max(50, min(p.repeats, 8_000_000 // (rows * p.dimension)))
        inputs = tensor(study, np.broadcast_to(record, (repeats, p.dimension)))
        for bias in (False, True):
            generator = study.generator(rows, bias)
            rebuilt = as_numpy(known_scale(observe(inputs, run, generator, rows=rows, bias=bias)))
            squares = np.square(rebuilt - record).mean(axis=1)
            norm = math.sqrt(rows * (1 + bias))
            theory = (clipping * p.noise_multiplier * max(1.0, norm / clipping)) ** 2 / rows
            layer = AttackLayer(p.dimension, rows, bias=bias, dtype=torch.float64)
            gradient = per_example_gradients(layer, sum_of_outputs, inputs[:1].cpu())
            measured = mean_and_error(squares)
            variances.append((rows, bias, float(global_norm(gradient)), *measured, theory))
    columns = ["rows M", "bias", "gradient norm", "variance", "standard error", "theory"]
    return Tables(
        {"variance": pd.DataFrame(variances, columns=columns), "added": _added(study)},
        ran=f"DP-SGD steps with and without bias for M up to {max(p.rows)}, C = 2 ||X||; "
        f"{5 * p.repeats} steps of layers of two rows with components added.",
    )


class _Branches(torch.nn.Module):
    """Layers side by side: their gradients are released, clipped and noised together."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(inputs) for layer in self.layers], dim=-1)


def _added(study: Context) -> pd.DataFrame:
    """Variance over ``sigma^2 ||X||^2`` of unbiased reconstructions, with components added.

    Of two branches fed X and X - 1/2 the reconstruction is the mean of the two row means.
    """
    p = study.parameters
    record = study.rng("branch").random(p.dimension)
    norm, distance = np.linalg.norm(record), np.linalg.norm(record - 0.5)
    grey = torch.full((p.dimension,), 0.5, dtype=torch.float64)
    kind = {"dimension": p.dimension, "rows": 2, "dtype": torch.float64}
    cases = {
        "nothing": ([AttackLayer(**kind)], 1.0),
        "a bias": ([AttackLayer(**kind, bias=True)], 1 + 1 / norm**2),
        "more rows": ([AttackLayer(**kind), AttackLayer(**kind)], 1.0),
        SHIFTED: (
            [AttackLayer(**kind), AttackLayer(**kind, offset=grey)],
            (1 + (distance / norm) ** 2) / 2,
        ),
    }
    # low enough that every gradient is clipped
    run = DPSGD(p.noise_multiplier, max_grad_norm=0.5 * float(norm))
    repeats = 5 * p.repeats
    inputs = tensor(study, np.broadcast_to(record, (repeats, p.dimension)))
    rows = []
    for name, (layers, theory) in cases.items():
        network = _Branches(*layers).to(study.device)
        generator = study.generator("added", name)
        released, factor = single_record_steps(network, sum_of_outputs, inputs, run, generator)
        means = [
            released[f"layers.{i}.weight"].mean(dim=1) / factor[:, None]
            + (0 if layer.offset is None else layer.offset)
            for i, layer in enumerate(network.layers)
        ]
        rebuilt = as_numpy(torch.stack(means).mean(dim=0))
        spread = p.noise_multiplier * norm
        variance, error = mean_and_error(np.square(rebuilt - record).mean(axis=1) / spread**2)
        bias = np.abs(rebuilt.mean(axis=0) - record).max() / spread
        rows.append((name, variance, error, theory, bias, 1 / math.sqrt(repeats)))
    columns = ["added", "variance", "standard error", "theory", "bias over noise"]
    return pd.DataFrame(rows, columns=[*columns, "standard error of the bias"])


def judge(tables: Tables) -> Iterator[Verdict]:
    table, least = tables["variance"], tables.parameters.noise_multiplier**2
    off = ((table["variance"] - table["theory"]).abs() / table["theory"]).max()
    near = _near(table, MARGIN)
    largest = table["rows M"].max()
    limits = table[table["rows M"] == largest].set_index("bias")
    limits = limits[["theory", "variance", "standard error"]] / least
    kept = limits["theory"][True]
    measured = {bias: rounded(*limits.loc[bias][1:]) for bias in (False, True)}
    floor = check(
        "mean_to_extreme/propB2",
        every(
            near,
            bool((table["theory"] >= least * (1 - 1e-12)).all()),
            bool(abs(limits["theory"][False] - 1) < 1e-9),
        ),
        "the variance tends to sigma^2 ||X||^2 from above as M grows",
        ours=f"variance over sigma^2 ||X||^2 at M = {largest}: {measured[False]}; "
        f"{table['rows M'].nunique()} values of M within {off:.1%} of theory",
        paper="at least 1",
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    yield from shared_by(floor, "A-008")
    with_bias = table[table["bias"]]
    above = with_bias["theory"].to_numpy() >= table.loc[~table["bias"], "theory"].to_numpy()
    yield check(
        "A-015",
        every(_near(with_bias, MARGIN), bool(above.all() and abs(kept / 2 - 1) < 1e-9)),
        "with the bias kept the variance tends to sigma^2 (||X||^2 + 1)",
        ours=f"at ||X|| = 1 and M = {largest}: {measured[True]} sigma^2 with the bias, "
        f"{measured[False]} sigma^2 without",
        paper="2 and 1",
        tolerance=f"{MARGIN:.0%}, errors included",
    )
    without = table[~table["bias"]]
    slope = np.polyfit(np.log(without["rows M"]), np.log(without["gradient norm"]), 1)[0]
    yield refute(
        "E-A-12",
        holds=abs(slope - 1) < 0.1 or abs(kept - 1) < 0.1,
        corrected_holds=abs(slope - 0.5) < 1e-9 and abs(kept / 2 - 1) < 1e-9,
        ours=f"slope {slope:.3f}; limit over sigma^2 with bias and ||X|| = 1: {measured[True]}",
        paper="slope 1; limit 1",
    )
    yield from _judge_added(tables["added"])


def _near(table: pd.DataFrame, margin: float) -> bool | None:
    """Whether the measured variances are those of theory, up to a relative margin."""
    ratio, error = (table[c] / table["theory"] for c in ("variance", "standard error"))
    return within(ratio, 1, error, margin)


def _judge_added(table: pd.DataFrame) -> Iterator[Verdict]:
    own = table.set_index("added")
    helped = own.loc[SHIFTED]
    unbiased = within(own["bias over noise"], 0, own["standard error of the bias"], BIAS_MARGIN)
    lower = helped["variance"] + STANDARD_ERRORS * helped["standard error"] < 1
    cannot_help = refute(
        "A-013",
        erratum="E-A-16",
        holds=not lower,
        corrected_holds=every(unbiased, _near(table, ADDED_MARGIN)),
        ours="variance over sigma^2 ||X||^2: "
        + ", ".join(
            f"{name} added {rounded(row['variance'], row['standard error'])}"
            for name, row in own.iterrows()
        ),
        paper="at least 1",
    )
    yield from shared_by(cannot_help, "E-A-16")
