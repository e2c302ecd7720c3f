"""Parameters of our own exhibit on the capacity of gradients that are clipped layer by layer."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "our own exhibit"

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/capacity_of_layers": {
        "batch_size": P("int", 128, 128, "128", "B, by which the average's noise is divided", 1),
        "least_noise": P("float", 0.1, 0.1, "0.174", "least sigma drawn", 1e-3),
        "most_noise": P("float", 3.0, 3.0, "1.23", "largest sigma drawn", 0.01),
        "points": P("int", 25, 61, _OURS, "sigmas of the curves", 5),
        "noises": P("floats", (0.1, 0.4), (0.05, 0.1, 0.2, 0.4), _OURS, "noise sampled at", 0.02),
        "samples": P("int", 40_000, 200_000, _OURS, "samples of each small product", 1000),
        "grid": P(
            "ints",
            (2, 3, 5, 9, 65),
            (2, 3, 5, 9, 65, 257),
            _OURS,
            "inputs a side of channels on a square, growing",
            2,
        ),
    },
}
