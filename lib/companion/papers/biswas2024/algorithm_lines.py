"""Algorithms 1 and 2 of Biswas et al. 2024 line by line, each against a route of its own."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.exhibit import *
from companion.experiments.federated import DIMENSION, NETWORK, load_standardised
from reconrisk import privacy
from reconrisk.training import (
    Release,
    Weights,
    poisson_batches,
    release_gradients,
    train_mini_batches,
)

#: p-value below which a line does not follow its law; a wrong law is far below
LEAST_P = 1e-6
TRIED = Parameter("int", 32, 128, "128", "records of the batch that lines are checked on", low=4)

DOUBLE = torch.float64
#: relative difference at which two routes in double precision agree
AGREE = 1e-10
#: how near shares of a squared length must come, their Monte Carlo error included: the smallest
#: layer has five times as much
SHARES = 0.002
#: what lines do that other exhibits' worlds name
CLIPPED, NOISE = "clip each layer to C", "sum, add N(0, (C sigma)^2), divide by B"
ANGLE, UNIT = "turn by VMF(kappa): angle", "scale the average to length one"

#: number of the line, what it does, what it is checked against, what is found, how far off it is,
#: how far it may be
Line = tuple[str, str, str, str, float, float]


@dataclass(frozen=True)
class Batch:
    """A batch and a network to check the lines on, in double precision."""

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: Weights

    @property
    def size(self) -> int:
        return len(self.labels)


def tried_batch(study: Context) -> Batch:
    """Draw the batch that the lines are checked on, of the digits."""
    p = study.parameters
    data = load_standardised(p.digits, data_folder(study, p.digits))
    generator = study.generator("batch").manual_seed(study.seed_of("batch"))
    return draw_batch(data.inputs, data.labels, p.tried, generator)


def draw_batch(
    inputs: torch.Tensor, labels: torch.Tensor, size: int, generator: torch.Generator
) -> Batch:
    """Draw ``size`` records and first weights, in double precision on the processor."""
    rows = torch.randperm(len(labels), generator=generator)[:size]
    weights = NETWORK.initialise(generator, None, DOUBLE)
    return Batch(inputs.cpu()[rows].double(), labels.cpu()[rows], weights)


def lines_verdict(target: str, tables: Tables, ours: str) -> Verdict:
    """Judge whether every line of the table ``"lines"`` agrees with its other route."""
    lines, found = tables["lines"], tables["deviations"].eval("off <= allowed")
    wrong = list(lines.loc[~found, "does"])
    return check(
        target,
        len(lines) and not wrong,
        "two independent implementations agree, line by line",
        ours=f"{len(lines)} lines, {ours}" + (f"; not: {', '.join(wrong)}" if wrong else ""),
        tolerance=f"{AGREE:g}, or {STANDARD_ERRORS:g} standard errors and p > {LEAST_P:g}",
    )


def as_tables(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the lines as they are shown, and the deviations that are judged."""
    shown = found.drop(columns=["off", "allowed"]).assign(ok=found["off"] <= found["allowed"])
    return {"lines": shown, "deviations": found[["line", "does", "off", "allowed"]]}


def _as_table(*lines: Line) -> pd.DataFrame:
    return pd.DataFrame(lines, columns=["line", "does", "against", "found", "off", "allowed"])


def _law(p: float) -> tuple[float, float]:
    """How improbable a law makes what is found, and how improbable it may be, as powers of ten."""
    return -math.log10(max(p, 1e-300)), -math.log10(LEAST_P)


