"""Corollary 1: other architectures: further layers, a bias, an offset in front of the layer."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch

from companion.experiments.tools import as_numpy, mean_and_error, photographs, tensor
from companion.papers.mean_to_extreme.theorem_parameters import STATED
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from companion.study.verdicts import shared_by
from reconrisk import DPSGD, metrics
from reconrisk.attacks import known_scale, observe
from reconrisk.mechanisms import global_norm
from reconrisk.models import PrependedNetwork, sum_of_outputs
from reconrisk.training import per_example_gradients

PARAMETERS = {
    "pictures": Parameter("int", 4, 20, STATED, "photographs rebuilt", 1),
    "size": Parameter("int", 32, 224, STATED, "pixels a side", 8),
    "repeats": Parameter("int", 200, 50, STATED, "steps per photograph", 10),
    "noise_multiplier": Parameter("float", 0.01, 0.01, STATED, "sigma", 1e-12),
    "hidden": Parameter("int", 16, 64, STATED, "hidden units of the further layers", 1),
}
SETTLES = ("A-013", "A-015", "E-A-10")
PHOTOGRAPHS = True


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    originals = photographs(study, p.size, p.pictures).reshape(p.pictures, -1)
    grey = tensor(study, np.full((1, originals.shape[1]), 0.5), torch.float32)[0]
    variants = {"Corollary 1": {}, "with bias": {"bias": True}, "offset 1/2": {"offset": grey}}
    table = []
    for index, original in enumerate(originals):
        norm = float(np.linalg.norm(original))
        least = (p.noise_multiplier * norm) ** 2
        without_offset = float(np.linalg.norm(original - 0.5) / norm) ** 2
        # low enough that the gradient is clipped in every variant, also after the offset
        run = DPSGD(p.noise_multiplier, max_grad_norm=0.1 * norm)
        inputs = tensor(study, np.broadcast_to(original, (50, original.size)), torch.float32)
        for name, options in variants.items():
            errors, drift = [], np.zeros_like(original)
            generator = study.generator(index, name)
            for _ in range(0, p.repeats, 50):
                rebuilt = as_numpy(known_scale(observe(inputs, run, generator, **options)))
                errors.append(metrics.mse(original, rebuilt))
                drift += (rebuilt - original).sum(axis=0)
            mean, error = mean_and_error(np.concatenate(errors))
            count = sum(map(len, errors))
            # the squared mean error less its expectation without bias, over the variance
            bias = float(np.mean((drift / count) ** 2) / mean - 1 / count)
            table.append((index, name, mean / least, error / least, without_offset, bias))
    columns = ["picture", "network", "MSE over sigma^2 ||X||^2", "error"]
    columns += ["(||X - 1/2|| / ||X||)^2", "bias"]

    record = originals[0][: min(64, originals.shape[1])]
    network = PrependedNetwork(record.size, 4, p.hidden, torch.Generator().manual_seed(0)).double()
    gradient = per_example_gradients(network, sum_of_outputs, torch.tensor(record[None]))
    shares = {"layer": float(gradient["attack.weight"].norm()), "all": float(global_norm(gradient))}
    return Tables(
        {
            "variants": pd.DataFrame(table, columns=columns),
            "pictures": pd.DataFrame({"norm": np.linalg.norm(originals, axis=1)}),
            "gradient of a network that goes on": pd.DataFrame([shares]),
        },
        ran=f"{p.pictures} photographs of {p.size}x{p.size}x3 values, {p.repeats} DP-SGD steps "
        "each, through three networks.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    networks = {
        name: own.set_index("picture").rename(columns={"MSE over sigma^2 ||X||^2": "ratio"})
        for name, own in tables["variants"].groupby("network")
    }
    offset, plain, with_bias = (networks[k] for k in ("offset 1/2", "Corollary 1", "with bias"))
    expected = offset["(||X - 1/2|| / ||X||)^2"]  # below 1 if the mean value exceeds 1/4
    at_expected = ((offset["ratio"] - expected).abs() < 5 * offset["error"]).all()
    unbiased = (offset["bias"].abs() < 6 / tables.parameters.repeats).all()
    lower = refute(
        "mean_to_extreme/cor1",
        erratum="E-A-10",
        holds=not (offset["ratio"] + 5 * offset["error"] < 1).any(),
        corrected_holds=at_expected
        and unbiased
        and ((offset["ratio"] < 1) == (expected < 1)).all(),
        ours=f"variance with the offset over without: {offset['ratio'].min():.2f} to "
        f"{offset['ratio'].max():.2f}",
        paper="at least 1",
    )
    yield from shared_by(lower, "E-A-10")
    gradient = tables["gradient of a network that goes on"].iloc[0]
    yield check(
        "A-013",
        gradient["all"] > gradient["layer"]
        and ((plain["ratio"] - 1).abs() < 5 * plain["error"]).all(),
        "further parameters lengthen the gradient and leave a smaller share of C to the layer",
        ours="share of the norm in a network with further layers: "
        f"{gradient['layer'] / gradient['all']:.3f}",
    )
    theory = 1 + 1 / tables["pictures"]["norm"] ** 2
    yield check(
        "A-015",
        ((with_bias["ratio"] - theory).abs() < 5 * with_bias["error"]).all() and (theory > 1).all(),
        "with the bias kept the variance is sigma^2 (||X||^2 + 1)",
        ours="ratios within 5 standard errors of " + ", ".join(f"{t:.4f}" for t in theory),
    )
