"""Parameters of the exhibits of Hayes et al. 2023 that reconstruct without candidates."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_RANGE = "not printed: a curve over epsilon"
_OURS = "not printed"

_NOISE = {
    "epsilons": Parameter(
        "floats",
        (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 10000.0, 100000.0),
        (1.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0, 100000.0),
        _RANGE,
        "epsilon of (epsilon, delta)-DP, smallest first",
        low=1e-3,
    ),
    "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of (epsilon, delta)-DP", low=1e-300),
    "steps": Parameter("int", 100, 100, "100", "T, full-batch steps", low=1),
    "iterations": Parameter(
        "int", 200, 400, "1,000,000 of gradient descent", "iterations of Adam", low=1
    ),
    "restarts": Parameter("int", 1, 2, "5", "first candidates per target", low=1),
    "rate": Parameter("float", 0.05, 0.05, "0.01", "learning rate of the attack", low=1e-9),
}

#: Figures 1a, 6a, 8 and 12a look at the same reconstructions, so they share their parameters.
_GREY = {
    "grey": Parameter("str", "digits", "MNIST", "MNIST", "labelled data set of grey images"),
    "grey_targets": Parameter("int", 16, 1000, "1,000", "images attacked, a model each", low=4),
    "grey_known": Parameter("int", 299, 999, "999", "|D_-|, records known to the attacker", low=1),
    "grey_clip": Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9),
    "hidden": Parameter("int", 10, 10, "10", "width of the hidden layer", low=1),
    "grey_training_rate": Parameter(
        "float",
        20.0,
        20.0,
        "swept between 0.001 and 100 for each epsilon",
        "learning rate of DP-SGD, on the mean clipped gradient",
        low=1e-9,
    ),
    "pool": Parameter(
        "int", 400, 2000, "the data set", "images that random priors are drawn from", low=200
    ),
}

#: Figures 1b, 6b and 12b.
_COLOUR = {
    "colour": Parameter(
        "str", "patches", "CIFAR-10", "CIFAR-10", "labelled data set of colour images"
    ),
    "side": Parameter("int", 8, 32, "32", "pixels a side of the patches", low=4),
    "features": Parameter(
        "int",
        192,
        3072,
        "640 (WRN-28-10)",
        "features of the stand-in map; a weights file brings its own number",
        low=16,
    ),
    "colour_targets": Parameter("int", 12, 1000, "1,000", "images attacked, a model each", low=4),
    "colour_known": Parameter("int", 299, 499, "499", "|D_-|, records known to the attacker"),
    "colour_clip": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
    "colour_training_rate": Parameter(
        "float",
        2.0,
        2.0,
        "swept for each epsilon",
        "learning rate of DP-SGD, on the mean clipped gradient",
        low=1e-9,
    ),
    "colour_epsilons": Parameter(
        "floats",
        (10.0, 100.0, 1000.0, 10000.0, 100000.0),
        (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0, 100000.0),
        _RANGE,
        "epsilon in the colour panels, smallest first",
        low=1e-3,
    ),
}

_SHADOWS = {
    "shadows": Parameter("int", 700, 40000, "40,000", "shadow models, at most (repeats end early)"),
    "test_models": Parameter(
        "int", 100, 1000, "1,000", "models attacked by the model-based attack"
    ),
    "model_epsilons": Parameter(
        "floats",
        (10.0, 1000.0, 100000.0),
        (1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0),
        _RANGE,
        "epsilon of the model-based attack; each also of the gradient-based one",
        low=1e-3,
    ),
    "reconstructor": Parameter(
        "ints", (500,), (1000, 1000), "as Balle et al.", "widths of the reconstructor's layers"
    ),
    "epochs": Parameter("int", 30, 100, "as Balle et al.", "epochs of its training", low=1),
}

_ATTACK = {**_NOISE, **_GREY}
_BOTH = {**_ATTACK, **_COLOUR}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "hayes2023/fig1": {**_BOTH, **_SHADOWS},
    "hayes2023/fig6": {
        **_BOTH,
        "shown": Parameter("int", 4, 5, _OURS, "targets shown for each data set", low=1),
    },
    "hayes2023/fig8": {
        **_ATTACK,
        "prior_sizes": Parameter("ints", (2, 8, 128), (2, 8, 128), "2, 8, 128", "n", low=2),
    },
    "hayes2023/fig12": {
        **_BOTH,
        "shares": Parameter(
            "floats",
            (0.6, 0.8, 0.9, 1.0),
            (0.6, 0.7, 0.8, 0.9, 1.0),
            "0.6 and 1; the others are not printed",
            "rho, share of the pixels that must fit",
            low=0.0,
        ),
    },
    "hayes2023/alg_gradient_based": {
        **_ATTACK,
        "loss_epsilons": Parameter(
            "floats",
            (300.0, 1000.0),
            (100.0, 300.0, 1000.0, 10000.0),
            _OURS,
            "epsilon at which losses are compared",
        ),
        "compared": Parameter(
            "int", 12, 200, _OURS, "targets for which losses are compared", low=4
        ),
        "searched": Parameter("int", 4, 50, _OURS, "targets whose label is searched", low=2),
    },
    "hayes2023/alg_model_based": {
        **_ATTACK,
        **_SHADOWS,
        "noiseless_epsilon": Parameter(
            "float", 1e7, 1e7, "no DP", "epsilon that stands for training without noise", low=1e6
        ),
    },
    "hayes2023/alg_postprocess": {
        **_ATTACK,
        "prior_size": Parameter("int", 10, 10, "10", "n", low=2),
        "priors": Parameter(
            "int", 1000, 1000, "1,000 (10,000 in a footnote)", "random priors per target", low=10
        ),
    },
}
