"""Parameters of the exhibits of Biswas et al. 2024 that reconstruct batches."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed"

_DATA = {
    "digits": Parameter("str", "digits", "MNIST", "MNIST, cropped", "labelled data set of digits"),
    "garments": Parameter(
        "str",
        "patches",
        "FashionMNIST",
        "FashionMNIST, scaled down",
        "labelled data set of other grey pictures",
    ),
    "initial": Parameter(
        "str",
        "xavier",
        "xavier",
        _OURS,
        "the attacked network's first weights: xavier, or default for PyTorch's",
    ),
}

_ATTACK = {
    **_DATA,
    "iterations": Parameter("int", 200, 10000, "10,000", "iterations of the attack", low=8),
    "total_variation": Parameter(
        "float", 0.0025, 0.0025, _OURS, "weight of the total variation", low=0.0
    ),
}

#: Tables II and VI and Figures 1, 3 and 4 look at the same attacks, so they share these.
_DRAWN = {
    **_ATTACK,
    "draws": Parameter("int", 3, 5, _OURS, "batches, each with a network of its own", low=2),
}

_SIZES = {
    "batch_sizes": Parameter(
        "ints",
        (16, 32, 64, 128),
        (16, 32, 64, 128),
        "16, 32, 64, 128",
        "records of a batch",
        low=16,
    ),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "biswas2024/alg_iga": {
        **_ATTACK,
        "sizes": Parameter(
            "ints", (1, 4, 16, 128), (1, 4, 16, 128), "128", "batch sizes that are traced", low=1
        ),
        "traced": Parameter("int", 8, 8, _OURS, "batches traced for each size", low=1),
        "compared": Parameter("int", 1, 3, _OURS, "batches for each reading", low=1),
    },
    "biswas2024/table2": _DRAWN,
    "biswas2024/table3": {
        **_DATA,
        "sizes": Parameter(
            "ints", (1, 8, 16), (1, 2, 4, 8, 16), "up to 8", "records of a batch", low=1
        ),
        "draws": Parameter("int", 5, 20, _OURS, "batches, each with a network of its own", low=2),
        "iterations": Parameter("int", 80, 300, _OURS, "steps of L-BFGS", low=1),
    },
    "biswas2024/table6": {**_DRAWN, **_SIZES},
    "biswas2024/fig1": _DRAWN,
    "biswas2024/fig3": {
        **_DRAWN,
        "shown": Parameter(
            "int", 8, 8, _OURS, "pictures of a batch that are shown, at most 8", low=1
        ),
    },
    "biswas2024/fig4": {**_DRAWN, **_SIZES},
    "biswas2024/figC_unreferenced": {},
}
