"""Convolutional networks for gradient inversion: those attacked, and those that paint images.

The classifiers, a small network and ResNet-18, end, as in Appendix F of *Data Reconstruction
Attacks and Defenses* (Liu et al.), in a wide linear layer before the classification head. Its last
neurons may be given random weights, from whose gradients the layer's inputs, the *features*, can be
recovered. A manipulated layer in front of a network, Robbing the Fed's imprint module (Fowl et al.
2022), stands beside them.

The painters are that appendix's untrained image prior, and a small decoder in place of the
pretrained generator of Jeon et al. (2021).

All weights are drawn from a generator: nothing here is pretrained.
"""

from reconrisk._extras import require

require("torch", "reconrisk.convnets")

from reconrisk.convnets._classifiers import (
    BatchNorm,
    ConvNet,
    ImprintNetwork,
    ResNet18,
    Trace,
    WideHead,
    randomise_neurons,
)
from reconrisk.convnets._painters import Decoder, ImagePrior, train_decoder

__all__ = [
    "BatchNorm",
    "ConvNet",
    "Decoder",
    "ImagePrior",
    "ImprintNetwork",
    "ResNet18",
    "Trace",
    "WideHead",
    "randomise_neurons",
    "train_decoder",
]