def flat(gradient: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """All layers of each row as one vector."""
    return torch.cat([g.flatten(1) for g in gradient.values()], dim=1)


def _released(batch: Batch, release: Release, generator: torch.Generator, times: int = 1):
    return release_gradients(
        batch.weights, batch.inputs, batch.labels, [release] * times, generator=generator
    )


def _each_gradient(batch: Batch) -> Weights:
    """Every record's gradient by automatic differentiation of a module, in a plain loop."""
    module = NETWORK.module(batch.weights)
    rows: dict[str, list[torch.Tensor]] = {name: [] for name in batch.weights}
    for record, label in zip(batch.inputs, batch.labels, strict=True):
        module.zero_grad()
        torch.nn.functional.cross_entropy(module(record[None]), label[None]).backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            rows[name].append(parameter.grad.clone())
    return {name: torch.stack(values) for name, values in rows.items()}


def _clipped_in_a_loop(each: Weights, limit: float) -> Weights:
    """Clip every layer of every record's gradient to length ``limit``."""
    return {
        name: torch.stack([g / max(1.0, float(g.norm()) / limit) for g in gradients])
        for name, gradients in each.items()
    }


def _average(each: Weights) -> Weights:
    return {name: g.mean(dim=0, keepdim=True) for name, g in each.items()}


def _agreeing(line: str, does: str, against: str, ours: Weights, other: Weights) -> Line:
    """Compare two routes by their largest difference over the largest entry."""
    off = max(
        float((ours[name] - other[name]).abs().max() / other[name].abs().max()) for name in other
    )
    return line, does, against, f"equal to {AGREE:g}", off, AGREE


# Algorithm 1 -------------------------------------------------------------------------------------


def algorithm1_lines(
    batch: Batch, sigma: float, limit: float, generator: torch.Generator
) -> pd.DataFrame:
    """Return lines 4 to 12 with Gaussian noise.

    ``limit`` is C, below most records' gradients, so that clipping is seen.
    """
    each = _each_gradient(batch)
    clipped = _average(_clipped_in_a_loop(each, limit))
    ours = _released(batch, Release("none"), generator)
    cut = _released(batch, Release("clip", max_grad_norm=limit), generator)
    noisy = _released(batch, Release("gaussian", sigma, limit), generator, 8)
    noise = (flat(noisy) - flat(clipped)).flatten() / (sigma * limit / batch.size)
    ratio, p = float(noise.numpy().std()), stats.kstest(noise.numpy(), "norm").pvalue
    error = 1.0 / math.sqrt(2.0 * noise.numel())
    return _as_table(
        _poisson_line(generator),
        _agreeing(
            "5-6", "each record's gradient", "autograd, record by record", ours, _average(each)
        ),
        _agreeing("7", CLIPPED, "a loop over layers", cut, clipped),
        (
            "8-10",
            NOISE,
            "spread of the difference from line 7's average",
            f"deviation {ratio:.2f} of C sigma / B",
            abs(ratio - 1.0),
            STANDARD_ERRORS * error,
        ),
        ("8-10", "the same: law of the noise", "that difference", "normal", *_law(p)),
        _descent_line(batch),
    )


def _poisson_line(generator: torch.Generator) -> Line:
    """Compare the sizes of Poisson batches with the binomial law."""
    count, size, steps = 3000, 64, 1500
    batches = poisson_batches(count, size, 1, steps, generator)
    sizes = torch.cat([taken.sum(dim=1) for _, taken in batches]).double()
    expected = size * (1.0 - size / count)
    mean_off = abs(float(sizes.mean()) - size) / math.sqrt(expected / steps)
    variance_off = abs(float(sizes.var()) / expected - 1.0) / math.sqrt(2.0 / steps)
    off = max(mean_off, variance_off)
    does, against = "draw a batch with rate B/N", "binomial law of its size"
    return "4", does, against, "mean and variance fit", off, STANDARD_ERRORS


def _descent_line(batch: Batch) -> Line:
    """Compare six steps without noise with those of PyTorch's own optimiser on a module."""
    trained = train_mini_batches(
        NETWORK,
        batch.inputs,
        batch.labels,
        [Release("none")],
        batch_size=batch.size,
        epochs=6,
        generator=torch.Generator().manual_seed(0),
        initial=batch.weights,
        poisson=False,
    )
    module = NETWORK.module(batch.weights)
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.005, weight_decay=0.1)
    for _ in range(6):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(batch.inputs), batch.labels).backward()
        optimiser.step()
    other = {name: value.detach()[None] for name, value in module.named_parameters()}
    off = max(float((trained[name] - other[name]).abs().max()) for name in other)
    # Adam divides by the root of squares of the gradient: small entries lose digits
    return "12", "step of Adam", "PyTorch's optimiser, a module", "equal to 1e-7", off, 1e-7


def record_reach(batch: Batch, limit: float) -> tuple[float, float]:
    """Return the length of the longest clipped gradient over C: by layer, and as a whole.

    By layer it is up to sqrt(3) for a network of three layers.
    """
    each = _each_gradient(batch)
    layers = flat(_clipped_in_a_loop(each, limit)).norm(dim=1)
    whole = flat(each).norm(dim=1).clamp(max=limit)
    return float(layers.max()) / limit, float(whole.max()) / limit


