"""Parameters of our own exhibits that hold the papers' notions against each other."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/worst_case": {
        "steps": P("ints", (1, 30), (1, 30, 1000), _OURS, "T, steps", low=1),
        "signals": P("floats", (0.5, 2.0), (0.5, 2.0), _OURS, "sqrt(T)/sigma", low=1e-3),
        "rates": P("floats", (0.01, 0.3, 1.0), (0.01, 0.3, 1.0), _OURS, "q", low=1e-6),
        "levels": P(
            "floats", (1e-3, 0.1, 0.5), (1e-3, 0.1, 0.5), _OURS, "prior success", low=1e-9
        ),
        "samples": P("int", 20_000, 100_000, _OURS, "simulated runs of each kind", low=1000),
        "dimension": P("int", 6, 6, _OURS, "released values of a simulated run", low=2),
    },
    "beyond/near_misses": {
        "dimensions": P(
            "ints", (64, 784, 10_000, 150_528), (64, 784, 10_000, 150_528), _OURS,
            "N, smallest first", low=3,
        ),
        "scales": P("floats", (0.5, 1.0, 2.0), (0.5, 1.0, 2.0), _OURS, "a", low=0.1),
        "shares": P(
            "floats",
            (0.003, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97),
            (0.003, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97),
            _OURS, "MSE over the record's mean square", low=1e-12,
        ),
        "room": P("float", 0.01, 0.01, _OURS, "relative distance of medians from limits", low=0),
    },
    "beyond/capacity_and_rero": {
        "dimensions": P(
            "ints", (64, 760, 13_700), (64, 760, 13_700), _OURS, "p, smallest first", low=2
        ),
        "noise_multipliers": P("floats", (0.3, 1.0, 3.0), (0.3, 1.0, 3.0), _OURS, "sigma", 0.05),
        "prior_sizes": P(
            "ints", (2, 5, 20, 100, 500, 2000), (2, 5, 20, 100, 500, 2000), _OURS,
            "n, besides p itself", low=2,
        ),
        "room": P("float", 0.01, 0.01, _OURS, "relative distance of crossing from limit", low=0),
    },
    "beyond/unbiased_bound": {
        "noise_multipliers": P(
            "floats", (0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0), (0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0),
            _OURS, "sigma", low=0.05,
        ),
        "mean_squares": P(
            "floats", (0.02, 0.1, 0.3), (0.02, 0.1, 0.3), _OURS, "mean square of a pixel", low=1e-9
        ),
        "dimension": P("int", 784, 784, _OURS, "N", low=1),
        "samples": P("int", 4000, 40_000, _OURS, "steps of the one-pixel layer", low=100),
        "room": P("float", 0.01, 0.01, _OURS, "relative distance from limits", low=0),
    },
    "beyond/matched_vmf": {
        "dimensions": P(
            "ints", (64, 760, 13_700), (64, 760, 13_700), _OURS, "p, smallest first", low=8
        ),
        "noise_multipliers": P("floats", (0.5, 1.0, 2.0), (0.5, 1.0, 2.0), _OURS, "sigma", 0.05),
        "delta": P("float", 1e-5, 1e-5, _OURS, "delta", low=1e-100),
        "prior_success": P("float", 0.1, 0.1, _OURS, "prior success", low=1e-12),
        "room": P("float", 0.01, 0.01, _OURS, "relative distance from limits", low=0),
    },
}  # fmt: skip
