"""Parameters of our own exhibits on one run that all papers look at."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"
_HAYES = "as Hayes et al."

_RUN = {
    "data": P("str", "digits", "MNIST", _HAYES, "labelled images: digits (8x8) or MNIST"),
    "hidden": P("int", 10, 10, _HAYES, "width of the hidden layer", low=1),
    "pool": P("int", 400, 2000, _OURS, "records that candidates are drawn from", low=20),
    "delta": P("float", 1e-5, 1e-5, _HAYES, "delta", low=1e-100),
    "sampling_rate": P("float", 0.1, 0.05, _OURS, "q, of Poisson sampling", low=1e-6),
    "steps": P("int", 100, 400, _OURS, "T, steps", low=1),
}

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/one_run": {
        **_RUN,
        "known": P("int", 999, 9999, _OURS, "records known to the attacker", low=1),
        "epsilon": P("float", 8.0, 8.0, _OURS, "epsilon that sets the noise", low=1e-2),
        "max_grad_norm": P("float", 1.0, 1.0, _OURS, "C, clipping norm", low=1e-9),
        "training_rate": P(
            "float", 1.0, 1.0, _OURS, "learning rate on the mean clipped gradient", low=1e-9
        ),
        "prior_sizes": P("ints", (2, 10, 100), (2, 10, 100), _OURS, "candidates n", low=2),
        "trials": P("int", 400, 1000, _OURS, "models of the prior-aware attack", low=50),
        "tests": P("int", 400, 1000, _OURS, "models with the record, and without", low=50),
        "attacked": P("int", 12, 40, _OURS, "records attacked without a prior", low=4),
        "repeats": P("int", 200, 400, _OURS, "runs of the analytic attack on each", low=20),
        "iterations": P("int", 200, 600, _OURS, "iterations of gradient matching", low=1),
        "draws": P("int", 400, 2000, _OURS, "draws of each noise on one direction", low=20),
        "wide_batch": P("int", 3, 5, _OURS, "records of the two-layer network's batch", low=1),
        "wide_width": P("int", 20_000, 100_000, _OURS, "width of the two-layer network", low=100),
    },
    "beyond/epsilon_means": {
        **_RUN,
        "epsilons": P(
            "floats",
            (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 480.0),
            (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 480.0),
            _OURS, "epsilons, smallest first", low=1e-2,
        ),
    },
    "beyond/orderings": {
        "rates": P("floats", (1.0, 1.0, 0.1, 0.01), (1.0, 1.0, 0.1, 0.01), _OURS, "q", low=1e-6),
        "steps": P("ints", (1, 100, 100, 10_000), (1, 100, 100, 10_000), _OURS, "T", low=1),
        "epsilons": P("floats", (1.0, 4.0, 16.0), (1.0, 4.0, 16.0), _OURS, "epsilons", low=1e-2),
        "apart": P("float", 1.1, 1.1, _OURS, "factor between the noise of two runs", low=1.0),
        "delta": P("float", 1e-5, 1e-5, _OURS, "delta", low=1e-100),
        "dimension": P("int", 784, 784, _OURS, "N, values of a record", low=2),
        "parameters": P("int", 7960, 7960, "7,960 (Hayes et al.)", "p, released values", low=2),
    },
}  # fmt: skip
