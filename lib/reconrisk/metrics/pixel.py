"""Metrics of values: MSE, RMSE, PSNR, NCC, NMI and SSIM."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["mse", "ncc", "nmi", "psnr", "rmse", "ssim"]


def _pair(target: ArrayLike, reconstruction: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    x, y = arguments.finite("target", target), arguments.finite("reconstruction", reconstruction)
    if x.ndim == 0 or y.ndim == 0 or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            "target and reconstruction must agree in their last axis; "
            f"got shapes {x.shape} and {y.shape}"
        )
    return x, y


def mse(target: ArrayLike, reconstruction: ArrayLike) -> np.ndarray:
    """Mean squared error, ``||x - y||^2 / N``.

    Parameters
    ----------
    target, reconstruction : array_like, shape (..., N)
        Vectors; leading axes broadcast.

    Returns
    -------
    ndarray, shape (...)
        >= 0, in squared data units.

    Raises
    ------
    ValueError
        If the last axes differ or a value is not finite.

    Notes
    -----
    *From Mean to Extreme*, Definition 3; Ziller et al., Definition 1.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> float(metrics.mse([0.0, 0.5], [0.0, 1.0]))
    0.125
    """
    x, y = _pair(target, reconstruction)
    return np.mean(np.square(x - y), axis=-1)


def rmse(target: ArrayLike, reconstruction: ArrayLike) -> np.ndarray:
    """Root mean squared error, the square root of :func:`mse`.

    Parameters
    ----------
    target, reconstruction : array_like, shape (..., N)
        Vectors; leading axes broadcast.

    Returns
    -------
    ndarray, shape (...)
        >= 0, in data units.

    Raises
    ------
    ValueError
        If the last axes differ or a value is not finite.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> float(metrics.rmse([0.0, 0.0], [0.3, 0.3]))
    0.3
    """
    return np.sqrt(mse(target, reconstruction))


def psnr(
    target: ArrayLike, reconstruction: ArrayLike, data_range: ArrayLike | None = None
) -> np.ndarray:
    """Peak signal-to-noise ratio in dB, ``10 log10(range^2 / MSE)``; larger is better.

    Parameters
    ----------
    target, reconstruction : array_like, shape (..., N)
    data_range : array_like, optional
        Width of the value range, > 0; by default ``max(x) - min(x)`` of each target, as in
        *From Mean to Extreme*, Definition 4.

    Returns
    -------
    ndarray, shape (...)
        In decibel; infinite where the two are equal.

    Raises
    ------
    ValueError
        If the last axes differ, a value is not finite or a range is not positive.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> round(float(metrics.psnr([0.0, 1.0], [0.1, 0.9], data_range=1.0)), 6)
    20.0
    """
    x, y = _pair(target, reconstruction)
    width = x.max(axis=-1) - x.min(axis=-1) if data_range is None else data_range
    width = arguments.real("data_range", width, 0, np.inf, low_open=True)
    with np.errstate(divide="ignore"):
        return 20 * np.log10(width) - 10 * np.log10(mse(x, y))


def ncc(target: ArrayLike, reconstruction: ArrayLike) -> np.ndarray:
    """Normalised cross-correlation: Pearson's correlation of the values.

    Parameters
    ----------
    target, reconstruction : array_like, shape (..., N)
        Vectors; leading axes broadcast.

    Returns
    -------
    ndarray, shape (...)
        In [-1, 1].

    Raises
    ------
    ValueError
        If the last axes differ, a value is not finite, or a vector is constant: the NCC is then
        0/0 (always for ``N = 1``).

    Notes
    -----
    *From Mean to Extreme*, Definition 5; Ziller et al., Definition 3.

    Examples
    --------
    >>> from reconrisk import metrics
    >>> round(float(metrics.ncc([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])), 6)
    1.0
    """
    x, y = _pair(target, reconstruction)
    # of the values themselves: the mean of equal ones may be another number
    wrong = (np.ptp(x, axis=-1) == 0.0) | (np.ptp(y, axis=-1) == 0.0)
    x = x - x.mean(axis=-1, keepdims=True)
    y = y - y.mean(axis=-1, keepdims=True)
    scale = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    wrong = wrong | (scale == 0.0)
    if np.any(wrong):
        constant = int(np.sum(wrong))
        raise ValueError(
            "target and reconstruction must not be constant, where the NCC is 0/0; got "
            f"{constant} such pairs"
        )
    return np.clip(np.sum(x * y, axis=-1) / scale, -1.0, 1.0)


def nmi(target: ArrayLike, reconstruction: ArrayLike, bins: int = 100) -> float:
    """Normalised mutual information ``(H(X) + H(Y)) / H(X, Y)`` of binned values.

    Parameters
    ----------
    target, reconstruction : array_like
        Two images of one shape.
    bins : int
        Bins of each image's values, from the least to the largest, >= 2.

    Returns
    -------
    float
        In [1, 2]; 1 if the binned values are independent. The plug-in estimate of the mutual
        information is biased upwards by about (bins - 1)^2 / (2 N) nats, so that unrelated images
        of N pixels have an NMI slightly above 1.

    Raises
    ------
    ValueError
        If the shapes differ, there is no value or one that is not finite, both images are constant,
        or ``bins`` is out of its range.

    Notes
    -----
    Ziller et al., Definition C.1, after Studholme et al. 1999. Equal to scikit-image's
    ``normalized_mutual_information``, which uses a general d-dimensional histogram and takes fifty
    times as long on a photograph.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import metrics
    >>> picture = np.linspace(0, 1, 64).reshape(8, 8)
    >>> round(metrics.nmi(picture, picture), 6)
    2.0
    """
    bins = arguments.count("bins", bins, 2)
    x, y = arguments.finite("target", target), arguments.finite("reconstruction", reconstruction)
    if x.shape != y.shape:
        raise ValueError(f"target and reconstruction must share a shape; got {x.shape}, {y.shape}")
    if x.size == 0:
        raise ValueError(f"target and reconstruction must hold values; got shape {x.shape}")
    cell = _bin_of(x.ravel(), bins) * bins + _bin_of(y.ravel(), bins)
    joint = np.bincount(cell, minlength=bins * bins).reshape(bins, bins) / x.size
    joint_entropy = _entropy(joint)
    if joint_entropy == 0:
        raise ValueError(
            "target and reconstruction must not both be constant, where the NMI is 0/0; got only "
            f"{x.item(0)!r} and {y.item(0)!r}"
        )
    return float((_entropy(joint.sum(axis=0)) + _entropy(joint.sum(axis=1))) / joint_entropy)


def _bin_of(values: np.ndarray, bins: int) -> np.ndarray:
    """Return the bin of each value, among ``bins`` equal ones from the least to the largest."""
    edges = np.histogram_bin_edges(values, bins)
    position = (values - edges[0]) * (bins / (edges[-1] - edges[0]))
    index = np.minimum(position.astype(np.intp), bins - 1)
    # rounding may take a value to the bin beside its own
    index -= values < edges[index]
    index += (values >= edges[index + 1]) & (index < bins - 1)
    return index


def _entropy(probability: np.ndarray) -> float:
    positive = probability[probability > 0]
    return float(-np.sum(positive * np.log(positive)))


def ssim(target: ArrayLike, reconstruction: ArrayLike, data_range: float = 1.0) -> float:
    """Structural similarity (Wang et al. 2004) of two images, as scikit-image computes it.

    Parameters
    ----------
    target, reconstruction : array_like, shape (H, W) or (H, W, channels)
        At least 7 pixels a side, the size of the window.
    data_range : float
        Width of the value range, > 0.

    Returns
    -------
    float
        In [-1, 1]; 1 for equal images.

    Raises
    ------
    ValueError
        If a shape, a value or ``data_range`` is not as above.

    Examples
    --------
    >>> import numpy as np
    >>> from reconrisk import metrics
    >>> picture = np.linspace(0, 1, 64).reshape(8, 8)
    >>> round(metrics.ssim(picture, picture), 6)
    1.0
    """
    from skimage.metrics import structural_similarity

    arguments.real("data_range", data_range, 0, np.inf, low_open=True)
    x, y = arguments.finite("target", target), arguments.finite("reconstruction", reconstruction)
    if x.shape != y.shape or x.ndim not in (2, 3) or min(x.shape[:2]) < 7:
        raise ValueError(
            "target and reconstruction must be two images (H, W) or (H, W, channels) of at "
            f"least 7x7 pixels; got shapes {x.shape} and {y.shape}"
        )
    channel_axis = -1 if x.ndim == 3 else None
    return float(structural_similarity(x, y, data_range=data_range, channel_axis=channel_axis))
