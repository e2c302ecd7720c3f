"""A batch of images by least squares, from the update of a small network.

Gradient descent stops far from the images where the loss is nearly flat. The Levenberg-Marquardt
method does not: if the visible entries of an update determine the batch, it converges to the batch
up to rounding. It needs the derivative of every visible entry in every pixel, and so is limited to
small networks and images. With a normal prior on images it returns the most probable batch, even
where the update alone does not determine one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from reconrisk import arguments
from reconrisk.attacks._interface import Knowledge
from reconrisk.attacks._inversion_problem import Inversion, gram
from reconrisk.attacks._levenberg_marquardt import NormalEquations, minimise_squares
from reconrisk.mechanisms import Released
from reconrisk.training import update_function, update_jacobian

__all__ = ["NormalLaw", "refine_updates"]

#: misfit, relative to the update, at which the search ends
_EXACT = 1e-26


@dataclass(frozen=True)
class NormalLaw:
    """A normal prior on images, the same for every image.

    Attributes
    ----------
    mean : ndarray, shape (d,)
    covariance : ndarray, shape (d, d)
        Positive definite.
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, images: torch.Tensor, ridge: float = 1e-4) -> NormalLaw:
        """Return mean and covariance of images (N, ...), with ``ridge`` added to variances."""
        if len(images) < 2:
            raise ValueError(f"images must be two or more; got {len(images)}")
        arguments.real("ridge", ridge, 0, low_open=True, high_open=True)
        values = images.flatten(1).double().cpu().numpy()
        return cls(values.mean(axis=0), np.cov(values.T) + ridge * np.eye(values.shape[1]))


def refine_updates(
    network: nn.Module,
    released: Released,
    knowledge: Knowledge,
    *,
    start: torch.Tensor,
    iterations: int = 30,
    max_grad_norm: float | None = None,
    noise_std: float = 0.0,
    law: NormalLaw | None = None,
) -> Inversion:
    """Reconstruct P batches of images by the Levenberg-Marquardt method.

    Least squares on the visible entries, which under Gaussian noise is maximum likelihood; with a
    normal prior, the maximum a posteriori estimate.

    Parameters
    ----------
    network : Module
        In double precision; in single precision the update's rounding limits the accuracy.
    released : Released
        P updates.
    knowledge : Knowledge
        As in :func:`~reconrisk.attacks.invert_updates`.
    start : Tensor, shape (P, n, \\*shape)
        Initial candidates, such as the result of an inversion.
    iterations : int
        Most steps.
    max_grad_norm : float, optional
        C, if updates were clipped and the attacker knows it.
    noise_std : float
        Standard deviation of the noise on every entry, >= 0; positive with a prior, against which
        it weighs the update.
    law : NormalLaw, optional
        The prior on images.

    Returns
    -------
    Inversion
        In double precision, not clipped to any range. The loss is the sum of squares over the
        released squared norm or, with a prior, minus twice the log posterior up to a constant.

    Raises
    ------
    ValueError
        If shapes do not fit or an argument is out of its range.

    Notes
    -----
    Cost per problem and step: as many forward passes as pixels, and ``q (n d)^2`` multiplications
    for q visible entries; memory ``q n d`` numbers.
    """
    arguments.integer("iterations", iterations, 1)
    arguments.real("noise_std", noise_std, 0, low_open=law is not None, high_open=True)
    if max_grad_norm is not None:
        arguments.real("max_grad_norm", max_grad_norm, 0, low_open=True)
    if knowledge.loss is not None:
        raise ValueError("knowledge.loss must be left out: this attack is for the cross-entropy")
    expected = (*knowledge.labels.shape, *knowledge.shape)
    if start.shape != expected or len(released) != len(start):
        raise ValueError(
            f"start must have shape {(len(released), *expected[1:])}; got {tuple(start.shape)}"
        )
    found, losses = [], []
    for k in range(len(start)):
        one = released.take(slice(k, k + 1))
        fit = _BatchObjective(network, one, knowledge, k, max_grad_norm, noise_std, law)
        point, loss = fit.run(start[k], iterations)
        found.append(torch.as_tensor(point, device=start.device).view(start.shape[1:]))
        losses.append(loss)
    return Inversion(torch.stack(found), torch.tensor(losses, dtype=torch.float64))


