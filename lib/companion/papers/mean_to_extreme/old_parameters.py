"""Parameters of the exhibits of *From Mean to Extreme*."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_NOT_PRINTED = "not printed"
_THEOREM = "a statement: no experiment is printed"

_REPEATS = P("int", 4000, 100_000, _THEOREM, "simulated steps per setting", 100)
_SIGMA = P("float", 0.3, 0.3, _THEOREM, "noise multiplier", 1e-12)
_PICTURE_SIGMAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1)

PARAMETERS: dict[str, dict[str, P]] = {
    "mean_to_extreme/alg_cor1_attack": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "dimension": P("int", 64, 784, _THEOREM, "values of a record", 2),
        "batch_size": P("int", 4, 16, "the threat model takes 1", "records mixed in A-002", 2),
    },
    "mean_to_extreme/fig1": {
        "pictures": P("int", 2, 4, _NOT_PRINTED, "photographs rebuilt", 1),
        "size": P("int", 224, 224, "224 (N = 150528)", "pixels a side", 8),
        "noise_multiplier": P("float", 5e-4, 5e-4, "5e-4", "sigma", 0),
        "max_grad_norm": P("float", 5e3, 5e3, "5.0e3", "C", 1e-12),
        "few_rows": P("int", 1, 1, "1", "M of the middle column", 1),
        "many_rows": P("int", 1000, 1000, "1000", "M of the right column", 1),
    },
    "mean_to_extreme/prop1": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "max_grad_norm": P("float", 10.0, 10.0, _THEOREM, "C, in units of the record's norm", 1),
        "dimension": P("int", 16, 64, _THEOREM, "values of a record", 2),
        "rows": P(
            "ints", (1, 3, 10, 30, 100, 300), (1, 3, 10, 30, 100, 300, 1000), _THEOREM, "M", 1
        ),
    },
    "mean_to_extreme/propB1": {
        "repeats": P("int", 20_000, 1_000_000, _THEOREM, "simulated steps", 1000),
        "noise_multiplier": _SIGMA,
    },
    "mean_to_extreme/propB2": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "dimension": P("int", 16, 64, _THEOREM, "values of a record", 2),
        "rows": P("ints", (1, 10, 100, 1000), (1, 10, 100, 1000, 10_000), _THEOREM, "M", 1),
    },
    "mean_to_extreme/lemB1": {
        "repeats": P("int", 200_000, 2_000_000, _THEOREM, "draws of the score", 1000),
        "noise_multiplier": _SIGMA,
        "dimension": P("int", 3, 3, _THEOREM, "values of a record", 2),
    },
    "mean_to_extreme/prop2": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "dimension": P("int", 16, 64, _THEOREM, "values of a record", 2),
    },
    "mean_to_extreme/thm1": {
        "repeats": _REPEATS,
        "noise_multipliers": P(
            "floats", (0.05, 0.2, 1.0), (0.01, 0.05, 0.2, 1.0), _THEOREM, "sigma", 1e-12
        ),
        "records": P("int", 200, 1000, _THEOREM, "digits rebuilt", 10),
    },
    "mean_to_extreme/cor1": {
        "pictures": P("int", 4, 20, _THEOREM, "photographs rebuilt", 1),
        "size": P("int", 32, 224, _THEOREM, "pixels a side", 8),
        "repeats": P("int", 200, 50, _THEOREM, "steps per photograph", 10),
        "noise_multiplier": P("float", 0.01, 0.01, _THEOREM, "sigma", 1e-12),
        "hidden": P("int", 16, 64, _THEOREM, "hidden units of the network that goes on", 1),
    },
    "mean_to_extreme/thm2": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "dimensions": P("ints", (1, 4, 64, 784), (1, 4, 64, 784, 3072), _THEOREM, "N", 1),
    },
    "mean_to_extreme/prop3": {
        "records": P("int", 200, 1000, _THEOREM, "records of the synthetic data set", 10),
        "repeats": P("int", 200, 1000, _THEOREM, "steps per record", 10),
        "dimension": P("int", 4, 4, _THEOREM, "N", 3),
        "noise_multiplier": P("float", 1.0, 1.0, _THEOREM, "sigma", 1e-12),
        "candidates": P("int", 10, 10, _THEOREM, "prior set of the matching attack (A-005)", 2),
    },
    "mean_to_extreme/prop4": {
        "records": P("int", 200, 1000, _THEOREM, "records of the synthetic data set", 10),
        "repeats": P("int", 200, 1000, _THEOREM, "steps per record", 10),
        "dimension": P("int", 4, 4, _THEOREM, "N", 3),
        "noise_multiplier": P("float", 0.3, 0.3, _THEOREM, "sigma", 1e-12),
    },
    "mean_to_extreme/prop5": {
        "repeats": P("int", 20_000, 200_000, _THEOREM, "steps", 100),
        "dimension": P("int", 16, 16, _THEOREM, "N", 3),
        "noise_multiplier": P("float", 1.0, 1.0, _THEOREM, "sigma", 1e-12),
    },
    "mean_to_extreme/propB3": {
        "repeats": P("int", 2000, 5_000, _THEOREM, "steps", 100),
        "noise_multiplier": _SIGMA,
        "dimensions": P("ints", (4, 64, 1024, 8192), (4, 64, 1024, 16_384), _THEOREM, "N", 1),
    },
    "mean_to_extreme/fig2": {
        "samples": P("int", 100, 100, "100", "records from U(0, 1)^N", 10),
        "dimension": P("int", 4, 4, "4", "N", 3),
        "rows": P("int", 100, 100, "100", "M", 1),
        "noise_multipliers": P(
            "floats",
            (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0),
            (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0),
            _NOT_PRINTED,
            "sigma",
            1e-12,
        ),
        "headroom": P(
            "float",
            2.0,
            2.0,
            "larger than any data norm",
            "row 3: C over sqrt(M) times the largest norm",
            1.0,
        ),
    },
    "mean_to_extreme/fig3": {
        "noise_multipliers": P(
            "floats",
            (0.5, 1.0, 2.0, 4.0),
            (0.5, 1.0, 2.0, 4.0),
            _NOT_PRINTED,
            "sigma of row 1",
            1e-12,
        ),
        "dimensions": P("ints", (1, 4, 16, 64), (1, 4, 16, 64), _NOT_PRINTED, "N of row 2", 1),
        "data_norms": P(
            "floats",
            (0.5, 1.0, 2.0, 4.0),
            (0.5, 1.0, 2.0, 4.0),
            _NOT_PRINTED,
            "min ||X|| of row 3",
            1e-12,
        ),
        "noise_multiplier": P("float", 1.0, 1.0, "1", "sigma where not varied", 1e-12),
        "dimension": P("int", 1, 1, "1", "N where not varied", 1),
        "data_norm": P(
            "float", 1.0, 1.0, "1 (printed as a maximum)", "norm where not varied", 1e-12
        ),
        "points": P("int", 201, 201, _NOT_PRINTED, "thresholds per curve", 11),
    },
    "mean_to_extreme/fig4": {
        "pictures": P("int", 6, 100, "100", "photographs rebuilt", 2),
        "size": P("int", 224, 224, "ImageNet size", "pixels a side", 32),
        "noise_multipliers": P(
            "floats", _PICTURE_SIGMAS, _PICTURE_SIGMAS, _NOT_PRINTED, "sigma", 1e-12
        ),
        "max_grad_norm": P("float", 1.0, 1.0, _NOT_PRINTED, "C (below every norm)", 1e-12),
    },
    "mean_to_extreme/fig5": {
        "size": P("int", 224, 224, _NOT_PRINTED, "pixels a side", 8),
        "factor": P("float", 10.0, 10.0, "10", "a, the rescaling", 1e-12),
        "noise_multiplier": P("float", 1e-3, 1e-3, "1.0e-3", "sigma", 1e-12),
    },
    "mean_to_extreme/fig6": {
        "size": P("int", 224, 224, "224", "pixels a side in scenarios 1 and 2", 32),
        "small_size": P("int", 64, 64, "64", "pixels a side in scenario 3", 32),
        "noise_multipliers": P(
            "floats",
            (1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 1e-2, 3e-2),
            (1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 1e-2, 3e-2),
            _NOT_PRINTED,
            "sigma",
            1e-12,
        ),
        "max_grad_norm": P("float", 1.0, 1.0, "1", "C", 1e-12),
        "rows": P("int", 1, 1, "1", "M", 1),
    },
    "mean_to_extreme/prop6": {
        "dimensions": P(
            "ints", (100, 10_000, 1_000_000), (100, 10_000, 1_000_000, 10_000_000), _THEOREM, "N", 2
        ),
        "noise_multiplier": P("float", 0.05, 0.05, _THEOREM, "sigma", 1e-12),
        "digits": P("int", 300, 1797, _THEOREM, "digits rebuilt for erratum E-A-13", 10),
    },
    "mean_to_extreme/propB4": {
        "repeats": _REPEATS,
        "dimensions": P("ints", (3, 4, 64), (3, 4, 64, 784), _THEOREM, "N", 3),
        "noise_multiplier": _SIGMA,
    },
    "mean_to_extreme/prop7": {
        "repeats": _REPEATS,
        "noise_multiplier": _SIGMA,
        "dimension": P("int", 8, 64, _THEOREM, "values of a record", 2),
        "averaged": P("ints", (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32, 64), _THEOREM, "k", 1),
        "steps": P("int", 1000, 1000, _THEOREM, "K of the selection probability", 1),
        "records": P("int", 1000, 1000, _THEOREM, "|D| of the selection probability", 2),
    },
}
