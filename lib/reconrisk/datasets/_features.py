"""Features of images from a frozen network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconrisk import arguments
from reconrisk.datasets._labelled import LabelledFeatures, LabelledImages

if TYPE_CHECKING:
    from reconrisk.feature_maps import FeatureMap

#: File of a pretrained wide ResNet below ``data_root``, in the format of ``feature_maps.load``.
WEIGHTS_FILE = "wrn28_10_imagenet32.pt"


def features(
    images: LabelledImages,
    data_root: Path | None = None,
    *,
    count: int = 640,
    network: str = "random",
) -> LabelledFeatures:
    """Return the features of labelled images under the network of :func:`feature_map`.

    Parameters
    ----------
    images : LabelledImages
        In colour.
    data_root, count, network
        As in :func:`feature_map`.

    Returns
    -------
    LabelledFeatures

    Notes
    -----
    Cost: one pass through the network, in batches of 256 images.
    """
    import torch

    frozen = feature_map(images.shape, data_root, count=count, network=network)
    with torch.no_grad():
        batches = torch.as_tensor(images.inputs).split(256)
        inputs = torch.cat([frozen(batch) for batch in batches]).numpy()
    return LabelledFeatures(inputs, images.labels, frozen.name, frozen.stand_in)


def feature_map(
    shape: Sequence[int],
    data_root: Path | None = None,
    *,
    count: int = 640,
    network: str = "random",
) -> FeatureMap:
    """Return the frozen network whose last layer is fine-tuned, differentiable in the pixels.

    Parameters
    ----------
    shape : tuple of int
        (height, width, 3) of the images.
    data_root : Path, optional
        If it holds ``wrn28_10_imagenet32.pt``, that wide ResNet is loaded (its format:
        :func:`reconrisk.feature_maps.load`); else the result is a stand-in.
    count : int
        Number of features of the stand-in; WRN-28-10 has 640.
    network : {"random", "EfficientNet-lite0"}
        The stand-in: :func:`reconrisk.feature_maps.random_features` or
        :func:`reconrisk.feature_maps.efficientnet_lite0`.

    Returns
    -------
    FeatureMap
    """
    from reconrisk import feature_maps

    arguments.one_of("network", network, ("random", "EfficientNet-lite0"))
    if data_root is not None and (Path(data_root) / WEIGHTS_FILE).is_file():
        return feature_maps.load(Path(data_root) / WEIGHTS_FILE)
    if network == "random":
        return feature_maps.random_features(tuple(shape), count)
    return feature_maps.efficientnet_lite0(tuple(shape), count)
