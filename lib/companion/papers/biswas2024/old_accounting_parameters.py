"""Parameters: accounting."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_THEOREM = "not printed: a statement, not an experiment"
_NOT_PRINTED = "not printed"


def _orders(*values: float) -> P:
    return P("floats", values, values, _THEOREM, "alpha, orders of the divergence", low=1)


def _concentrations(*values: float, printed: str = "25 to 500") -> P:
    return P("floats", values, values, printed, "kappa, concentrations", low=1e-3)


def _points(quick: int, paper: int, meaning: str = "points of each curve") -> P:
    return P("int", quick, paper, _NOT_PRINTED, meaning, low=2)


PARAMETERS: dict[str, dict[str, P]] = {
    "biswas2024/prop1": {
        "orders": _orders(1.0, 1.5, 2.0, 4.0),
        "angles": P(
            "floats", (0.6, 2.0, 3.14159), (0.3, 0.6, 1.2, 2.0, 3.14159), _THEOREM,
            "angles between the centres", low=0.01,
        ),
        "concentrations": _concentrations(25.0, 75.0, 150.0, 500.0),
        "points": _points(61, 201),
        "sampling_rate": P("float", 0.2, 0.2, _THEOREM, "q of the Poisson sample", low=1e-3),
    },
    "biswas2024/thm1": {
        "orders": _orders(1.0, 2.0, 8.0),
        "grid": _points(40, 200, "concentrations and dimensions compared"),
        "points": _points(61, 201),
    },
    "biswas2024/prop2": {
        "orders": _orders(1.5, 2.0, 4.0),
        "sampled_orders": P(
            "floats", (0.5, 1.5, 2.0), (0.5, 1.5, 2.0, 3.0), _THEOREM, "orders by samples", low=0.1
        ),
        "samples": P("int", 200_000, 2_000_000, _THEOREM, "samples of every block", low=1000),
    },
    "biswas2024/prop3": {
        "orders": _orders(1.0, 2.0, 8.0),
        "concentrations": _concentrations(75.0, 500.0),
    },
    "biswas2024/prop4": {
        "concentrations": _concentrations(25.0, 75.0, 300.0),
        "deltas": P(
            "floats", (1e-3, 1 / 60_000), (1e-3, 1 / 60_000, 1e-8), "1/60,000", "delta", low=1e-12
        ),
    },
    "biswas2024/thm2": {
        "epsilons": P("floats", (0.01, 0.1, 1.0, 4.0), (0.01, 0.1, 1.0, 4.0), _THEOREM,
                      "epsilon of one run", low=1e-6),
        "deltas": P("floats", (1e-6, 1e-3), (1e-6, 1e-3), _THEOREM, "delta of one run", low=1e-12),
        "steps": P("ints", (1, 3, 40, 1407), (1, 3, 40, 1407), "3 (epochs)", "T, runs", low=1),
        "slacks": P("floats", (0.0, 1e-6, 1e-3), (0.0, 1e-6, 1e-3), _THEOREM,
                    "part of delta given to the composition", low=0.0),
    },
    "biswas2024/thm3": {
        "concentrations": _concentrations(25.0, 75.0, 150.0, 300.0),
        "largest_order": P("int", 12, 40, _THEOREM, "largest whole order", low=3),
    },
    "biswas2024/alg_accounting1": {
        "concentrations": _concentrations(25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 300.0, 500.0),
    },
    "biswas2024/alg_accounting2": {
        "least_concentration": P("float", 15.0, 15.0, "25", "least kappa of the curves", low=1.0),
        "most_concentration": P("float", 525.0, 525.0, "500", "largest kappa of them", low=200.0),
        "points": _points(69, 205),
    },
}  # fmt: skip
