"""Parameters of Biswas et al. 2024, Section V: Bayes' capacity."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_THEOREM = "none (a theorem)"

_CHANNELS = P("int", 400, 5000, _THEOREM, "random channels with up to 8 inputs and outputs", 50)
_NOISE = P("float", 0.5, 0.5, _THEOREM, "standard deviation of the noise", 0.05)
_SAMPLES = P("int", 40_000, 200_000, _THEOREM, "samples of every Monte Carlo route", 1000)

PARAMETERS: dict[str, dict[str, P]] = {
    "biswas2024/fig5": {
        "noise_multipliers": P(
            "floats",
            (1.23, 0.461, 0.321, 0.229, 0.174),
            (
                *(1.23, 0.660, 0.544, 0.461, 0.435, 0.420, 0.367, 0.321),
                *(0.287, 0.282, 0.245, 0.229, 0.214, 0.204, 0.174),
            ),
            "the fifteen of Table IV",
            "sigma at which a concentration of equal certified epsilon is sought",
            0.1,
        ),
    },
    "biswas2024/lem1": {"channels": _CHANNELS},
    "biswas2024/lem2": {
        "inputs": P("ints", (2, 3, 5, 10, 100), (2, 3, 5, 10, 100), _THEOREM, "n", 2),
        "channels": P("int", 100, 2000, _THEOREM, "random channels for each n", 10),
    },
    "biswas2024/cor1": {"channels": _CHANNELS, "noise_std": _NOISE},
    "biswas2024/lem3": {
        "channels": _CHANNELS,
        "noise_std": _NOISE,
        "cells": P(
            "floats",
            (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
            (0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
            _THEOREM,
            "width of the cells to which outputs are rounded, growing",
            0.01,
        ),
    },
    "biswas2024/thm4": {
        "channels": _CHANNELS,
        "gradients": P(
            "ints",
            (2, 4, 16, 64, 256, 4096),
            (2, 4, 16, 64, 256, 4096, 65536),
            _THEOREM,
            "n, gradients spread over the unit disc, growing",
            2,
        ),
        "noise_std": P("float", 0.05, 0.05, _THEOREM, "noise on the disc", 0.02),
        "attacked": P(
            "ints", (2, 10, 100), (2, 10, 100, 1000), _THEOREM, "n, random gradients attacked", 2
        ),
        "attack_noise": P(
            "floats", (1.0, 0.25), (1.0, 0.5, 0.25), _THEOREM, "noise on unit gradients", 0.05
        ),
        "attacks": P("int", 20_000, 50_000, _THEOREM, "simulated attacks for each setting", 1000),
    },
    "biswas2024/thm5": {
        "dimensions": P(
            "ints",
            (1, 2, 3, 10, 100, 13_700),
            (1, 2, 3, 10, 100, 1000, 13_700),
            "13,700",
            "p",
            1,
        ),
        "noises": P(
            "floats",
            (0.0096, 0.2, 1.23),
            (0.00136, 0.0096, 0.05, 0.2, 0.5, 1.23),
            "sigma / 128: 0.00136 to 0.0096",
            "standard deviation per coordinate",
            1e-4,
        ),
        "sampled_dimensions": P("ints", (2, 5, 20), (2, 5, 20, 100), _THEOREM, "p", 1),
        "samples": _SAMPLES,
    },
    "biswas2024/thm6": {
        "dimensions": P(
            "ints", (2, 3, 10, 100, 13_700), (2, 3, 10, 100, 1000, 13_700), "13,700", "p", 2
        ),
        "concentrations": P(
            "floats", (1.0, 75.0, 500.0), (1.0, 25.0, 75.0, 200.0, 500.0), "25 to 500", "kappa", 0
        ),
        "sampled_dimensions": P(
            "ints",
            (2, 10, 100, 13_700),
            (2, 10, 100, 13_700),
            _THEOREM,
            "p of the sampled capacities",
            2,
        ),
        "sampled_concentrations": P(
            "floats",
            (1.0, 4.0, 12.0, 75.0),
            (1.0, 4.0, 12.0, 75.0),
            _THEOREM,
            "kappa of each; kappa^2 / p must be of the order of one",
            0,
        ),
        "samples": _SAMPLES,
        "spread": P(
            "floats",
            (1.0, 10.0, 100.0, 1000.0),
            (1.0, 10.0, 100.0, 1000.0),
            _THEOREM,
            "kappa, growing, at which the variance at p = 3 is compared",
            0.1,
        ),
    },
}
