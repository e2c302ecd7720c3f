"""Parameters of the exhibits of Liu et al. 2024 that attack every defence."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["GRID", "PARAMETERS", "SIZES"]

_OURS = "not printed"

#: everything that the cells of the grid of attacks share; exhibits with these and equal values
#: share their runs
GRID = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
    "side": Parameter("int", 8, 32, "32", "pixels a side: 8, 16 or 32", low=8),
    "images": Parameter("int", 8, 50, "50, stratified", "private pictures", low=2),
    "network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "attacked network: ConvNet or ResNet-18"
    ),
    "channels": Parameter(
        "int", 16, 0, "64", "of the first stage; 0 for the network's own (64, ConvNet 16)", low=0
    ),
    "wide": Parameter(
        "int",
        256,
        0,
        "16,384",
        "neurons of the extra layer; 0 for the network's own (16,384; ConvNet: six a feature)",
        low=0,
    ),
    "trained_neurons": Parameter(
        "int",
        64,
        0,
        "2,048; also 4,096",
        "of these, how many keep ordinary weights; the others get those that features are "
        "recovered from; 0 for the network's own number (2,048; ConvNet: one for each feature)",
        low=0,
    ),
    "bins": Parameter("int", 64, 100, _OURS, "neurons of Robbing the Fed's layer", low=2),
    "iterations": Parameter("int", 300, 10_000, "10,000", "of each attack", low=8),
    "weighting": Parameter(
        "str",
        "count",
        "count",
        "a norm of the parameters, its index not legible",
        "weights of the layers' cosines in the proposed attack: count of their entries, or norm",
    ),
    "space": Parameter(
        "str",
        "pixels",
        "untrained network",
        "untrained network",
        "where the proposed attack seeks images: pixels or untrained network",
    ),
    "grouped": Parameter(
        "int",
        0,
        1,
        _OURS,
        "settings attacked in one task at most; 0 for all. Changes rounding only",
        low=0,
    ),
}

SIZES = {
    "batch_sizes": Parameter("ints", (2, 4, 8), (2, 4, 8), "2, 4, 8", "pictures a batch", low=1),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "liu2024/table4": {**GRID, **SIZES},
    "liu2024/table7": {**GRID, **SIZES},
    "liu2024/table8": {**GRID, **SIZES},
    "liu2024/fig2": {
        **GRID,
        "batch_size": Parameter("int", 4, 4, "4", "pictures a batch", low=1),
    },
    "liu2024/fig4": {**GRID, **SIZES},
}