# Algorithm 2 -------------------------------------------------------------------------------------


def algorithm2_lines(
    batch: Batch, kappa: float, draws: int, generator: torch.Generator
) -> pd.DataFrame:
    """Return lines 10 to 12 with von Mises-Fisher noise of one concentration."""
    average = flat(_released(batch, Release("clip"), generator))[0]
    direction = average / average.norm()
    released = flat(_released(batch, Release("vmf", kappa), generator, draws))
    off = float((released.norm(dim=1) - 1.0).abs().max())
    cosine = (released @ direction).numpy()
    across = released - torch.as_tensor(cosine)[:, None] * direction
    across /= across.norm(dim=1, keepdim=True)
    probe = torch.randn(DIMENSION, generator=generator, dtype=DOUBLE)
    probe -= (probe @ direction) * direction
    probe /= probe.norm()
    p_cosine = stats.kstest(cosine, _cosine_law(kappa)).pvalue
    p_across = stats.kstest((across @ probe).numpy() * math.sqrt(DIMENSION), "norm").pvalue
    mean = float(privacy.vmf_mean_cosine(DIMENSION, kappa))
    law = "law of the cosine, by quadrature"
    sideways = "turn by VMF(kappa): direction"
    return _as_table(
        ("10", UNIT, "", "length one to 1e-12", off, 1e-12),
        _length_line(batch, kappa),
        _one_vector_line(released, direction),
        ("11", ANGLE, law, f"fits; mean cosine {mean:.4f}", *_law(p_cosine)),
        ("11", sideways, "uniform across the mean", "fits", *_law(p_across)),
        _adam_line(released),
    )


def _cosine_law(kappa: float) -> Callable[[np.ndarray], np.ndarray]:
    """Distribution function of the cosine, from its density on a fine grid."""
    width = 12.0 / math.sqrt(DIMENSION)
    middle = kappa / DIMENSION
    t = np.linspace(middle - width, middle + width, 200_001)
    log_density = kappa * t + 0.5 * (DIMENSION - 3) * np.log1p(-t * t)
    density = np.exp(log_density - log_density.max())
    total = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return lambda values: np.interp(values, t, total / total[-1])


def _length_line(batch: Batch, kappa: float) -> Line:
    """Check that a shorter clipping length, which scales the average, changes nothing else."""
    long, short = (
        _released(batch, Release("vmf", kappa, limit), torch.Generator().manual_seed(1))
        for limit in (1e-4, 1e-5)
    )
    does, against = "forget the average's length", "a tenth of the clipping length"
    return _agreeing("10", does, against, {"": flat(long)}, {"": flat(short)})


def _one_vector_line(released: torch.Tensor, direction: torch.Tensor) -> Line:
    """Check each layer's share of the squared length.

    Across the direction it is the layer's share of the entries; along it, that of the direction.
    """
    sizes = [rows * columns for rows, columns in NETWORK.shapes.values()]
    shares = torch.stack([part.square().sum(dim=1) for part in released.split(sizes, dim=1)])
    own = torch.stack([part.square().sum() for part in direction.split(sizes)])
    along = float((released @ direction).square().mean())
    expected = along * own + (1 - along) * (torch.tensor(sizes) - own) / (DIMENSION - 1)
    error = STANDARD_ERRORS * shares.std(dim=1) / math.sqrt(len(released))
    off = float(((shares.mean(dim=1) - expected).abs() + error).max())
    does, against = "all layers as one vector", "each layer's share of the entries"
    return "10", does, against, f"shares of the squared length within {SHARES:g}", off, SHARES


def _adam_line(released: torch.Tensor) -> Line:
    """Check that Adam's steps do not depend on the length of the gradient."""
    ends = []
    for length in (1.0, 128.0):
        weights = torch.zeros(DIMENSION, dtype=DOUBLE)
        optimiser = torch.optim.AdamW([weights], lr=0.005, weight_decay=0.1)
        for gradient in released[:6]:
            weights.grad = length * gradient
            optimiser.step()
        ends.append(weights)
    # Adam adds 1e-8 to the root of the squares; only entries near zero notice
    off = float((ends[0] - ends[1]).norm() / ends[0].norm())
    return "12", "step of Adam", "128 times the length", "equal to 0.5%", off, 5e-3
