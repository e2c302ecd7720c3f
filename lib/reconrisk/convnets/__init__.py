"""Convolutional networks for gradient inversion: attacked classifiers and image generators.

The classifiers, a small network and ResNet-18, have a wide linear layer before the classification
head, as in Appendix F of *Data Reconstruction Attacks and Defenses* (Liu et al.). If its last
neurons are given random weights, their gradients reveal the inputs of the layer, the *features*.
:class:`ImprintNetwork` has a manipulated first layer, the imprint module of Robbing the Fed (Fowl
et al. 2022).

The generators are that appendix's untrained image prior, and a small decoder in place of the
pretrained generator of Jeon et al. (2021). :class:`Denoiser` is a learnt prior of images.

All weights are drawn from a random generator: nothing is pretrained. Arguments out of their range
raise ``ValueError``.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy
from reconrisk._extras import require

require("torch", "reconrisk.convnets")

if TYPE_CHECKING:
    from reconrisk.convnets._classifiers import (
        BatchNorm,
        ConvNet,
        ImprintNetwork,
        ResNet18,
        Trace,
        WideHead,
        randomise_neurons,
    )
    from reconrisk.convnets._denoisers import Denoiser, train_denoiser
    from reconrisk.convnets._painters import Decoder, ImagePrior, train_decoder
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "BatchNorm",
    "ConvNet",
    "Decoder",
    "Denoiser",
    "ImagePrior",
    "ImprintNetwork",
    "ResNet18",
    "Trace",
    "WideHead",
    "randomise_neurons",
    "train_decoder",
    "train_denoiser",
]
