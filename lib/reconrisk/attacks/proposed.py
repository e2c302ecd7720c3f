"""The proposed attack of Liu et al., Section 4.2: features from moments, then one inversion.

The paper adds three parts to gradient inversion: the distance of gradients is weighted by parameter
tensor; the features of the candidate batch are matched to those recovered from the random neurons
of the wide layer; an untrained network generates the images. Each part is optional.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from reconrisk import arguments
from reconrisk.attacks._interface import ImageSpace, Knowledge
from reconrisk.attacks._inversion_problem import Inversion
from reconrisk.attacks.deep_inversion import Objective, invert_updates
from reconrisk.attacks.feature_least_squares import fit_features
from reconrisk.attacks.feature_moments import recover_feature_span, recover_features
from reconrisk.attacks.image_priors import UntrainedSpace
from reconrisk.convnets import WideHead
from reconrisk.mechanisms import Released

__all__ = ["PROPOSED", "feature_match", "proposed_attack"]

#: The objective with the paper's best weights. Of the two readings of the weights by layer it takes
#: the one that recovers more; the width within which the pull of recovered features vanishes is
#: ours.
PROPOSED = Objective(
    weighting="count", total_variation=0.01, statistics=0.001, features=0.1, feature_width=0.03
)
#: Least batch size that is matched to the span of the features.
LARGE = 16
METHODS = ("fit", "classes", "tensor")
#: squared distance from the span that moments leave without noise, times v / f
#: (:func:`~reconrisk.attacks.recover_features`)
_SPAN_ERROR = 0.72


def feature_match(labels: torch.Tensor) -> str:
    """Return how to match recovered features: one by one, or to their span.

    The paper takes the span "when the sample size is large", because features of one class are hard
    to separate: here from 16 images on, or where a label repeats within a batch.

    Parameters
    ----------
    labels : Tensor of integers, shape (P, n)

    Returns
    -------
    {"cosine", "subspace"}
    """
    ordered = labels.sort(dim=1).values
    repeats = bool((ordered.diff(dim=1) == 0).any())
    return "subspace" if repeats or labels.shape[1] >= LARGE else "cosine"


def proposed_attack(
    network: WideHead,
    released: Released,
    knowledge: Knowledge,
    *,
    generator: torch.Generator,
    neurons: int,
    objective: Objective = PROPOSED,
    match: str | None = None,
    method: str = "fit",
    span: str = "moments",
    space: ImageSpace | None = None,
    iterations: int = 10_000,
    rematch: int = 25,
    **settings,
) -> Inversion:
    """Recover the features of each batch, then its images.

    Parameters
    ----------
    network, released, knowledge, generator
        As in :func:`~reconrisk.attacks.invert_updates`. Without ``knowledge.features`` the features
        are recovered first.
    neurons : int
        Number of the wide layer's neurons with random weights.
    objective : Objective
        The paper's weights by default. Without ``features`` it is the attack of Table 8, "without
        feature matching"; with the joint weighting in addition, gradient inversion.
    match : {"cosine", "labels", "subspace"}, optional
        Replaces ``objective.feature_match``; by default ``"labels"`` for fitted features, else the
        choice of :func:`feature_match`.
    method : {"fit", "classes", "tensor"}
        ``"fit"``, the default, is :func:`~reconrisk.attacks.fit_features` where the labels of every
        batch differ and are fewer than the classes, and ``"classes"`` elsewhere. The others are
        those of :func:`~reconrisk.attacks.recover_features`; ``"tensor"`` is published.
    span : str
        Of :func:`~reconrisk.attacks.recover_features`.
    space : ImageSpace, optional
        The paper's is :class:`~reconrisk.attacks.image_priors.UntrainedSpace`, with a learning rate
        of 1e-5; by default the pixels themselves. Features in the
        order of the labels enter its network, if that takes any.
    iterations, rematch, **settings
        As in :func:`~reconrisk.attacks.invert_updates`.

    Returns
    -------
    Inversion

    Raises
    ------
    ValueError
        As in :func:`~reconrisk.attacks.recover_features` and
        :func:`~reconrisk.attacks.invert_updates`.
    """
    if objective.features:
        arguments.one_of("method", method, METHODS)
        if method == "fit" and not _labels_are_distinct(network, knowledge.labels):
            method = "classes"
        fits = method == "fit" and knowledge.features is None and match in (None, "labels")
        chosen = match or ("labels" if fits else feature_match(knowledge.labels))
        objective = replace(objective, feature_match=chosen)
        if fits:
            fit = fit_features(network, released, knowledge.labels)
            knowledge = replace(knowledge, features=fit.features, cosines=fit.cosine)
        elif knowledge.features is None:
            method = "classes" if method == "fit" else method
            count = knowledge.labels.shape[1]
            if chosen == "subspace" and method == "classes" and span == "moments":
                found = recover_feature_span(network, released, count, neurons=neurons)
            else:
                found = recover_features(
                    network, released, count, neurons=neurons, method=method, span=span
                )
            cosine = math.sqrt(max(0.0, 1 - _SPAN_ERROR * found.shape[2] / neurons))
            expected = torch.full(knowledge.labels.shape, cosine).to(found)
            knowledge = replace(knowledge, features=found, cosines=expected)
        if chosen == "labels" and isinstance(space, UntrainedSpace) and space.network.features:
            space = replace(space, features=knowledge.features)
    return invert_updates(
        network,
        released,
        knowledge,
        generator=generator,
        objective=objective,
        space=space,
        iterations=iterations,
        rematch=rematch,
        **settings,
    )


def _labels_are_distinct(network: WideHead, labels: torch.Tensor) -> bool:
    """Whether labels differ within every batch and are fewer than the classes."""
    differ = bool((labels.sort(dim=1).values.diff(dim=1) > 0).all())
    return differ and labels.shape[1] < len(network.head.weight)
