"""Parameters of our own exhibit that puts every notion on one scale."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"
_HAYES = "as Hayes et al."
_LIU = "as Liu et al."

PARAMETERS: dict[str, dict[str, P]] = {
    "beyond/one_scale": {
        "data": P("str", "digits", "MNIST", _HAYES, "labelled images: digits (8x8) or MNIST"),
        "hidden": P("int", 10, 10, _HAYES, "width of the hidden layer", low=1),
        "known": P("int", 299, 999, _HAYES, "records known to the attacker", low=1),
        "pool": P("int", 400, 2000, _OURS, "records that candidates are drawn from", low=50),
        "targets": P("int", 48, 200, _OURS, "records attacked at each noise level", low=8),
        "ranked": P(
            "int", 200, 200, _OURS, "records of the prior-aware attack, these included", low=8
        ),
        "fitted": P("int", 8, 4, _OURS, "of these, fitted by least squares", low=4),
        "epsilons": P(
            "floats",
            (0.3, 1.0, 4.0, 10.0, 50.0, 200.0, 1e3, 1e4, 1e5),
            (0.3, 1.0, 4.0, 10.0, 50.0, 200.0, 1e3, 3e3, 1e4, 1e5),
            _OURS,
            "epsilons that set the noise levels, smallest first",
            low=1e-2,
        ),
        "delta": P("float", 1e-5, 1e-5, _HAYES, "delta", low=1e-100),
        "steps": P("int", 20, 100, "100 (Hayes et al.)", "full-batch steps", low=1),
        "max_grad_norm": P("float", 0.1, 0.1, _HAYES, "C, clipping norm", low=1e-9),
        "training_rate": P(
            "float", 20.0, 20.0, "swept", "learning rate on the mean clipped gradient", low=1e-9
        ),
        "prior_size": P("int", 8, 8, "8", "candidates of the prior-aware attack", low=2),
        "iterations": P("int", 300, 600, _OURS, "iterations of gradient matching", low=1),
        "rate": P("float", 0.05, 0.05, _OURS, "its learning rate", low=1e-9),
        "analytic_repeats": P(
            "int", 100, 100, _OURS, "runs of the analytic attack on each target", low=10
        ),
        "pruned": P("floats", (0.5, 0.9), (0.5, 0.9), _LIU, "shares of entries pruned", low=0.0),
        "dropped": P(
            "floats", (0.5, 0.9), (0.5, 0.9), _LIU, "shares of entries dropped at random", low=0.0
        ),
        "local_steps": P("int", 5, 5, _LIU, "local steps", low=1),
        "local_rate": P("float", 0.1, 0.1, _OURS, "learning rate of the local steps", low=0.0),
    },
}
