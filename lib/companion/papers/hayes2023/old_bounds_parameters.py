"""Parameters of exhibits of Hayes et al. 2023 (bounds)."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_THEOREM = "not printed: a statement, not an experiment"
_NOT_PRINTED = "not printed"

_KAPPA = Parameter("float", 0.1, 0.1, "1/10", "kappa, prior success", low=1e-6)


def _mechanisms(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, _THEOREM, "random mechanisms per setting", low=1)


def _pairs(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, _THEOREM, "random pairs of distributions", low=1)


def _sigmas(*values: float, printed: str = _THEOREM) -> Parameter:
    return Parameter("floats", values, values, printed, "sigma, noise multipliers", low=1e-3)


def _rates(*values: float) -> Parameter:
    return Parameter("floats", values, values, _THEOREM, "q, sampling rates", low=1e-6)


PARAMETERS: dict[str, dict[str, Parameter]] = {
    "hayes2023/thm2": {
        "mechanisms": _mechanisms(300, 10000),
        "epsilons": Parameter(
            "floats", (0.5, 1.0, 3.0), (0.5, 1.0, 3.0), _THEOREM, "epsilon of pure DP", low=1e-6
        ),
        "candidates": Parameter("ints", (2, 10, 100), (2, 10, 100), _THEOREM, "prior sizes", low=2),
    },
    "hayes2023/thm7": {
        "mechanisms": _mechanisms(200, 10000),
        "noise_multipliers": _sigmas(0.3, 0.6, 1.0, 2.0, 4.0),
    },
    "hayes2023/lem8": {"pairs": _pairs(40, 1000)},
    "hayes2023/lem9": {
        "pairs": _pairs(100, 1000),
        "points": Parameter("int", 9, 17, _THEOREM, "values of kappa for each run", low=5),
        "noise_multipliers": _sigmas(0.5, 1.0, 10.0, 0.5, 1.0, 5.0),
        "sampling_rates": _rates(1.0, 0.3, 1.0, 0.02, 0.02, 0.5),
        "steps": Parameter(
            "ints",
            (1, 1, 100, 100, 1000, 100),
            (1, 1, 100, 100, 1000, 100),
            _THEOREM,
            "T, steps; one run for each entry of the three lists",
            low=1,
        ),
    },
    "hayes2023/lem11": {
        "data_sets": Parameter("int", 6, 100, _THEOREM, "random least-squares problems", low=1),
        "noise_multipliers": _sigmas(0.6, 1.0, 2.0),
        "sampling_rates": _rates(0.2, 0.5, 0.9),
    },
    "hayes2023/lem12": {
        "pairs": _pairs(200, 10000),
        "noise_multipliers": _sigmas(0.5, 1.0, 3.0),
        "sampling_rates": _rates(0.1, 0.5, 1.0),
        "kappas": Parameter(
            "floats",
            (1e-6, 0.01, 0.1, 0.5),
            (1e-6, 0.01, 0.1, 0.5),
            _THEOREM,
            "kappa, prior probabilities of success",
            low=1e-12,
        ),
    },
    "hayes2023/prop6": {
        "samples": Parameter(
            "ints", (50, 500), (50, 500, 5000), _THEOREM, "N, samples of the prior", low=1
        ),
        "kappas": Parameter(
            "floats", (0.01, 0.1, 0.5), (0.01, 0.1, 0.5), _THEOREM, "kappa", low=1e-9
        ),
        "taus": Parameter("floats", (0.1, 0.3, 0.6), (0.1, 0.3, 0.6), _THEOREM, "tau", low=1e-6),
        "repeats": Parameter("int", 2000, 20000, _THEOREM, "samples of each size", low=100),
    },
    "hayes2023/alg1": {
        "kappa": _KAPPA,
        "epsilons": Parameter(
            "floats", (1.0, 4.0), (1.0, 4.0), _NOT_PRINTED, "epsilon of full-batch runs", low=0.01
        ),
        "samples": Parameter("int", 10000, 1000000, "1M", "N, samples of one estimate", low=100),
        "repeats": Parameter("int", 200, 200, "1,000", "estimates per setting", low=10),
        "sampling_rate": Parameter(
            "float", 0.1, 0.1, _NOT_PRINTED, "q of a sub-sampled run", low=1e-3
        ),
        "sampled_samples": Parameter(
            "int", 2500, 100000, "1M", "N, samples of one of its estimates", low=100
        ),
        "sampled_repeats": Parameter("int", 40, 40, "1,000", "estimates of it", low=20),
        "spread_repeats": Parameter(
            "int", 1000, 1000, "1,000", "estimates behind a standard deviation", low=100
        ),
        "timed_samples": Parameter(
            "int", 100000, 1000000, "10,000 to 10M", "samples of the timed estimate", low=100
        ),
    },
    "hayes2023/prop5": {
        "kappa": _KAPPA,
        "noise_multipliers": _sigmas(1.0, 1.0, 5.0),
        "sampling_rates": _rates(1.0, 0.2, 0.3),
        "steps": Parameter(
            "ints",
            (1, 5, 20),
            (1, 5, 20),
            _THEOREM,
            "T, steps; one run for each entry of the three lists",
            low=1,
        ),
        "samples": Parameter(
            "ints",
            (300, 3000, 30000),
            (1000, 10000, 100000, 1000000),
            _THEOREM,
            "N, samples of one estimate",
            low=100,
        ),
        "repeats": Parameter("int", 50, 100, _THEOREM, "estimates per setting", low=10),
        "million_repeats": Parameter(
            "int", 5, 100, _NOT_PRINTED, "estimates from a million samples each", low=3
        ),
    },
    "hayes2023/cor4": {
        "epsilons": Parameter(
            "floats",
            (1.0, 4.0, 10.0, 32.0),
            (1.0, 4.0, 10.0, 32.0, 100.0),
            "1, 10, 100 (Figure 2); 4 (Figure 5); 32 (Figure 15)",
            "epsilon of every run",
            low=0.01,
        ),
        "sampling_rates": _rates(1.0, 0.02, 0.1),
        "steps": Parameter(
            "ints",
            (100, 1000, 100),
            (100, 1000, 100),
            "100; 1,000 (Figure 4)",
            "T, steps; one kind of run for each entry of this and the last list",
            low=1,
        ),
        "prior_sizes": Parameter("ints", (2, 10, 100), (2, 10, 100), "2, 10, 100", "n", low=2),
        "advantage": Parameter(
            "float", 0.1, 0.1, _NOT_PRINTED, "advantage, eq. (4), that is tolerated", low=1e-6
        ),
        "mechanisms": _mechanisms(100, 2000),
    },
    "hayes2023/table2": {
        "printed_samples": Parameter(
            "int", 100000, 100000, "100,000", "samples behind the printed numbers", low=2
        ),
        "samples": Parameter(
            "int", 5000, 100000, "100,000", "samples from which that noise is estimated", low=100
        ),
    },
    "hayes2023/fig11": {
        "prior_size": Parameter("int", 10, 10, "10", "n, uniform prior", low=2),
        "least_noise": Parameter("float", 0.25, 0.25, _NOT_PRINTED, "least sigma drawn", low=0.05),
        "most_noise": Parameter("float", 3.0, 3.0, _NOT_PRINTED, "largest sigma drawn", low=0.1),
        "points": Parameter("int", 56, 111, _NOT_PRINTED, "values of sigma", low=3),
    },
}
