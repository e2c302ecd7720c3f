"""Algorithms 1 and 2 of Biswas et al. 2024 line by line, each against a route of its own."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy import stats

from companion.experiments.federated import DIMENSION, NETWORK, standardised
from companion.experiments.tools import data_folder
from companion.study import Context, Parameter, Tables, Verdict, check
from companion.study.verdicts import STANDARD_ERRORS
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
TRIED = Parameter("int", 32, 128, "128", "records of the batch that lines are tried on", low=4)

DOUBLE = torch.float64
#: relative difference at which two routes in double precision agree
AGREE = 1e-10


@dataclass(frozen=True)
class Batch:
    """A batch and a network to try the lines on, in double precision."""

    inputs: torch.Tensor
    labels: torch.Tensor
    weights: Weights

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Line:
    """One line of an algorithm: what ours gives, what another route does, whether they agree."""

    line: str
    does: str
    against: str
    ours: str
    holds: bool


def as_table(lines: list[Line]) -> pd.DataFrame:
    """The lines as a table to be shown."""
    return pd.DataFrame(
        [
            {"line": x.line, "does": x.does, "against": x.against, "found": x.ours, "ok": x.holds}
            for x in lines
        ]
    )


def lines_verdict(target: str, tables: Tables, ours: str) -> Verdict:
    """Whether every line of the table ``"lines"`` does what another route to it does."""
    lines = tables["lines"]
    wrong = list(lines.loc[~lines["ok"].astype(bool), "does"])
    return check(
        target,
        len(lines) and not wrong,
        "every line does what another route to it does",
        ours=f"{len(lines)} lines, {ours}" + (f"; not: {', '.join(wrong)}" if wrong else ""),
        tolerance=f"1e-10, or {STANDARD_ERRORS:g} standard errors and p > {LEAST_P:g}",
    )


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
    """Every layer of every record's gradient cut to length ``limit``."""
    return {
        name: torch.stack([g / max(1.0, float(g.norm()) / limit) for g in gradients])
        for name, gradients in each.items()
    }


def _off(ours: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> float:
    """Largest difference in the largest entry's units."""
    return max(
        float((ours[name] - other[name]).abs().max() / other[name].abs().max()) for name in other
    )


def _agreeing(line: str, does: str, against: str, off: float) -> Line:
    return Line(line, does, against, f"equal to {AGREE:g}", off <= AGREE)


def _normal(values: torch.Tensor, deviation: float) -> tuple[float, float]:
    """Deviation found over the one expected, and the p-value of a normal law of that deviation."""
    scaled = (values.flatten() / deviation).numpy()
    return float(scaled.std()), float(stats.kstest(scaled, "norm").pvalue)


def algorithm1_lines(
    batch: Batch, sigma: float, limit: float, generator: torch.Generator
) -> list[Line]:
    """Lines 4 to 12 with Gaussian noise.

    Parameters
    ----------
    sigma, limit : float
        sigma and C; C below most records' gradients, so that clipping is seen.
    """
    each = _each_gradient(batch)
    plain = {name: g.mean(dim=0, keepdim=True) for name, g in each.items()}
    clipped = {
        name: g.mean(dim=0, keepdim=True) for name, g in _clipped_in_a_loop(each, limit).items()
    }
    ours = _released(batch, Release("none"), generator)
    cut = _released(batch, Release("clip", max_grad_norm=limit), generator)
    times = 8
    noisy = _released(batch, Release("gaussian", sigma, limit), generator, times)
    noise = flat(noisy) - flat(clipped)
    ratio, p = _normal(noise, sigma * limit / batch.size)
    error = 1.0 / math.sqrt(2.0 * noise.numel())
    return [
        _poisson_line(generator),
        _agreeing("5-6", "each record's gradient", "autograd, record by record", _off(ours, plain)),
        _agreeing("7", "clip each layer to C", "a loop over layers", _off(cut, clipped)),
        Line(
            "8-10",
            "sum, add N(0, (C sigma)^2), divide by B",
            "law of the difference from line 7's average",
            f"normal, deviation {ratio:.2f} of C sigma / B",
            abs(ratio - 1.0) <= STANDARD_ERRORS * error and p > LEAST_P,
        ),
        _descent_line(batch),
    ]


def _poisson_line(generator: torch.Generator) -> Line:
    """Sizes of Poisson batches against the binomial law."""
    count, size, steps = 3000, 64, 1500
    sizes = torch.cat(
        [taken.sum(dim=1) for _, taken in poisson_batches(count, size, 1, steps, generator)]
    ).double()
    expected = size * (1.0 - size / count)
    mean_off = abs(float(sizes.mean()) - size) / math.sqrt(expected / steps)
    variance = float(sizes.var()) / expected
    fits = mean_off <= STANDARD_ERRORS and abs(variance - 1.0) <= STANDARD_ERRORS * math.sqrt(
        2.0 / steps
    )
    return Line(
        "4", "draw a batch with rate B/N", "binomial law of its size", "mean and variance fit", fits
    )


def _descent_line(batch: Batch) -> Line:
    """Six steps without noise against PyTorch's own optimiser on a module."""
    first = batch.weights
    trained = train_mini_batches(
        NETWORK,
        batch.inputs,
        batch.labels,
        [Release("none")],
        batch_size=batch.size,
        epochs=6,
        generator=torch.Generator().manual_seed(0),
        initial=first,
        poisson=False,
    )
    module = NETWORK.module(first)
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.005, weight_decay=0.1)
    for _ in range(6):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(batch.inputs), batch.labels).backward()
        optimiser.step()
    other = {name: value.detach()[None] for name, value in module.named_parameters()}
    off = max(float((trained[name] - other[name]).abs().max()) for name in other)
    # Adam divides by the root of squares of the gradient: small entries lose digits
    return Line("12", "step of Adam", "PyTorch's optimiser, a module", "equal to 1e-7", off <= 1e-7)


