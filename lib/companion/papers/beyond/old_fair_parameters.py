"""Parameters: fair comparison of mechanisms."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"
_DIGITS = {
    "digits": Parameter("str", "digits", "MNIST", "MNIST", "labelled data set of digits"),
}
_ATTACK = {
    "batch_sizes": Parameter(
        "ints", (16, 128), (16, 128), "16, 32, 64, 128", "records of a batch", low=2
    ),
}


def _iterations(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, "10,000", "iterations of the attack", low=10)


PARAMETERS: dict[str, dict[str, Parameter]] = {
    "beyond/mechanism_or_calibration": {
        **_DIGITS,
        **_ATTACK,
        "draws": Parameter("int", 8, 12, _OURS, "batches attacked at each batch size", low=3),
        "iterations": _iterations(150, 2000),
        "cosines": Parameter(
            "floats",
            (0.005, 0.03, 0.12, 0.4, 0.75, 0.94, 0.99, 0.9999),
            (0.005, 0.02, 0.05, 0.12, 0.25, 0.4, 0.6, 0.75, 0.88, 0.94, 0.97, 0.99, 0.999, 0.9999),
            _OURS,
            "mean cosines with the true gradient at which batches are attacked, smallest first",
            low=1e-4,
        ),
        "trained_cosines": Parameter(
            "floats",
            (0.005, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 0.9),
            (0.005, 0.01, 0.02, 0.03, 0.06, 0.12, 0.25, 0.5, 0.75, 0.9, 0.97),
            _OURS,
            "mean cosines at which networks are trained, smallest first",
            low=1e-4,
        ),
        "networks": Parameter("int", 4, 4, _OURS, "networks trained at each setting", low=3),
        "epochs": Parameter(
            "ints", (4, 20), (3, 3), "3", "epochs of training at each batch size", low=1
        ),
    },
    "beyond/fair_order": {
        **_DIGITS,
        "garments": Parameter(
            "str", "patches", "FashionMNIST", "Fashion-MNIST", "labelled data set of grey images"
        ),
        **_ATTACK,
        "draws": Parameter("int", 3, 12, _OURS, "batches attacked at each batch size", low=3),
        "iterations": _iterations(100, 2000),
        "resamples": Parameter("int", 2000, 10000, _OURS, "resamples for intervals", low=200),
    },
    "beyond/batch_limits": {
        **_DIGITS,
        "batch_sizes": Parameter(
            "ints",
            (1, 2, 4, 8, 16, 32, 64, 128),
            (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128),
            "16, 32, 64, 128",
            "records of a batch, smallest first",
            low=1,
        ),
        "span_size": Parameter(
            "int", 16, 32, _OURS, "largest batch attacked in the span of the gradient", low=4
        ),
        "leakage_size": Parameter(
            "int", 8, 16, "8", "largest batch attacked by deep leakage", low=1
        ),
        "noises": Parameter(
            "floats",
            (0.0, 0.01),
            (0.0, 1e-3, 1e-2),
            _OURS,
            "length of the noise over that of the gradient, smallest first; 0 is the first",
            low=0.0,
        ),
        "draws": Parameter("int", 3, 4, _OURS, "batches attacked at each batch size", low=3),
        "iterations": _iterations(200, 2000),
        "prior_rank": Parameter("int", 8, 15, _OURS, "principal directions in the prior", low=1),
        "prior_steps": Parameter("int", 3, 8, _OURS, "steps of the attack with a prior", low=1),
    },
}
