"""Parameters of our own exhibits (risk)."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "our own exhibit"
_DELTA = P("float", 1e-5, 1e-5, "1e-5", "delta of the privacy guarantee", 1e-100)
_SIGMAS = (2.512, 0.9874, 0.4576, 0.5905, 10.71, 0.2807, 1.0, 10.0, 5.0)
_RATES = (0.02, 0.02, 0.02, 0.01, 0.99, 0.01, 0.01, 0.01, 0.02)
_STEPS = (1000, 1000, 1000, 100, 100, 100, 10_000, 10_000, 100_000)
_KAPPAS = (0.5, 0.1, 0.01, 1e-4, 1e-6, 1e-9, 1e-12)
_SIGNALS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/certified": {
        "noise_multipliers": P(
            "floats",
            _SIGMAS,
            _SIGMAS,
            "calibrated: Figure 4 at epsilon = 1, 4, 32; Figure 5 (two); Figure 15",
            "sigma of each run",
            0.1,
        ),
        "sampling_rates": P(
            "floats",
            _RATES,
            _RATES,
            "0.02 (Figure 4); 0.01 and 0.99 (Figure 5); 0.01 (Figure 15)",
            "q of each run",
            1e-6,
        ),
        "steps": P(
            "ints", _STEPS, _STEPS, "1000 (Figure 4); 100 (Figures 5 and 15)", "T of each run", 1
        ),
        "prior_successes": P("floats", _KAPPAS, _KAPPAS, _OURS, "kappa", 1e-200),
        "samples": P("int", 20_000, 200_000, _OURS, "N where only sampling is left", 1000),
    },
    "beyond/monte_carlo": {
        "signals": P("floats", _SIGNALS, _SIGNALS, _OURS, "sqrt(T)/sigma", 1e-3),
        "samples": P("int", 100_000, 1_000_000, "1,000,000", "N of Algorithm 1", 1000),
        "repeats": P("int", 100, 300, _OURS, "estimates at each signal", 20),
        "kappa": P("float", 0.1, 0.1, "1/10", "prior success", 1e-9),
        "confidence": P(
            "float", 0.999999, 0.999999, _OURS, "confidence of each two-sample interval", 0.5
        ),
    },
    "beyond/iso_risk": {
        "sampling_rates": P(
            "floats",
            (0.01, 0.03, 0.1, 0.3, 1.0),
            (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
            _OURS,
            "q",
            1e-6,
        ),
        "steps": P("ints", (100, 1000, 10_000), (100, 1000, 10_000), _OURS, "T", 1),
        "epsilons": P("floats", (1.0, 4.0), (1.0, 4.0, 10.0), _OURS, "epsilon", 1e-2),
        "successes": P("floats", (0.2, 0.5), (0.2, 0.5), _OURS, "targets of gamma", 1e-9),
        "kappa": P("float", 0.1, 0.1, "1/10", "prior success", 1e-9),
        "delta": _DELTA,
    },
    "beyond/risk_choice": {
        "epsilons": P("floats", (1.0, 4.0, 10.0), (1.0, 4.0, 10.0), _OURS, "epsilon", 1e-2),
        "shares": P(
            "floats",
            (0.5, 0.8),
            (0.5, 0.8, 0.95),
            _OURS,
            "signal-to-noise ratio over that of the full batch",
            1e-2,
        ),
        "steps": P(
            "ints",
            (1, 3, 10, 30, 100, 300),
            (1, 3, 10, 30, 100, 300, 1000, 10_000),
            _OURS,
            "T",
            1,
        ),
        "prior_successes": P("floats", (0.5, 0.1, 0.01), (0.5, 0.1, 0.01), _OURS, "kappa", 1e-9),
        "delta": _DELTA,
    },
}
