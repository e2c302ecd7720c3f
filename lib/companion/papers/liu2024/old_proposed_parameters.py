"""Parameters of the exhibits of Liu et al. 2024 that show the proposed attack and its parts."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed"

#: what the runs share; exhibits with equal values share them
_BENCH = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", low=8),
    "images": Parameter("int", 32, 64, "50, stratified", "private pictures", low=32),
    "network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "attacked network: ConvNet or ResNet-18"
    ),
    "channels": Parameter("int", 24, 64, "64", "of the network's first stage", low=1),
    "wide": Parameter("int", 896, 16_384, "16,384", "neurons of the extra layer", low=2),
    "trained_neurons": Parameter(
        "int", 128, 2048, "2,048; also 4,096", "of these, how many keep ordinary weights", low=1
    ),
    "activation": Parameter("str", "elu", "relu", "relu", "of the network"),
    "iterations": Parameter("int", 200, 10_000, "10,000", "of each attack", low=16),
    "painter": Parameter("int", 16, 64, _OURS, "width of the untrained image network", low=1),
    "decoder_steps": Parameter(
        "int", 600, 20_000, "pretrained", "steps of training the image decoder", low=1
    ),
    "auxiliary": Parameter(
        "int", 512, 2048, "pretrained", "pictures that the image decoder is trained on", low=64
    ),
    "weighting": Parameter(
        "str",
        "count",
        "count",
        "a norm of the parameters, its index not legible",
        "of the layers' cosines under gradient reweighting: count or norm",
    ),
}

_SIZES = {
    "batch_sizes": Parameter(
        "ints", (4, 8, 16, 32), (4, 8, 16, 32), "4, 8, 16, 32", "pictures a batch", low=1
    ),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "liu2024/alg_proposed": {
        **_BENCH,
        "batch_size": Parameter("int", 4, 4, "2 to 32", "pictures of the traced batches", low=1),
    },
    "liu2024/alg_greedy": {
        "dimension": Parameter("int", 64, 512, "512", "of the features", low=2),
        "sets": Parameter("int", 200, 2000, _OURS, "sets of features for each setting", low=10),
    },
    "liu2024/alg_reweight": {
        **_BENCH,
        "batch_sizes": Parameter("ints", (16, 32), (16, 32), "16, 32", "pictures a batch", low=1),
    },
    "liu2024/table6": {
        **_BENCH,
        **_SIZES,
        "swept": Parameter("int", 4, 4, _OURS, "pictures a batch of the sweep of weights", low=1),
    },
    "liu2024/table3": {
        **_BENCH,
        "batch_sizes": Parameter("ints", (16, 32), (16, 32), "16, 32", "pictures a batch", low=1),
    },
}