class _BatchObjective:
    """The objective of one batch: misfit of the visible entries, plus the prior term."""

    def __init__(
        self,
        network: nn.Module,
        released: Released,
        knowledge: Knowledge,
        index: int,
        max_grad_norm: float | None,
        noise_std: float,
        law: NormalLaw | None,
    ) -> None:
        self._network, self._limit = network, max_grad_norm
        self._labels, self._law = knowledge.labels[index], law
        self._shape = (knowledge.labels.shape[1], *knowledge.shape)
        seen = _flat(released.gradient)
        self._visible = torch.ones_like(seen, dtype=torch.bool)
        self._local, self._units = None, None
        if knowledge.aware:
            self._local = released.local
            self._units = None if released.units is None else released.units[0]
            if released.visible is not None:
                self._visible = _flat(released.visible)
        self._update = update_function(network, self._local)
        self._seen = seen[self._visible]
        self._scale = float(self._seen.square().sum()) or 1.0
        self._mean, self._precision = np.zeros(math.prod(self._shape)), None
        if law is not None:
            self._scale = noise_std**2
            self._mean = np.tile(law.mean, self._shape[0])
            self._precision = np.kron(np.eye(self._shape[0]), np.linalg.inv(law.covariance))

    def run(self, start: torch.Tensor, iterations: int) -> tuple[np.ndarray, float]:
        """Return the batch, (n d,), and its loss."""
        first = start.detach().double().cpu().numpy().ravel()
        return minimise_squares(
            self._normal,
            self._loss,
            first,
            iterations=iterations,
            enough=_EXACT if self._precision is None else -math.inf,
        )

    def _loss(self, point: np.ndarray) -> float:
        with torch.no_grad():
            update = self._update(self._images(point), self._labels, self._units)
        values = self._clip_update(_flat(update), None)[0]
        return self._misfit(values[self._visible] - self._seen) + self._prior_term(point)[0]

    def _normal(self, point: np.ndarray) -> NormalEquations:
        values, jacobian = self._clip_update(
            *update_jacobian(
                self._network,
                self._images(point),
                self._labels,
                local=self._local,
                units=self._units,
            )
        )
        assert jacobian is not None
        error = values[self._visible] - self._seen
        if len(error) < len(values):
            jacobian = jacobian[self._visible]
        penalty, prior_gradient, precision = self._prior_term(point)
        return (
            self._misfit(error) + penalty,
            _to_numpy(jacobian.mT @ error) / self._scale + prior_gradient,
            _to_numpy(gram(jacobian)) / self._scale + precision,
        )

    def _images(self, point: np.ndarray) -> torch.Tensor:
        like = next(self._network.parameters())
        return torch.as_tensor(point, dtype=like.dtype, device=like.device).view(self._shape)

    def _misfit(self, error: torch.Tensor) -> float:
        return float(error.double().square().sum()) / self._scale

    def _prior_term(self, point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray | float]:
        """Minus twice the log prior up to a constant, half its gradient and half its Hessian."""
        if self._precision is None:
            return 0.0, np.zeros_like(point), 0.0
        gradient = self._precision @ (point - self._mean)
        return float((point - self._mean) @ gradient), gradient, self._precision

    def _clip_update(
        self, values: torch.Tensor, jacobian: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Clip an update, and its derivatives accordingly."""
        norm = float(values.norm())
        if self._limit is None or norm <= self._limit:
            return values, jacobian
        share, along = self._limit / norm, values / norm
        if jacobian is not None:
            jacobian = share * (jacobian - along[:, None] * (along @ jacobian))
        return share * values, jacobian


def _flat(entries: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """All tensors as one vector."""
    return torch.cat([t.flatten() for t in entries.values()])


def _to_numpy(values: torch.Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
