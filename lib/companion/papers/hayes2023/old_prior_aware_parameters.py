"""Parameters of Hayes et al. 2023: the prior-aware attack and its scores, Figures 3 and 4."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_NOT_PRINTED = "not printed"


def _data(training_size: int, printed_size: int, pool_size: int = 600) -> dict[str, Parameter]:
    """Which records, which network, and how it is trained."""
    return {
        "dataset": Parameter(
            "str", "digits", "MNIST", "MNIST", "labelled images: digits (8x8) or MNIST (28x28)"
        ),
        "training_size": Parameter(
            "int",
            training_size,
            printed_size,
            f"{printed_size:,}",
            "records trained on, the target included",
            low=2,
        ),
        "pool_size": Parameter(
            "int",
            pool_size,
            4000,
            "the whole data set",
            "records that candidates are drawn from, apart from the known ones (at most all)",
            low=10,
        ),
        "hidden": Parameter("int", 10, 10, "10", "width of the hidden layer", low=1),
        "max_grad_norm": Parameter("float", 0.1, 0.1, "0.1", "C, clipping norm", low=1e-9),
        "delta": Parameter("float", 1e-5, 1e-5, "1e-5", "delta of the guarantee", low=1e-300),
    }


def _learning_rate(quick: float, paper: float, why: str) -> Parameter:
    return Parameter(
        "float",
        quick,
        paper,
        "swept between .001 and 100 for each epsilon, choice not printed",
        f"step = this times the privatised sum over the expected batch size; {why}",
        low=0,
    )


_CLIPPED = "5 keeps every gradient clipped, as the paper reports for C = 0.1 (Figure 13)"


def _trials(quick: int, paper: int = 10000) -> Parameter:
    return Parameter("int", quick, paper, "10,000", "trials a point, each trains a model", low=50)


def _batch(quick: int = 1000) -> Parameter:
    return Parameter("int", quick, 250, _NOT_PRINTED, "trials of one task of the sweep", low=10)


def _epsilons(quick: tuple[float, ...], paper: tuple[float, ...], printed: str) -> Parameter:
    return Parameter("floats", quick, paper, printed, "epsilon of the guarantee", low=1e-3)


def _steps(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, f"{paper:,}", "T, steps", low=1)


def _rate(value: float, printed: str) -> Parameter:
    return Parameter("float", value, value, printed, "q, sampling rate", low=1e-6)


_SHORTCUT = {
    "shortcut_trials": Parameter(
        "int", 10000, 100000, _NOT_PRINTED, "trials that share a trajectory", low=100
    ),
    "trajectories": Parameter(
        "int", 2, 8, _NOT_PRINTED, "models whose gradients such trials share", low=1
    ),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "hayes2023/alg2": {
        **_data(500, 1000),
        "steps": _steps(100, 100),
        "learning_rate": _learning_rate(5.0, 5.0, _CLIPPED),
        "epsilons": _epsilons((1, 4, 10, 32, 100), (1, 4, 10, 32, 100), _NOT_PRINTED),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
        "trials": _trials(150),
        "batch": _batch(),
        **_SHORTCUT,
        "law_trials": Parameter(
            "int", 40, 100, _NOT_PRINTED, "models whose inner products are tested", low=5
        ),
        "law_epsilon": Parameter(
            "float", 10.0, 10.0, _NOT_PRINTED, "epsilon of those models", low=1e-3
        ),
    },
    "hayes2023/alg3": {
        **_data(500, 500),
        "sampling_rate": _rate(0.02, "0.02"),
        "steps": _steps(400, 1000),
        "learning_rate": _learning_rate(1.0, 1.0, "1 keeps nearly every gradient clipped"),
        "epsilons": _epsilons((4, 32), (4, 32), _NOT_PRINTED),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
        "trials": _trials(200),
        "batch": _batch(),
    },
    "hayes2023/appG_attack": {
        **_data(500, 500),
        "sampling_rate": _rate(0.1, _NOT_PRINTED),
        "steps": _steps(100, 100),
        "epsilon": Parameter(
            "float", 32.0, 32.0, _NOT_PRINTED, "epsilon of the sub-sampled run", low=1e-3
        ),
        "learning_rate": _learning_rate(1.0, 1.0, "of the sub-sampled run"),
        "unclipped_epsilon": Parameter(
            "float", 32.0, 32.0, _NOT_PRINTED, "epsilon of the unclipped run", low=1e-3
        ),
        "unclipped_learning_rate": _learning_rate(
            50.0, 50.0, "of the full-batch run in which gradients fall below C"
        ),
        "prior_epsilon": Parameter(
            "float", 4.0, 4.0, _NOT_PRINTED, "epsilon of the run with a prior", low=1e-3
        ),
        "prior_learning_rate": _learning_rate(5.0, 5.0, _CLIPPED),
        "likeliest": Parameter(
            "float", 0.7, 0.7, _NOT_PRINTED, "prior probability of the first candidate", low=1e-6
        ),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
        "trials": _trials(400),
        "batch": _batch(),
    },
    "hayes2023/fig3": {
        **_data(500, 1000, 1200),
        "steps": _steps(100, 100),
        "learning_rate": _learning_rate(5.0, 5.0, _CLIPPED),
        "epsilons": _epsilons(
            (1, 4, 10, 32, 100),
            (1, 4, 10, 20, 32, 100),
            "several, not printed; below 10 and above",
        ),
        "largest_prior": Parameter(
            "int", 1024, 2048, "2048", "largest prior of the shortcut, a power of two", low=4
        ),
        "largest_exact": Parameter(
            "int", 64, 2048, "2048", "largest prior of trained trials, a power of two", low=4
        ),
        "trials": _trials(100),
        "batch": _batch(),
        **_SHORTCUT,
        "shortcut_trials": Parameter(
            "int", 4000, 100000, _NOT_PRINTED, "trials that share a trajectory", low=100
        ),
        "accuracy_models": Parameter(
            "int", 8, 20, _NOT_PRINTED, "models whose accuracy is measured", low=2
        ),
        "accuracy_training_size": Parameter(
            "int", 1000, 1000, "1,000", "records those are trained on", low=2
        ),
        "accuracy_learning_rates": Parameter(
            "floats",
            (5, 20, 50),
            (0.5, 1, 2, 5, 10, 20, 50, 100),
            "between .001 and 100",
            "learning rates swept for the accuracy",
            low=1e-6,
        ),
        "accuracy_epsilons": _epsilons((10, 100), (10, 32, 100, 1000), "at least 10"),
    },
    "hayes2023/fig4": {
        **_data(500, 500),
        "sampling_rate": _rate(0.02, "0.02"),
        "steps": _steps(1000, 1000),
        "learning_rate": _learning_rate(1.0, 1.0, "1 keeps nearly every gradient clipped"),
        "epsilons": _epsilons((2, 8, 32), (1, 2, 4, 8, 16, 32), _NOT_PRINTED),
        "curve_epsilons": _epsilons(
            (1, 2, 4, 8, 16, 32), (1, 1.4, 2, 2.8, 4, 5.7, 8, 11, 16, 23, 32), _NOT_PRINTED
        ),
        "prior_size": Parameter("int", 10, 10, "10", "n, candidates", low=2),
        "trials": _trials(120),
        "batch": _batch(),
        "model_trials": Parameter(
            "int",
            40000,
            1000000,
            _NOT_PRINTED,
            "simulated trials of Algorithm 3 with orthogonal gradients",
            low=1000,
        ),
    },
}
