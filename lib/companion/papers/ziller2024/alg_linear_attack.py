"""The attack, eqs. (1) to (3), on MNIST images: few parameters, many rows, batches."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch.func import grad, jacrev

from companion.exhibit import *
from companion.papers.ziller2024 import projection_steps as projection
from reconrisk import DPSGD, metrics
from reconrisk.attacks import observe
from reconrisk.mechanisms import add_gaussian_noise, clip, global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients

PARAMETERS = {
    "records": Parameter("int", 4, 64, projection.STATED, "MNIST images attacked", low=2),
    "rows": Parameter("ints", (1, 4, 16), (1, 4, 16), "1 (the layer has one row)", "M, rows", 1),
    "noise_multiplier": Parameter("float", 0.015, 0.015, projection.STATED, "sigma", 1e-12),
    "samples": projection.samples_parameter(400, 4000),
}
#: of a norm over that of one row, relative
NORM_MARGIN = 0.03
#: of mean NCCs; one record's gradient in the weights of the others costs 0.1 and more
NCC_MARGIN = 0.01
SETTLES = ("B-002", "B-003", "B-004", "B-005")
ALTERED = {
    "without noise": {"largest difference": "differences without noise"},
    "law": {"distance": "distances from the normal law"},
    "rows": {
        "norm": at("rows > 1", "norms of many rows"),
        "noise": at("rows > 1", "noise of many rows"),
    },
    "batch": {"own": "NCCs of a batch", "every": "NCCs with gradients in all weights"},
}
SCENARIOS = (
    scenario(
        "one more parameter, a bias", column("parameters", "parameters", lambda c: c + 1), "B-003"
    ),
    scenario(
        "one parameter fewer that determine the record nonetheless",
        column("ranks", "rank", lambda c: c.max()),
        "B-003",
    ),
)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    records = mnist(p.records)
    dimension = records.shape[1]
    inputs = tensor(study, records)
    layer = AttackLayer(dimension, dtype=torch.float64).to(study.device)
    gradient = per_example_gradients(layer, sum_of_outputs, inputs)["weight"][:, 0]
    exact = as_numpy((gradient - inputs).abs().amax(dim=1))

    record, norm = records[0], float(np.linalg.norm(records[0]))
    laws = []
    for ratio in (0.5, 2.0):
        run = DPSGD(p.noise_multiplier, max_grad_norm=ratio * norm)
        rebuilt = projection.released(study, record, run, p.samples, key=(ratio,))
        noise = rebuilt - min(1.0, ratio) * record
        standardised = noise / (run.max_grad_norm * run.noise_multiplier)
        laws.append((ratio, *projection.distance(standardised, stats.norm.cdf)))
    counts = [(b, b * dimension, AttackLayer(b * dimension).weight.numel()) for b in (1, p.records)]
    return Tables(
        {
            "without noise": pd.DataFrame({"digit": range(p.records), "largest difference": exact}),
            "law": pd.DataFrame(laws, columns=["C over norm", "distance", "standard error"]),
            "parameters": pd.DataFrame(counts, columns=["records", "values", "parameters"]),
            "ranks": _ranks(study, 64),
            "rows": _rows(study, record),
            "batch": _batch(study, records),
        },
        subsets=(MNIST,),
        ran=f"{p.records} MNIST images (N = {dimension}) through the projection; "
        f"{p.samples} DP-SGD steps per setting at sigma = {p.noise_multiplier:g}.",
    )


def _ranks(study: Context, dimension: int) -> pd.DataFrame:
    """Number of directions of the record on which the gradient of few parameters depends."""
    maps = torch.as_tensor(np.linalg.qr(study.rng("maps").normal(size=(dimension, dimension)))[0])

    def gradient(x: torch.Tensor, count: int) -> torch.Tensor:
        weights = AttackLayer(count, dtype=torch.float64).weight.detach()
        return grad(lambda w: torch.nn.functional.linear(maps[:count] @ x, w).sum())(weights)[0]

    ranks = []
    for count in (dimension // 2, dimension - 1, dimension):
        jacobian = jacrev(gradient)(torch.zeros(dimension, dtype=torch.float64), count)
        ranks.append((count, int(torch.linalg.matrix_rank(jacobian))))
    return pd.DataFrame(ranks, columns=["parameters", "rank"])


def _rows(study: Context, record: np.ndarray) -> pd.DataFrame:
    """Norm and total noise over the number of rows; C in units of the norm."""
    p = study.parameters
    norm = float(np.linalg.norm(record))
    inputs = tensor(study, np.broadcast_to(record, (p.samples, record.size)))
    table = []
    for ratio in (0.5, 2.0):
        for rows in p.rows:
            run = DPSGD(p.noise_multiplier, max_grad_norm=ratio * norm)
            generator = study.generator("rows", ratio, rows)
            seen = observe(inputs, run, generator, rows=rows, keep_rows=True)
            weights = seen.rows[0]
            noise = weights - (seen.scale[:, None] * inputs)[:, None]
            layer = AttackLayer(record.size, rows, dtype=torch.float64)
            clean = per_example_gradients(layer, sum_of_outputs, inputs[:1].cpu())
            length = float(global_norm(clean)) / norm
            square, error = mean_and_error(as_numpy(noise.square().sum(dim=(1, 2))))
            total = square**0.5
            table.append((ratio, rows, length, total / norm, error / (2 * total) / norm))
    return pd.DataFrame(table, columns=["C", "rows", "norm", "noise", "standard error"])


def _batch(study: Context, records: np.ndarray) -> pd.DataFrame:
    """NCCs of a batch in B N weights, in a block each or in all, and of single records."""
    p = study.parameters
    count, dimension = records.shape
    clipping = 0.5 * float(np.linalg.norm(records, axis=1).min())
    run = DPSGD(p.noise_multiplier, max_grad_norm=clipping)
    fed = {
        "own": np.einsum("ab,bn->abn", np.eye(count), records).reshape(count, -1),
        "every": np.tile(records, count),
    }
    ncc = {}
    for name, inputs in fed.items():
        layer = AttackLayer(inputs.shape[1], dtype=torch.float64).to(study.device)
        gradients = per_example_gradients(layer, sum_of_outputs, tensor(study, inputs))
        clipped, _ = clip(gradients, clipping)
        total = clipped["weight"].sum(dim=0, keepdim=True)
        repeated = {"weight": total.expand(p.samples, *total.shape[1:])}
        generator = study.generator("batch", name)
        noisy = add_gaussian_noise(repeated, run.noise_multiplier * clipping, generator)
        rebuilt = as_numpy(noisy["weight"]).reshape(p.samples, count, dimension)
        ncc[name] = metrics.ncc(records, rebuilt)
    alone = [
        projection.released(study, r, run, p.samples, metrics.ncc, ("alone", i))
        for i, r in enumerate(records)
    ]
    ncc["alone"] = np.stack(alone, axis=1)
    means = {name: v.mean(axis=0) for name, v in ncc.items()}
    error = np.sqrt((ncc["own"].var(axis=0) + ncc["alone"].var(axis=0)) / p.samples)
    return pd.DataFrame({"digit": range(count), **means, "standard error": error})


def judge(tables: Tables) -> Iterator[Verdict]:
    difference, law = tables["without noise"]["largest difference"], tables["law"]
    margin = projection.SHARE_MARGIN
    yield check(
        "ziller2024/alg_linear_attack",
        every((difference == 0).all(), within(law["distance"], 0, law["standard error"], margin)),
        "the weight gradient is the record; clipped and noised it is beta X + N(0, C^2 sigma^2 I)",
        ours=f"distribution functions at most {law['distance'].max():.4f} apart for C = 0.5 and 2 "
        "norms",
        tolerance=projection.within_margin(margin),
    )
    yield check(
        "B-002",
        (difference == 0).all(),
        "without clipping and noise the gradient equals the record, value by value",
        ours=f"largest difference {difference.max():g} over {len(difference)} MNIST images",
    )
    counts, ranks = tables["parameters"], tables["ranks"]
    yield check(
        "B-003",
        (counts["parameters"] == counts["values"]).all()
        and (ranks["rank"] == ranks["parameters"]).all(),
        "the projection has N parameters, B N for a batch; the gradient of m < N parameters "
        "depends on only m directions of the record",
        ours=", ".join(f"m = {m}: rank {rank}" for m, rank in ranks.itertuples(index=False))
        + f"; {counts['parameters'].iloc[-1]} parameters for {counts['records'].iloc[-1]} records",
        paper="N; B N",
    )
    yield _norm_and_noise(tables["rows"])
    batch = tables["batch"]
    own, alone, error = batch["own"], batch["alone"], batch["standard error"]
    lost = (alone - batch["every"]).mean()
    yield check(
        "B-005",
        every(within(own, alone, error, NCC_MARGIN), lost > 10 * NCC_MARGIN),
        "a batch whose records use a block of the B N weights each is rebuilt as well as its "
        "records one at a time; with gradients in all weights it is not",
        ours=f"mean NCCs at most {(own - alone).abs().max():.4f} apart; with gradients in all "
        f"weights the NCC falls by {lost:.2f}",
        tolerance=projection.within_margin(NCC_MARGIN),
    )


def _norm_and_noise(table: pd.DataFrame) -> Verdict:
    """B-004: the gradient's norm and the total noise over the number of rows."""
    table = table.assign(error=table["standard error"] / table["noise"])
    first = table.groupby("C")[["norm", "noise", "error"]].transform("first")
    times = table[["norm", "noise"]] / first[["norm", "noise"]]
    error = np.hypot(table["error"], first["error"])
    root = np.sqrt(table["rows"])  # over one row
    last = times.iloc[-1]
    return check(
        "B-004",
        every(
            np.allclose(times["norm"], root, rtol=1e-9),
            within(times["noise"] / root, 1, error, NORM_MARGIN),
        ),
        "the gradient's norm and the total noise grow like the root of the parameter count",
        ours=f"times {last['norm']:.2f} and {last['noise']:.2f} from {table['rows'].min()} to "
        f"{table['rows'].max()} rows",
        tolerance=projection.within_margin(100 * NORM_MARGIN, "%"),
    )
