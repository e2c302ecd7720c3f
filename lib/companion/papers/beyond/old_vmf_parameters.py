"""Parameters: attacks that know von Mises-Fisher noise."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "our own exhibit"
_PAIRS = "fifteen, from 1.23 to .174 (Table IV)"
_DIGITS = P(
    "str", "digits", "MNIST", "MNIST", "pictures: digits (8x8 scaled to 16x16) or MNIST (cropped)"
)

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/vmf_rero": {
        "noise_multipliers": P(
            "floats",
            (1.23, 0.461, 0.229),
            (1.23, 0.66, 0.461, 0.42, 0.321, 0.282, 0.229, 0.204),
            _PAIRS,
            "sigma of the pairs (of Table IV)",
            0.1,
        ),
        "prior_points": P("int", 41, 121, _OURS, "prior successes from 1e-6 to .99", 5),
        "simulated_steps": P("int", 6, 20, _OURS, "releases of the simulated test", 1),
        "trials": P("int", 20_000, 400_000, _OURS, "simulated runs of the test", 1000),
    },
    "beyond/vmf_prior_aware": {
        "signals": P(
            "floats",
            (0.5, 1.0, 2.0, 4.0),
            (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
            _OURS,
            "concentration sqrt(T/p) of the synthetic candidates",
            1e-3,
        ),
        "prior_size": P("int", 10, 10, _OURS, "n, candidates", 2),
        "steps": P("int", 5, 20, _OURS, "releases of the synthetic attack with several", 2),
        "samples": P("int", 20_000, 200_000, _OURS, "simulated attacks a setting", 1000),
        "digits": _DIGITS,
        "batch_sizes": P(
            "ints", (1, 16, 128), (1, 16, 32, 64, 128), "16 to 128", "B, the target included", 1
        ),
        "noise_multiplier": P("float", 0.461, 0.461, _PAIRS, "sigma of the attacked batches", 0.1),
        "batches": P("int", 30, 400, _OURS, "batches, each with its candidates and weights", 10),
        "attacked": P("int", 20, 200, _OURS, "batches that are released and attacked in full", 10),
        "releases": P("int", 200, 1000, _OURS, "simulated outputs of each batch", 20),
    },
    "beyond/vmf_inversion": {
        "digits": _DIGITS,
        "rows": P("int", 50, 50, "50 units", "M, rows of the layer: p = 256 M", 1),
        "signals": P(
            "floats",
            (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
            (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
            _OURS,
            "concentration over sqrt(p)",
            1e-2,
        ),
        "records": P("int", 100, 1000, _OURS, "pictures attacked at every setting", 20),
    },
    "beyond/vmf_notions": {
        "noise_multipliers": P(
            "floats", (1.23, 0.321), (1.23, 0.461, 0.321, 0.204), _PAIRS, "sigma", 0.1
        ),
        "prior_size": P("int", 10, 10, _OURS, "n, candidates", 2),
        "digits": _DIGITS,
        "batches": P("int", 40, 400, _OURS, "batches, each with its candidates and weights", 10),
        "releases": P("int", 400, 1000, _OURS, "simulated outputs of each batch", 20),
    },
}
