"""Propositions B.1 and B.2: X_hat without the scale, over the rows, and in other networks."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.exhibit import *
from companion.papers.mean_to_extreme.theorem_parameters import REPEATS, SIGMA, STATED
from reconrisk import DPSGD
from reconrisk.attacks import known_scale, observe, ratio_by_row
from reconrisk.mechanisms import clip, global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients, single_record_steps

EXHIBITS = ("propB1", "propB2")

PARAMETERS_PROPB1 = {
    "repeats": Parameter("int", 20_000, 1_000_000, STATED, "simulated steps", 1000),
    "noise_multiplier": SIGMA,
}
SETTLES_PROPB1 = ("A-007", "A-052", "E-A-08")
ALTERED_PROPB1 = {
    "clipped gradients": {"2 X": "gradients of 2X"},
    "ratio": {
        "tail index": "tail indices",
        "largest": "the largest ratios",
        "p-value, Cauchy": "p-values of a Cauchy law",
        "p-value, independent": "p-values of independence",
    },
}
#: variances exist from a tail index of 2 on: the index must be on this side of half-way
INDEX_MARGIN = 0.5


def measure_propb1(study: Context) -> Tables:
    """Proposition B.1: without the scale, rows do not determine the record; ratios lack moments."""
    p = study.parameters
    record = np.array([0.6, -0.3])
    run = DPSGD(p.noise_multiplier, max_grad_norm=1.0)
    layer = AttackLayer(2, 4, dtype=torch.float64)
    twins = torch.as_tensor(np.stack([record, 2 * record]))
    clipped, _ = clip(per_example_gradients(layer, sum_of_outputs, twins), run.max_grad_norm)
    of_one, of_double = as_numpy(clipped["weight"]).reshape(2, -1)

    inputs = tensor(study, np.broadcast_to(record, (p.repeats, 2)))
    update = observe(inputs, run, study.generator("ratio"), bias=True, keep_rows=True)
    ratios = as_numpy(ratio_by_row(update))[:, 0]
    distance = np.abs(ratios - record)
    magnitude = np.sort(distance[:, 0])[::-1]
    top = max(50, p.repeats // 50)
    first = ratios[:, 0]
    quartiles = np.quantile(first, (0.25, 0.75))
    centred = (first - np.median(first)) / (np.diff(quartiles)[0] / 2)
    tails = {
        "top": top,
        "tail index": 1 / np.mean(np.log(magnitude[:top] / magnitude[top])),  # Hill's estimator
        "largest of a hundredth": np.abs(first[: p.repeats // 100]).max(),
        "largest": np.abs(first).max(),
        "p-value, Cauchy": ks_p_value(centred, stats.cauchy.cdf),
        "p-value, independent": stats.spearmanr(distance[:, 0], distance[:, 1]).pvalue,
    }
    return Tables(
        {
            "clipped gradients": pd.DataFrame({"X": of_one, "2 X": of_double}),
            "ratio": pd.DataFrame([tails]),
        },
        ran=f"{p.repeats} ratios of one row's noisy weight and bias gradients.",
    )


def judge_propb1(tables: Tables) -> Iterator[Verdict]:
    gradients, tails = tables["clipped gradients"], tables["ratio"].iloc[0]
    gap = (gradients["X"] - gradients["2 X"]).abs().max()
    same = check(
        "mean_to_extreme/propB1",
        gap < 1e-12,
        "X and 2X, both clipped, release the same distribution: no estimator from the rows alone "
        "can be unbiased for both",
        ours=f"largest difference of the clipped gradients {gap:.1g}",
    )
    yield from shared_by(same, "A-052")
    index_error = tails["tail index"] / math.sqrt(tails["top"])
    heavy = within(tails["tail index"], 1, index_error, INDEX_MARGIN)
    yield check(
        "A-007",
        every(heavy, bool(tails["largest"] > 10 * tails["largest of a hundredth"])),
        "the ratio has tails of index 1 (Cauchy-like): no mean, no variance",
        ours=f"Hill index {rounded(tails['tail index'], index_error)}",
        paper="1 (Cauchy)",
        tolerance=f"{INDEX_MARGIN:g}, {STANDARD_ERRORS:g} standard errors included",
    )
    # the ratio is not Cauchy unless centred, and the coordinates share their denominator
    yield refute(
        "E-A-08",
        holds=tails["p-value, Cauchy"] > SIGNIFICANCE,
        corrected_holds=every(heavy, bool(tails["p-value, independent"] < SIGNIFICANCE)),
        ours=f"p-value of the best centred Cauchy law {tails['p-value, Cauchy']:.1g}, of "
        f"independence {tails['p-value, independent']:.1g}",
    )


ROWS = (1, 10, 100, 1000)
PARAMETERS_PROPB2 = {
    "repeats": REPEATS,
    "noise_multiplier": SIGMA,
    "dimension": Parameter("int", 16, 64, STATED, "values of a record", 2),
    "rows": Parameter("ints", ROWS, (*ROWS, 10_000), STATED, "M", 1),
}
SETTLES_PROPB2 = ("A-008", "A-013", "A-015", "E-A-12", "E-A-16")
ALTERED_PROPB2 = {
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


def measure_propb2(study: Context) -> Tables:
    """Proposition B.2: the limit of the variance as M grows, and what other parameters do to it."""
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


def judge_propb2(tables: Tables) -> Iterator[Verdict]:
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
