"""Parameters of the companion's own exhibits."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "our own exhibit"

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/minimax": {
        "dimensions": P("ints", (2, 4, 16), (2, 4, 16), _OURS, "N", 2),
        "noise_multiplier": P("float", 0.5, 0.5, _OURS, "sigma", 1e-12),
        "half_widths": P(
            "floats",
            (1.0, 2.0, 4.0, 8.0),
            (1.0, 2.0, 4.0, 8.0, 16.0),
            _OURS,
            "L of the log-uniform prior on the norm",
            0.1,
        ),
    },
    "beyond/plain_tails": {
        "dimensions": P(
            "ints", (1000, 150_528, 10**7, 10**9), (1000, 150_528, 10**7, 10**9), _OURS, "N", 1
        ),
        "deviations": P(
            "floats",
            (2.0, 5.0, 8.0, 20.0, 60.0),
            (2.0, 5.0, 8.0, 20.0, 60.0),
            _OURS,
            "standard deviations below the mean",
            0.1,
        ),
    },
    "beyond/ncc_law": {
        "repeats": P("int", 20_000, 200_000, _OURS, "DP-SGD steps per record", 1000),
        "dimensions": P("ints", (4, 16, 1000), (4, 16, 64, 1000), _OURS, "N", 3),
        "noise_multiplier": P("float", 0.5, 0.5, _OURS, "sigma", 1e-12),
        "digits": P("int", 300, 1797, _OURS, "digits whose exact tails are drawn", 1),
    },
    "beyond/ncc_exceedance": {
        "noise_multipliers": P("floats", (0.01, 0.1, 1.0), (0.01, 0.1, 1.0), _OURS, "sigma", 1e-12),
        "dimensions": P(
            "ints",
            (3, 4, 10, 30, 100, 300, 1000, 10_000, 150_528, 10**6, 10**9),
            (3, 4, 10, 30, 100, 300, 1000, 10_000, 150_528, 10**6, 10**9),
            _OURS,
            "N",
            3,
        ),
    },
    "beyond/many_steps": {
        "noise_multiplier": P("float", 0.05, 0.05, _OURS, "sigma", 1e-12),
        "dimension": P("int", 64, 64, _OURS, "N", 1),
        "records": P("ints", (100, 1000, 10_000), (100, 1000, 10_000), _OURS, "|D|", 2),
        "steps": P(
            "ints",
            (1, 10, 100, 1000, 10_000, 100_000),
            (1, 10, 100, 1000, 10_000, 100_000),
            _OURS,
            "T",
            1,
        ),
        "threshold": P("float", 0.02, 0.02, _OURS, "eta, in units of ||X||^2 / N", 1e-12),
        "trials": P("int", 10_000, 100_000, _OURS, "simulated runs for the check", 1000),
    },
    "beyond/estimators": {
        "pictures": P("int", 6, 50, _OURS, "photographs", 2),
        "sizes": P("ints", (16, 64), (32, 224), _OURS, "pixels a side", 8),
        "repeats": P("int", 8, 1, _OURS, "steps per photograph, sigma and estimator", 1),
        "digits": P("int", 200, 1797, _OURS, "handwritten digits", 10),
        "synthetic": P("int", 200, 2000, _OURS, "records from U(0, 1)^N", 10),
        "dimensions": P(
            "ints", (4, 64, 1024), (4, 64, 1024), _OURS, "N of the synthetic records", 3
        ),
        "noise_multipliers": P(
            "floats",
            (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0),
            (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0),
            _OURS,
            "sigma",
            1e-12,
        ),
    },
    "beyond/corrected_rero": {
        "dimensions": P("ints", (4, 64, 1024), (4, 64, 1024, 150_528), _OURS, "N", 2),
        "noise_multipliers": P(
            "floats",
            (1.0, 0.25, 0.05),
            (1.0, 0.25, 0.05, 0.05),
            _OURS,
            "sigma, one for each N",
            1e-12,
        ),
        "points": P("int", 121, 241, _OURS, "thresholds per curve", 11),
        "trials": P("int", 20_000, 200_000, _OURS, "simulated directions", 1000),
    },
    "beyond/unknown_scale": {
        "records": P("int", 2000, 20_000, _OURS, "digits rebuilt (with repetition)", 100),
        "noise_multipliers": P(
            "floats",
            (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3),
            (0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.3),
            _OURS,
            "sigma",
            1e-12,
        ),
        "scaled_norms": P(
            "floats",
            (0.5, 1.0, 2.83, 10.0),
            (0.5, 1.0, 2.83, 10.0),
            _OURS,
            "a times the median norm, sqrt(u); N^(1/4) = 2.83 is best",
            1e-12,
        ),
        "rows": P("int", 4, 4, _OURS, "M", 1),
    },
}
