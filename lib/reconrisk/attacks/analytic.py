"""Analytic gradient inversion of a linear layer under DP-SGD (papers A and B).

:func:`observe` builds the manipulated network, takes a DP-SGD step of batch size one through
autograd and keeps the attacker's statistic of the released gradient: the mean over the rows of the
layer. The reconstructions are functions of that observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.models import AttackLayer, sum_of_outputs
from reconrisk.training import single_record_steps

__all__ = [
    "Observation",
    "known_scale",
    "observe",
    "ratio_by_row",
    "rows_for_least_noise",
    "unscaled",
    "with_estimated_scale",
]


@dataclass(frozen=True)
class Observation:
    """The attacker's statistics of released steps, one step per record.

    Attributes
    ----------
    row_mean : Tensor, shape (examples, N)
        Mean over the M rows of the noisy weight gradient.
    bias_mean : Tensor, shape (examples,), or None
        Mean over the rows of the noisy bias gradient, if the layer has a bias.
    rows : tuple of Tensor, or None
        The noisy rows (examples, M, N) and biases (examples, M), if ``keep_rows`` was set.
    scale : Tensor, shape (examples,)
        The true ``beta_C(X)`` times the derivative of the loss: the row mean's expectation is
        ``scale * X``. The attacker knows it only under the *known scale* assumption.
    offset : Tensor, shape (N,), or None
    input_scale : float
        The layer is fed ``input_scale * X - offset``; the reconstructions undo this.
    """

    row_mean: torch.Tensor
    bias_mean: torch.Tensor | None
    rows: tuple[torch.Tensor, torch.Tensor | None] | None
    scale: torch.Tensor
    offset: torch.Tensor | None
    input_scale: float


def rows_for_least_noise(max_grad_norm: float, data_norm: float) -> int:
    """Return the least number of rows M that minimises the noise, ``max(1, ceil((C / ||X||)^2))``.

    The square is missing in *From Mean to Extreme*, eq. (18) and Corollary 1; its Figure 1 and
    eqs. (48)-(49) have it.

    Parameters
    ----------
    max_grad_norm, data_norm : float
        C and the smallest norm of a record, both > 0.

    Examples
    --------
    >>> from reconrisk import attacks
    >>> attacks.rows_for_least_noise(max_grad_norm=1.0, data_norm=0.1)
    100
    """
    for name, value in (("max_grad_norm", max_grad_norm), ("data_norm", data_norm)):
        arguments.real(name, value, 0, low_open=True, high_open=True)
    # rounding must not carry an integer ratio over to the next integer
    return max(1, math.ceil((max_grad_norm / data_norm) ** 2 * (1 - 1e-12)))


def observe(
    inputs: torch.Tensor,
    run: DPSGD,
    generator: torch.Generator,
    *,
    rows: int = 1,
    bias: bool = False,
    offset: torch.Tensor | None = None,
    input_scale: float = 1.0,
    keep_rows: bool = False,
) -> Observation:
    """Take one DP-SGD step per record through the manipulated network and keep the row means.

    Parameters
    ----------
    inputs : Tensor, shape (examples, N)
        The records, one step each.
    run : DPSGD
        ``noise_multiplier`` and ``max_grad_norm`` of the step.
    generator : torch.Generator
        Source of the noise, on the device of ``inputs``.
    rows : int
        M >= 1.
    bias, offset, input_scale
        Arguments of :class:`~reconrisk.models.AttackLayer`.
    keep_rows : bool
        Whether to keep every row's gradient too.

    Returns
    -------
    Observation

    Notes
    -----
    *From Mean to Extreme*, eqs. (4)-(12), Corollary 1; with one row and no rescaling, Ziller et
    al., eqs. (1)-(3). Time and memory are ``examples * rows * N``: about 2 GB for one image of
    150,528 values and 1,000 rows.

    Examples
    --------
    >>> import torch
    >>> from reconrisk import DPSGD, attacks
    >>> record = torch.linspace(0, 1, 64, dtype=torch.float64)[None]
    >>> seen = attacks.observe(record, DPSGD(1e-6), torch.Generator().manual_seed(0), rows=4)
    >>> bool((attacks.known_scale(seen) - record).abs().max() < 1e-3)
    True
    """
    if inputs.ndim != 2:
        raise ValueError(f"inputs must have shape (examples, N); got {tuple(inputs.shape)}")
    rows = arguments.count("rows", rows)
    layer = AttackLayer(
        inputs.shape[1],
        rows,
        bias=bias,
        offset=offset,
        input_scale=input_scale,
        dtype=inputs.dtype,
    ).to(inputs.device)
    return _observe(layer, inputs, run, generator, keep_rows)


def _observe(
    layer: AttackLayer,
    inputs: torch.Tensor,
    run: DPSGD,
    generator: torch.Generator,
    keep_rows: bool,
) -> Observation:
    gradient, factor = single_record_steps(layer, sum_of_outputs, inputs, run, generator)
    weights, biases = gradient["weight"], gradient.get("bias")
    return Observation(
        row_mean=weights.mean(dim=1),
        bias_mean=None if biases is None else biases.mean(dim=1),
        rows=(weights, biases) if keep_rows else None,
        scale=factor,  # the loss is the sum of outputs: its derivative is 1
        offset=layer.offset,
        input_scale=layer.input_scale,
    )


def _rebuild(observation: Observation, fed: torch.Tensor) -> torch.Tensor:
    """Invert the fixed input layer: ``X`` from ``a X - c``."""
    if observation.offset is not None:
        fed = fed + observation.offset
    return fed / observation.input_scale


def known_scale(observation: Observation) -> torch.Tensor:
    """Return ``X_hat``, the row mean divided by its true scale, shape (examples, N).

    *From Mean to Extreme*, eq. (16): unbiased, and ``N(X, sigma^2 ||X||^2 I)`` with enough rows
    (eq. 20). Needs the clipping factor, that is, the norm of the record.

    Parameters
    ----------
    observation : Observation
    """
    return _rebuild(observation, observation.row_mean / observation.scale[:, None])


def unscaled(observation: Observation) -> torch.Tensor:
    """Return the released gradient itself, shape (examples, N): Ziller et al., eq. (3).

    Parameters
    ----------
    observation : Observation
    """
    return _rebuild(observation, observation.row_mean)


def with_estimated_scale(observation: Observation) -> torch.Tensor:
    """Return the row mean divided by the mean noisy bias gradient, shape (examples, N).

    The attack without knowledge of the scale: *From Mean to Extreme*, Section 3.3, second case. As
    a ratio of Gaussians its mean squared error has no expectation.

    Parameters
    ----------
    observation : Observation

    Raises
    ------
    ValueError
        If the layer was observed without a bias.
    """
    if observation.bias_mean is None:
        raise ValueError("observation must come from a layer with bias=True")
    return _rebuild(observation, observation.row_mean / observation.bias_mean[:, None])


def ratio_by_row(observation: Observation) -> torch.Tensor:
    """Return each row's noisy weight gradient over its noisy bias gradient, (examples, M, N).

    Without noise every row is the record (*From Mean to Extreme*, eq. 8); with noise the ratios
    have no moments (eq. 15).

    Parameters
    ----------
    observation : Observation

    Raises
    ------
    ValueError
        If the rows were not kept or the layer has no bias.
    """
    if observation.rows is None or observation.rows[1] is None:
        raise ValueError("observation must come from a layer with bias=True and keep_rows=True")
    weights, biases = observation.rows
    return _rebuild(observation, weights / biases[..., None])
