"""Parameters of the exhibits of Liu et al. 2024 on features, utility and the trade-off."""

from __future__ import annotations

from companion.papers.liu2024.old_attacks_parameters import GRID, SIZES
from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed"

_DATA = {
    "data": Parameter("str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of pictures"),
}

#: Table 5 and Figure 3 look at the same trainings
_TRAINED = {
    "trained_network": Parameter(
        "str", "ConvNet", "ResNet-18", "ResNet-18", "trained network: ConvNet or ResNet-18"
    ),
    "trained_channels": Parameter(
        "int", 8, 64, "64", "of the trained network's first stage", low=1
    ),
    "trained_wide": Parameter("int", 256, 16_384, "16,384", "neurons of its extra layer", low=1),
    "trained_side": Parameter(
        "int", 16, 32, "32", "pixels a side of its pictures: 8, 16 or 32", low=8
    ),
    "records": Parameter("int", 128, 50_000, "50,000", "training pictures", low=8),
    "epochs": Parameter("int", 3, 1, "1; also 200", "of each training", low=1),
    "learning_rate": Parameter("float", 0.03, 0.1, "0.1", "of each training", low=1e-6),
    "small_rate": Parameter("float", 0.01, 0.01, _OURS, "a second, smaller rate", low=1e-6),
    "decay_every": Parameter(
        "int", 2, 0, "50 of 200", "epochs after which the rate falls to a tenth; 0: never", low=0
    ),
    "runs": Parameter("int", 3, 3, "1", "trainings of each setting", low=2),
    "mapped": Parameter(
        "int", 0, 1, _OURS, "settings trained in one task at most; 0 for all", low=0
    ),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "liu2024/table2": {
        **_DATA,
        "side": Parameter("int", 16, 32, "32", "pixels a side: 8, 16 or 32", low=8),
        "channels": Parameter(
            "int", 16, 64, "64", "of ResNet-18's first stage; an eighth of the features", low=4
        ),
        "neurons_per_feature": Parameter(
            "int", 32, 32, "32", "neurons of the wide layer for each feature", low=2
        ),
        "trained_share": Parameter(
            "float",
            0.125,
            0.125,
            "2,048 or 4,096 of 16,384",
            "share of the neurons that keep ordinary weights",
            low=0.0,
        ),
        "sizes": Parameter("ints", (1, 2, 4, 8), (1, 2, 4, 8), "1, 2, 4, 8", "records a batch"),
        "draws": Parameter("int", 4, 50, _OURS, "batches of each size", low=2),
        "read": Parameter(
            "int", 2, 5, _OURS, "of these, batches that are read in other ways", low=2
        ),
    },
    "liu2024/table5": {**_DATA, **_TRAINED, **SIZES},
    "liu2024/fig3": {
        **GRID,
        **SIZES,
        **_TRAINED,
        "aware": Parameter(
            "str",
            "GradientInversion, Robbing The Fed",
            "Ours, GradientInversion, Robbing The Fed, CPA",
            _OURS,
            "attacks that are also run by attackers who allow for the defence",
        ),
        "aware_sizes": Parameter(
            "ints", (2, 4), (2, 4, 8), _OURS, "batch sizes of these attacks", low=1
        ),
        "attacked_epochs": Parameter(
            "ints", (0, 1, 2, 3), (0, 1, 2, 3), "1, 2, 3", "epochs of training before an attack"
        ),
        "attacked_size": Parameter("int", 4, 4, _OURS, "records of the attacked batches", low=1),
    },
}
