"""Parameters of our own exhibits on how often the best attack succeeds."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "our own exhibit"
_DELTA = P("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-300)

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/bayes_success": {
        "epsilons": P(
            "floats",
            (1.0, 4.0, 10.0, 32.0, 100.0),
            (1.0, 4.0, 10.0, 32.0, 100.0),
            "1, 10, 100 (Figure 2); 4, 32 (Figures 5 and 15)",
            "epsilon of the runs whose prior size varies",
            1e-3,
        ),
        "curve_points": P("int", 49, 97, _OURS, "epsilons of the curves, from 0.5 to 100", 5),
        "curve_sizes": P("ints", (2, 10, 2048), (2, 10, 2048), _OURS, "n of the curves", 2),
        "prior_sizes": P(
            "ints",
            tuple(2**k for k in range(1, 12)),
            tuple(2**k for k in range(1, 12)),
            "2^1 to 2^11 (Figure 3)",
            "n",
            2,
        ),
        "gap_sizes": P(
            "ints",
            (2, 3, 4, 5, 6, 8, 10, 16, 32, 100, 1000, 10**4, 10**6, 10**9),
            (2, 3, 4, 5, 6, 8, 10, 16, 32, 100, 1000, 10**4, 10**6, 10**9),
            _OURS,
            "n at which the largest gap over the signal is sought",
            2,
        ),
        "steps": P("int", 100, 100, "100", "T, full batch", 1),
        "delta": _DELTA,
        "trials": P("int", 20_000, 200_000, _OURS, "simulated attacks for each setting", 1000),
        "geometries": P("int", 12, 40, _OURS, "random geometries for each n", 1),
    },
    "beyond/subsampled_success": {
        "epsilons": P(
            "floats",
            (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
            (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0),
            "not stated (axis of Figure 4)",
            "epsilon",
            1e-3,
        ),
        "sampling_rate": P("float", 0.02, 0.02, "0.02", "q", 1e-9),
        "steps": P("int", 1000, 1000, "1,000", "T", 2),
        "prior_size": P("int", 10, 10, "10", "n", 2),
        "delta": _DELTA,
        "trials": P("int", 40_000, 400_000, "10,000 (trained models)", "simulated attacks", 500),
    },
    "beyond/small_priors": {
        "dimensions": P("ints", (784, 3072), (784, 3072), "784, 3072", "d, values of an image", 1),
        "shares": P(
            "floats",
            (0.3, 0.6, 0.9, 1.0),
            (0.3, 0.6, 0.9, 1.0),
            "0.6 and 1; the others are not stated",
            "rho, share of the pixels that must fit",
            1e-9,
        ),
        "curve_points": P("int", 81, 161, _OURS, "epsilons of the curves, from 1 to 10,000", 5),
        "steps": P("int", 100, 100, "100", "T, full batch", 1),
        "delta": _DELTA,
        "trials": P("int", 200_000, 2_000_000, _OURS, "simulated images of 12 pixels", 1000),
    },
    "beyond/data_bound": {
        "dataset": P("str", "digits", "MNIST", _OURS, "labelled images: digits or MNIST"),
        "epsilons": P(
            "floats", (5.0, 7.0, 10.0), (4.0, 5.0, 7.0, 10.0), _OURS, "epsilon of the runs", 1e-3
        ),
        "prior_sizes": P(
            "ints", (10, 2), (10, 2), "10", "n within one class; n whatever the class", 2
        ),
        "groups": P("int", 6, 10, _OURS, "lists of candidates, each with its first weights", 2),
        "models": P("int", 64, 200, _OURS, "trained models for each list", 8),
        "records": P("int", 300, 1000, "1,000", "training records, the target included", 2),
        "hidden": P("int", 10, 10, "10", "width of the hidden layer", 1),
        "steps": P("int", 100, 100, "100", "T, full batch", 1),
        "max_grad_norm": P("float", 0.1, 0.1, "0.1", "C", 1e-12),
        "learning_rate": P("float", 5.0, 5.0, "swept, 0.001 to 100", "of the mean gradient", 0),
        "delta": _DELTA,
        "slack": P("float", 0.1, 0.1, _OURS, "added to the largest distance that was seen", 0),
    },
}
