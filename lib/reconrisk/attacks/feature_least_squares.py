"""The inputs of a classifier's wide layer by least squares on the head's gradient, image by image.

The gradient of the head's weights is a product that the server knows but for the features z: ::

    dL/dA_kj = (c / n) sum_i r_ki s(w_j.z_i + b_j),    r_i = softmax(A s(W z_i + b) + a) - e_(y_i)

with a factor c, one unless the gradient was clipped. The labels give the residuals r nearly:
each is negative at its own label only. So their pseudo-inverse separates the images, in the order
of the labels, and what is left of each is a regression of ``s(w_j.z + b_j)`` on known weights,
with as many equations as there are neurons. The fitted features give the logits, the logits better
residuals, and so on. Moments (:mod:`~reconrisk.attacks.feature_moments`), which the paper uses,
know neither the activation's values nor the labels: their error is of order ``sqrt(f / v)`` without
any noise, and leaves order and sign open.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reconrisk.convnets import WideHead
from reconrisk.mechanisms import Released

__all__ = ["FittedFeatures", "fit_features"]

#: rounds in which residuals and features are fitted in turn, and Gauss-Newton steps in each
_ROUNDS, _STEPS = 6, 3
#: a smaller factor c is not believed: its entries of the bias's gradient were removed
_LEAST_SCALE = 0.01


@dataclass(frozen=True)
class FittedFeatures:
    """Features fitted to the head's gradient, in the order of the labels.

    Attributes
    ----------
    features : Tensor, shape (P, n, f)
        With sign and length.
    cosine : Tensor, shape (P, n)
        The cosine with the true features that the scatter of the fit lets the attacker expect, in
        [0, 1].
    noise : Tensor, shape (P, n)
        Standard deviation of what the fit leaves of an image's responses, per neuron.
    """

    features: torch.Tensor
    cosine: torch.Tensor
    noise: torch.Tensor


@torch.no_grad()
def fit_features(network: WideHead, released: Released, labels: torch.Tensor) -> FittedFeatures:
    """Fit each image's features to the gradient of the head, by the labels alone.

    Parameters
    ----------
    network : WideHead
        With a wide layer, as the clients got it.
    released : Released
        P updates. Neurons that ``released.units`` or ``released.visible`` hide from every class
        are left out.
    labels : Tensor of integers, shape (P, n)
        Different within a batch, and fewer than the classes: those of one class cannot be told
        apart by their residuals.

    Returns
    -------
    FittedFeatures

    Raises
    ------
    ValueError
        If there is no wide layer, labels repeat within a batch, shapes do not fit or the gradient
        is not finite.

    Notes
    -----
    Gauss-Newton steps with a ridge of the size that the scatter of the fit and the length of the
    features suggest (the posterior mean under normal features). Cost per image: 18 steps of
    ``2 m f^2`` operations for m neurons, about 0.1 s for 16 batches of 4 at m = 512, f = 128;
    memory ``P n m f``.

    Source: the model is that of Liu et al., Section 3.1 and Appendix F, applied to the head; the
    estimator is ours.

    Examples
    --------
    >>> import torch
    >>> from reconrisk.attacks import fit_features
    >>> from reconrisk.convnets import ConvNet, randomise_neurons
    >>> from reconrisk.training import client_updates
    >>> network = ConvNet(torch.Generator().manual_seed(0), side=8, channels=4, wide=64).eval()
    >>> randomise_neurons(network, 48, torch.Generator().manual_seed(1))
    >>> images = torch.rand((1, 2, 3, 8, 8), generator=torch.Generator().manual_seed(2))
    >>> labels = torch.tensor([[3, 7]])
    >>> update = client_updates(network, images, labels, generator=torch.Generator())
    >>> true = network(images[0], trace=True).features.detach()
    >>> found = fit_features(network, update, labels).features[0]
    >>> [round(float(c), 3) for c in torch.cosine_similarity(found, true)]
    [1.0, 1.0]
    """
    if getattr(network, "wide", None) is None:
        raise ValueError("network must have a wide layer")
    assert network.wide is not None
    weights = released.gradient["head.weight"].double()
    problems, classes, neurons = weights.shape
    if labels.ndim != 2 or len(labels) != problems:
        raise ValueError(f"labels must have shape ({problems}, n); got {tuple(labels.shape)}")
    if bool((labels.sort(dim=1).values.diff(dim=1) == 0).any()) or labels.shape[1] >= classes:
        raise ValueError(
            f"labels must differ within a batch and be fewer than the {classes} classes; "
            f"got {labels.tolist()}"
        )
    # the bias is one more neuron, whose response is one: it shows the factor c
    seen = torch.cat([weights, released.gradient["head.bias"].double()[..., None]], dim=2)
    if not bool(torch.isfinite(seen).all()):
        raise ValueError("released must be finite")
    layer, kept = _Layer(network, released), _kept_entries(released)
    share = torch.ones_like(seen[:, :1, 0])
    if kept is not None:
        share = kept.to(seen).mean(dim=(1, 2))[:, None].clamp(min=1 / seen[0].numel())
    target = torch.nn.functional.one_hot(labels, classes).to(seen)  # (P, n, K)
    residuals, filled = 1 / classes - target, seen
    features = None
    for _ in range(_ROUNDS):
        # per image, as many equations as neurons: least squares over the classes separates them
        mixed = residuals.mT / labels.shape[1]
        # gels, as on a GPU: the pivots of gelsy, the default, differ from run to run
        separated = torch.linalg.lstsq(mixed, filled, driver="gels").solution
        scale = separated[..., -1].mean(dim=1)[:, None, None]
        scale = torch.where(scale > _LEAST_SCALE, scale, 1.0)
        values = separated[..., :-1] / scale
        if features is None:
            features = layer.first(values)
            usual = features.square().sum(dim=2).mean(dim=1, keepdim=True)
        for _ in range(_STEPS):
            features, fit = layer.step(features, values, usual, share)
        responses = layer.responses(features)[0]
        residuals = layer.outputs(responses).softmax(dim=2) - target
        if kept is not None:  # removed entries are filled with what the fit expects
            one = torch.ones_like(responses[..., :1])
            expected = scale * residuals.mT @ torch.cat([responses, one], dim=2) / labels.shape[1]
            filled = torch.where(kept, seen, expected)
    assert features is not None
    like = released.gradient["head.weight"]
    return FittedFeatures(*(t.to(like) for t in (features, *fit)))


class _Layer:
    """The known wide layer and head: responses of features, and regressions on them."""

    def __init__(self, network: WideHead, released: Released) -> None:
        assert network.wide is not None
        self._function = network.activation
        self._weights = network.wide.weight.double()  # (m, f)
        wide, deep = self._weights.shape
        # with fewer equations than unknowns, regressions are solved by their duals
        self._products = self._weights @ self._weights.T if wide < deep else None
        self._bias = network.wide.bias.double()
        self._head, self._offset = network.head.weight.double(), network.head.bias.double()
        self._factors = None if released.units is None else released.units.double()[:, None]

    def responses(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Responses (P, n, m) and their slopes."""
        with torch.enable_grad():
            inner = (features @ self._weights.T + self._bias).requires_grad_()
            value = self._function(inner)
            if self._factors is not None:
                value = value * self._factors
            (slope,) = torch.autograd.grad(value.sum(), inner)
        return value.detach(), slope

    def outputs(self, responses: torch.Tensor) -> torch.Tensor:
        """Logits (P, n, K)."""
        return responses @ self._head.T + self._offset

    def first(self, values: torch.Tensor) -> torch.Tensor:
        """Features to which a linear layer would give these responses (P, n, m)."""
        centred = values - values.mean(dim=2, keepdim=True)
        return self.regressions(torch.ones_like(values), centred, values.new_ones((1, 1)))

    def step(
        self,
        features: torch.Tensor,
        values: torch.Tensor,
        usual: torch.Tensor,
        share: torch.Tensor,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """One Gauss-Newton step, with the cosine to be expected and the scatter of the fit.

        ``usual`` is the squared length of features, which makes their prior; ``share`` that of the
        entries that were kept, by which scatter is underestimated and information overestimated.
        """
        found, slope = self.responses(features)
        size = features.shape[2]
        left = values - found
        scatter = left.square().sum(dim=2) / max(1, values.shape[2] - size)
        ridge = scatter * size / usual
        moved = self.regressions(slope, left + slope * (features @ self._weights.T), ridge)
        # mean square error of a posterior mean, by the average curvature
        curvature = (slope.square() @ self._weights.square()).mean(dim=2)
        lost = size * scatter / (curvature + ridge) / share**2
        length = moved.square().sum(dim=2)
        return moved, ((length / (length + lost)).sqrt(), scatter.sqrt())

    def regressions(
        self, slope: torch.Tensor, right: torch.Tensor, ridge: torch.Tensor
    ) -> torch.Tensor:
        """Ridge regressions of ``right`` (P, n, m) on ``slope`` times the layer's weights."""
        w = self._weights
        own, u = slope.flatten(0, 1)[..., None], right.flatten(0, 1)[..., None]
        if self._products is not None:
            matrix = own * self._products * own.mT
        else:
            matrix, u = (own.square() * w).mT @ w, w.T @ (own * u)
        matrix.diagonal(dim1=1, dim2=2).add_(ridge.expand(slope.shape[:2]).reshape(-1, 1))
        solved = torch.linalg.solve(matrix, u)
        if self._products is not None:
            solved = w.T @ (own * solved)
        return solved[..., 0].unflatten(0, slope.shape[:2])


def _kept_entries(released: Released) -> torch.Tensor | None:
    """Entries (P, K, m + 1) that were not removed; None if all were kept."""
    if released.visible is None:
        return None
    parts = released.visible["head.weight"], released.visible["head.bias"][..., None]
    return torch.cat(parts, dim=2)
