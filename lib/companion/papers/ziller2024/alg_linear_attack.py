"""The attack, eqs. (1) to (3), on handwritten digits: few parameters, many rows, batches."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch.func import grad, jacrev

from companion.experiments.tools import as_numpy, fits, mean_and_error, tensor
from companion.papers.ziller2024 import projection_steps as projection
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import STANDARD_ERRORS, rounded, shared_by
from reconrisk import DPSGD, datasets, metrics
from reconrisk.attacks import observe
from reconrisk.mechanisms import add_gaussian_noise, clip, global_norm
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import per_example_gradients

PARAMETERS = {
    "records": Parameter("int", 8, 64, projection.STATED, "handwritten digits attacked", low=2),
    "rows": Parameter("ints", (1, 4, 16), (1, 4, 16), "1 (the layer has one row)", "M, rows", 1),
    "noise_multiplier": Parameter("float", 0.05, 0.05, projection.STATED, "sigma", 1e-12),
    "samples": projection.samples_parameter(400, 4000),
}
SETTLES = ("B-002", "B-003", "B-004", "B-005", "E-B-15")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    records = datasets.digits()[: p.records]
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
        laws.append((ratio, fits(standardised, stats.norm.cdf)))
    counts = [(b, AttackLayer(b * dimension).weight.numel()) for b in (1, p.records)]
    return Tables(
        {
            "without noise": pd.DataFrame({"digit": range(p.records), "largest difference": exact}),
            "law": pd.DataFrame(laws, columns=["C over norm", "p-value"]),
            "parameters": pd.DataFrame(counts, columns=["records", "parameters"]),
            "ranks": _ranks(study, dimension),
            "rows": _rows(study, record),
            "batch": _batch(study, records),
        },
        ran=f"{p.records} handwritten digits (N = {dimension}) through the projection; "
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
    """Norm, noise and NCC over M, of all rows averaged and of one row; C in units of the norm."""
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
            averaged = mean_and_error(metrics.ncc(record, as_numpy(seen.row_mean)))
            one = mean_and_error(metrics.ncc(record, as_numpy(weights[:, 0])))
            layer = AttackLayer(record.size, rows, dtype=torch.float64)
            clean = per_example_gradients(layer, sum_of_outputs, inputs[:1].cpu())
            length = float(global_norm(clean)) / norm
            total = float(noise.square().sum(dim=(1, 2)).mean().sqrt()) / norm
            table.append((ratio, rows, length, total, *averaged, *one))
    columns = ["C", "rows", "norm", "noise", "all", "all error", "one", "one error"]
    return pd.DataFrame(table, columns=columns)


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
    moments = {name: v.mean(axis=0) for name, v in ncc.items()}
    moments |= {f"{name} variance": v.var(axis=0) for name, v in ncc.items()}
    return pd.DataFrame({"digit": range(count), **moments})


def judge(tables: Tables) -> Iterator[Verdict]:
    difference = tables["without noise"]["largest difference"]
    p_values = tables["law"]["p-value"]
    yield check(
        "ziller2024/alg_linear_attack",
        (difference == 0).all() and projection.all_fit(p_values),
        "the weight gradient is the record; clipped and noised it is beta X + N(0, C^2 sigma^2 I)",
        ours=f"smallest p-value {p_values.min():.2g} for C = 0.5 and 2 norms",
        tolerance=projection.level(len(p_values)),
    )
    yield check(
        "B-002",
        (difference == 0).all(),
        "without clipping and noise the gradient equals the record, value by value",
        ours=f"largest difference {difference.max():g} over {len(difference)} handwritten digits",
    )
    counts, ranks = tables["parameters"], tables["ranks"]
    yield check(
        "B-003",
        (counts["parameters"] == 64 * counts["records"]).all()
        and (ranks["rank"] == ranks["parameters"]).all(),
        "the projection has N parameters, B N for a batch; the gradient of m < N parameters "
        "depends on only m directions of the record",
        ours=", ".join(f"m = {m}: rank {rank}" for m, rank in ranks.itertuples(index=False))
        + f"; {counts['parameters'].iloc[-1]} parameters for {counts['records'].iloc[-1]} records",
        paper="N; B N",
    )
    yield from _judge_rows(tables["rows"])
    batch = tables["batch"]
    samples = tables.parameters.samples
    error = np.sqrt((batch["own variance"] + batch["alone variance"]) / samples)
    off = ((batch["own"] - batch["alone"]) / error).abs().max()
    lost = batch["alone"].mean() - batch["every"].mean()
    yield check(
        "B-005",
        off < STANDARD_ERRORS and lost > 0.1,
        "a batch whose records use a block of the B N weights each is rebuilt as well as its "
        "records one at a time; with gradients in all weights it is not",
        ours=f"largest difference of mean NCCs {off:.1f} standard errors; with gradients in all "
        f"weights the NCC falls by {lost:.2f}",
        tolerance=projection.TOLERANCE,
    )


def _judge_rows(table: pd.DataFrame) -> Iterator[Verdict]:
    """Judge what more rows change: longer gradient, more noise, a loss only where not averaged."""
    clipped, free = (part.reset_index(drop=True) for _, part in table.groupby("C"))
    first, last = clipped.iloc[0], clipped.iloc[-1]
    root = np.sqrt(clipped["rows"] / first["rows"])
    yield check(
        "B-004",
        all(
            np.allclose(part["norm"] / part["norm"][0], root)
            and np.allclose(part["noise"] / part["noise"][0], root, rtol=0.02)
            for part in (clipped, free)
        ),
        "the gradient's norm and the total noise grow like the root of the parameter count",
        ours=f"times {last['norm'] / first['norm']:.2f} and {last['noise'] / first['noise']:.2f} "
        f"from {first['rows']:.0f} to {last['rows']:.0f} rows",
    )
    # clipped: averaging M rows gives the same; not clipped: more rows are better
    error, gain_error = (
        float(np.hypot(*part["all error"].iloc[[0, -1]])) for part in (clipped, free)
    )
    worse = first["all"] - last["all"]
    gained = free["all"].iloc[-1] - free["all"][0]
    allowed = STANDARD_ERRORS * error
    better = refute(
        "B-004",
        erratum="E-B-15",
        holds=worse > allowed and gained < -STANDARD_ERRORS * gain_error,
        corrected_holds=((clipped["all"] - first["all"]).abs() < allowed).all()
        and gained > 10 * gain_error
        and last["one"] < first["one"] - 10 * error,
        ours=f"NCC from {first['rows']:.0f} to {last['rows']:.0f} averaged rows: "
        f"{rounded(first['all'], error)} to {rounded(last['all'], error)} at C = ||X||/2, "
        f"{rounded(free['all'][0], gain_error)} to {rounded(free['all'].iloc[-1], gain_error)} at "
        f"C = 2 ||X||; one row read: {rounded(last['one'], last['one error'])} at C = ||X||/2",
    )
    yield from shared_by(better, "E-B-15")