def record_reach(batch: Batch, limit: float) -> tuple[float, float]:
    """Length of the longest clipped gradient in units of C: by layer, and clipped as a whole.

    By layer it is up to sqrt(3) for a network of three layers.
    """
    each = _each_gradient(batch)
    layers = flat(_clipped_in_a_loop(each, limit)).norm(dim=1)
    whole = flat(each).norm(dim=1).clamp(max=limit)
    return float(layers.max()) / limit, float(whole.max()) / limit


# Algorithm 2 -------------------------------------------------------------------------------------


def algorithm2_lines(
    batch: Batch, kappa: float, draws: int, generator: torch.Generator
) -> list[Line]:
    """Lines 10 to 12 with von Mises-Fisher noise of one concentration."""
    average = flat(_released(batch, Release("clip"), generator))[0]
    direction = average / average.norm()
    released = flat(_released(batch, Release("vmf", kappa), generator, draws))
    lengths = float((released.norm(dim=1) - 1.0).abs().max())
    cosine = (released @ direction).numpy()
    p_cosine = float(stats.kstest(cosine, _cosine_law(kappa)).pvalue)
    across = released - torch.as_tensor(cosine)[:, None] * direction
    across /= across.norm(dim=1, keepdim=True)
    probe = torch.randn(DIMENSION, generator=generator, dtype=DOUBLE)
    probe -= (probe @ direction) * direction
    probe /= probe.norm()
    p_across = float(stats.kstest((across @ probe).numpy() * math.sqrt(DIMENSION), "norm").pvalue)
    mean = float(privacy.vmf_mean_cosine(DIMENSION, kappa))
    return [
        Line("10", "scale the average to length one", "", "length one to 1e-12", lengths < 1e-12),
        _length_line(batch, kappa),
        _one_vector_line(released),
        Line(
            "11",
            "turn by VMF(kappa): angle",
            "law of the cosine, by quadrature",
            f"fits; mean cosine {mean:.4f}",
            p_cosine > LEAST_P,
        ),
        Line(
            "11", "turn by VMF(kappa): direction", "uniform across the mean", "fits",
            p_across > LEAST_P,
        ),
        _adam_line(released),
    ]  # fmt: skip


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
    """The average's length leaves no trace: shorter limits scale it and change nothing else."""
    same = [
        flat(
            _released(
                batch, Release("vmf", kappa, max_grad_norm=limit), torch.Generator().manual_seed(1)
            )
        )
        for limit in (1e-4, 1e-5)
    ]
    off = float((same[0] - same[1]).abs().max() / same[0].abs().max())
    return _agreeing("10", "forget the average's length", "a tenth of the clipping length", off)


def _one_vector_line(released: torch.Tensor) -> Line:
    """One vector: a layer's share of the squared length is its share of the entries, nearly."""
    sizes = [rows * columns for rows, columns in NETWORK.shapes.values()]
    shares = torch.stack([part.square().sum(dim=1) for part in released.split(sizes, dim=1)])
    off = float((shares.mean(dim=1) - torch.tensor(sizes) / DIMENSION).abs().max())
    return Line(
        "10",
        "all layers as one vector",
        "each layer's share of the entries",
        "shares of the squared length within 0.01",
        off < 0.01,
    )


def _adam_line(released: torch.Tensor) -> Line:
    """Adam's steps do not know the length of what it is given."""
    first = torch.zeros(DIMENSION, dtype=DOUBLE)
    ends = []
    for length in (1.0, 128.0):
        weights = first.clone()
        optimiser = torch.optim.AdamW([weights], lr=0.005, weight_decay=0.1)
        for gradient in released[:6]:
            weights.grad = length * gradient
            optimiser.step()
        ends.append(weights)
    # Adam adds 1e-8 to the root of the squares; only entries near zero notice
    off = float((ends[0] - ends[1]).norm() / ends[0].norm())
    return Line("12", "step of Adam", "128 times the length", "equal to 0.5%", off < 5e-3)


def tried_batch(study: Context) -> Batch:
    """Draw the batch that the lines are tried on, of the digits."""
    p = study.parameters
    pictures = standardised(p.digits, data_folder(study, p.digits))
    generator = study.generator("batch").manual_seed(study.seed_of("batch"))
    return draw_batch(pictures.inputs, pictures.labels, p.tried, generator)


def draw_batch(
    inputs: torch.Tensor, labels: torch.Tensor, size: int, generator: torch.Generator
) -> Batch:
    """A batch of ``size`` records and first weights, in double precision on the processor."""
    rows = torch.randperm(len(labels), generator=generator)[:size]
    return Batch(
        inputs.cpu()[rows].double(), labels.cpu()[rows], NETWORK.initialise(generator, None, DOUBLE)
    )
