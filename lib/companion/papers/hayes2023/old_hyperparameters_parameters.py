"""Parameters of exhibits of Hayes et al. 2023 (hyperparameters)."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_NOT_PRINTED = "not printed"
_RANGE = "0.01 to 0.99"
#: q on the grids of the bound
_COARSE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.99)
_MIDDLE = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.99)
_FINE = tuple(q / 100 for q in range(1, 100))
_EPSILONS = Parameter(
    "floats",
    (1.0, 4.0, 10.0, 32.0),
    (1.0, 2.0, 4.0, 8.0, 10.0, 16.0, 32.0),
    "not printed, but for 4 (Figure 5) and 32 (Figure 15)",
    "epsilon, one curve each",
    low=0.01,
)


def _rates(quick: tuple[float, ...], paper: tuple[float, ...], meaning: str) -> Parameter:
    return Parameter("floats", quick, paper, _RANGE, meaning, low=1e-4)


def _attack(quick_trials: int) -> dict[str, Parameter]:
    return {
        "data": Parameter(
            "str", "digits", "MNIST", "MNIST", "a name that study.datasets.classified knows"
        ),
        "known": Parameter(
            "int", 999, 999, "999 (training size 1,000)", "|D-|, records that the adversary knows",
            low=2,
        ),
        "pool": Parameter(
            "int", 798, 10000, "the data set", "records that candidates are drawn from", low=100
        ),
        "hidden": Parameter("int", 10, 10, "10", "hidden units of the network", low=1),
        "max_grad_norm": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
        "steps": Parameter("int", 100, 100, "100", "T, steps", low=1),
        "learning_rate": Parameter(
            "float", 0.5, 0.5, "swept over 0.001 to 100 for every epsilon",
            "step on the mean of the clipped gradients", low=0,
        ),
        "trials": Parameter(
            "int", quick_trials, 10000, "10,000", "networks trained and attacked, a point", low=20
        ),
    }  # fmt: skip


PARAMETERS: dict[str, dict[str, Parameter]] = {
    "hayes2023/fig5": {
        "epsilon": Parameter("float", 4.0, 4.0, "4", "epsilon at delta = 1e-5", low=0.01),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
        "rates": _rates(_MIDDLE, _FINE, "q, where the bound is computed"),
        "attack_rates": _rates(
            (0.01, 0.1, 0.5, 0.99),
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99),
            "q, where the attack is run",
        ),
        "swept_rates": _rates((0.01, 0.1, 0.5, 0.99), _COARSE, "q, where T is varied as well"),
        "swept_steps": Parameter(
            "ints", (1, 10, 100, 1000), (1, 10, 100, 1000, 10000), "100 (C-027: varied)",
            "T, steps of the further curves", low=1,
        ),
        "candidates": Parameter(
            "int", 100, 100, "10 (each trial has its own)",
            "candidates of a trial; success is averaged over all choices of n of them", low=2,
        ),
        **_attack(150),
    },
    "hayes2023/fig14": {
        "epsilons": _EPSILONS,
        "rates": _rates(_COARSE, _FINE, "q, where the bound is computed"),
        "attack_rates": _rates(
            (0.01, 0.1, 0.99),
            (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.99),
            "q, where the attack is run",
        ),
        **_attack(50),
    },
    "hayes2023/fig15": {
        "epsilons": _EPSILONS,
        "rates": _rates(_COARSE, _FINE, "q, where the bound is computed"),
        "steps": Parameter("int", 100, 100, "100", "T, steps", low=1),
    },
}  # fmt: skip
