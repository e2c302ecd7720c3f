"""Parameters of the exhibits of Hayes et al. 2023 that vary the threat model or the network."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_AXIS = "not printed (read off an axis that the text does not give)"
_EPSILONS = (1.0, 4.0, 10.0, 20.0, 40.0)
_RATE = "swept over 0.001 to 100 for every epsilon"


def _data(quick: str = "digits", paper: str = "MNIST") -> Parameter:
    return Parameter(
        "str", quick, paper, paper, "data set: a name that study.datasets.classified knows"
    )


def _epsilons(quick: tuple[float, ...], paper: tuple[float, ...], printed: str) -> Parameter:
    return Parameter("floats", quick, paper, printed, "epsilon, at delta = 1e-5", low=1e-3)


def _trials(quick: int, paper: int, meaning: str, printed: str = "10,000") -> Parameter:
    return Parameter("int", quick, paper, printed, meaning, low=20)


def _shared() -> dict[str, Parameter]:
    """The shortcut: many trials along the gradients of a few models."""
    return {
        "trajectories": Parameter(
            "int", 3, 10, "not printed: every trial trains its own model",
            "models whose gradients the shortcut re-uses, a point", low=2,
        ),
        "shared_trials": Parameter(
            "int", 3000, 20000, "not printed: every trial trains its own model",
            "trials of the shortcut, a point", low=100,
        ),
        "pool": Parameter(
            "int", 200, 500, "not printed: the whole data set",
            "records that candidates are drawn from", low=20,
        ),
    }  # fmt: skip


def _common(known: int = 999) -> dict[str, Parameter]:
    return {
        "steps": Parameter("int", 100, 100, "100", "T, steps", low=1),
        "known": Parameter(
            "int", known, known, f"{known} (training size {known + 1})",
            "|D-|, records that the adversary knows", low=2,
        ),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
    }  # fmt: skip


def _clipping(*values: float) -> Parameter:
    return Parameter(
        "floats", values, values, " and ".join(f"{v:g}" for v in values), "C, clipping norm", low=0
    )


_CLIP = Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9)
_LEARNING_RATE = Parameter(
    "float", 5.0, 5.0, _RATE, "step on the mean gradient; at 5 every gradient stays clipped", low=0
)

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "hayes2023/fig2": {
        "data": _data("patches", "CIFAR-10"),
        "epsilons": _epsilons((1.0, 10.0, 100.0), (1.0, 10.0, 100.0), "1, 10, 100"),
        **_common(499),
        "max_grad_norm": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
        "side": Parameter(
            "int", 16, 32, "32", "pixels a side (of the patches; CIFAR-10 has 32)", low=8
        ),
        "features": Parameter(
            "int", 160, 640, "640 (WRN-28-10)", "features of the stand-in map", low=16
        ),
        "learning_rates": Parameter(
            "floats", (0.2, 1.0, 5.0), (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), _RATE,
            "learning rates tried; the one of best test accuracy is attacked", low=1e-9,
        ),
        "models": Parameter("int", 2, 8, "not printed", "models per learning rate", low=1),
        "trials": _trials(60, 10000, "trials of the prior-aware attack, a point"),
        **_shared(),
        "targets": Parameter(
            "int", 24, 100, "1,000", "targets of the gradient-based attack, a point", low=2
        ),
        "iterations": Parameter(
            "int", 60, 200, "1,000,000 of plain gradient descent",
            "iterations of Adam in the gradient-based attack", low=1,
        ),
    },
    "hayes2023/fig7": {
        "data": _data(),
        "epsilons": _epsilons((1.0, 10.0, 40.0), _EPSILONS, _AXIS),
        "widths": Parameter(
            "ints", (10, 100, 1000), (10, 100, 1000), "10, 100, 1000", "hidden units", low=1
        ),
        "widest_epsilons": _epsilons((10.0,), _EPSILONS, "the same at every width"),
        **_common(),
        "max_grad_norm": _CLIP,
        "learning_rate": _LEARNING_RATE,
        "trials": _trials(80, 10000, "trials with a model of their own, at the smallest width"),
        **_shared(),
    },
    "hayes2023/fig9": {
        "data": _data(),
        "epsilons": _epsilons(_EPSILONS, _EPSILONS, _AXIS),
        **_common(),
        "max_grad_norm": _CLIP,
        "learning_rate": _LEARNING_RATE,
        "exact_epsilons": _epsilons(
            (10.0,), (1.0, 10.0, 40.0), "every point: each trial trains its own model"
        ),
        "trials": _trials(100, 10000, "trials with a model of their own, a point"),
        **_shared(),
    },
    "hayes2023/fig10": {
        "data": _data(),
        "epsilons": _epsilons((1.0, 10.0, 40.0, 100.0), (1.0, 4.0, 10.0, 20.0, 40.0, 100.0), _AXIS),
        "known_sizes": Parameter(
            "ints", (4, 128), (4, 128), "4, 128 (and 999 with subtraction)",
            "|D-|, records that the adversary knows, or does not", low=2,
        ),
        **_common(),
        "max_grad_norm": _CLIP,
        "learning_rate": _LEARNING_RATE,
        "trials": _trials(200, 10000, "trials with a model of their own, a point"),
        **_shared(),
    },
    "hayes2023/fig13": {
        "data": _data(),
        "epsilons": _epsilons((1.0, 10.0, 40.0), _EPSILONS, "1 to 40"),
        **_common(),
        "clipping_norms": _clipping(0.1, 1.0),
        "learning_rates": Parameter(
            "floats", (0.5, 1.0, 2.0, 5.0), (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0), _RATE,
            "learning rates tried; the one of best test accuracy at C = 1 is used", low=1e-9,
        ),
        "models": Parameter("int", 2, 20, "not printed", "models per learning rate", low=1),
        "exact_epsilons": _epsilons(
            (40.0,), (1.0, 10.0, 40.0), "every point: each trial trains its own model"
        ),
        "trials": _trials(300, 10000, "trials with a model of their own, at the larger C"),
        **_shared(),
    },
}  # fmt: skip
