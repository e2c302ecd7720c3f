"""Parameters: our own, accounting of von Mises-Fisher noise."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "ours"

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/vmf_accountant": {
        "step": P("float", 25.0, 5.0, "25 (Table IV)", "between concentrations", low=1.0),
        "most_concentration": P("float", 500.0, 500.0, "500", "largest concentration", low=25.0),
        "trials": P("int", 100_000, 1_000_000, _OURS, "simulated runs", low=1000),
        "gaussian_concentrations": P(
            "floats",
            (25.0, 75.0, 150.0, 500.0),
            (25.0, 75.0, 150.0, 500.0),
            _OURS,
            "concentrations held against Gaussian noise",
            low=1.0,
        ),
    },
}
