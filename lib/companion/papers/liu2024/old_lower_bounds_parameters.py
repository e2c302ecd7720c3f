"""Parameters of Liu et al. 2024: lower bounds, and the noise of differential privacy."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_NONE = "not printed: the paper only proves"
_OURS = "not printed: our own"


def _int(quick: int, paper: int, meaning: str, low: float = 1, printed: str = _NONE) -> P:
    return P("int", quick, paper, printed, meaning, low=low)


def _ints(quick: tuple[int, ...], paper: tuple[int, ...], meaning: str, low: float = 1) -> P:
    return P("ints", quick, paper, _NONE, meaning, low=low)


def _activation() -> P:
    return P("str", "elu", "elu", "any with bounded derivatives", "activation of the networks")


def _draws(quick: int = 3, paper: int = 10) -> P:
    return _int(quick, paper, "networks and batches at each point", 2)


_EPSILONS = P(
    "floats",
    (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0),
    "any",
    "epsilons at which noise is compared, smallest first",
    low=1e-3,
)
_DELTA = P("float", 1e-5, 1e-5, "any", "delta", low=1e-100)


def _around(
    dimension: tuple[int, int], batch_size: tuple[int, int], width: tuple[int, int]
) -> dict[str, P]:
    """The network and batch around which one thing at a time is varied, quick and paper."""
    return {
        "activation": _activation(),
        "dimension": _int(*dimension, "d, values of a record", 3),
        "batch_size": _int(*batch_size, "B, records of a batch"),
        "width": _int(*width, "m, neurons", 100),
        "draws": _draws(),
    }


def _sweeps(
    dimensions: tuple[int, ...], widths: tuple[int, ...], more_dimensions: tuple[int, ...]
) -> dict[str, P]:
    return {
        "dimensions": _ints(dimensions, more_dimensions, "d in the sweep over the dimension", 3),
        "widths": _ints(widths, (4000, 16000, 64000, 256000), "m in the sweep over the width", 100),
    }


_DIMENSIONS = (32, 64, 128)
_MORE = (64, 128, 256)
_WIDTHS = (4000, 8000, 16000)

PARAMETERS: dict[str, dict[str, P]] = {
    "liu2024/lemA2": {
        "noise_multipliers": P(
            "floats", (0.7, 1.0, 2.0, 5.0), (0.7, 1.0, 2.0, 5.0), "any", "sigma/Delta", low=0.5
        ),
        "sampling_rate": P("float", 0.05, 0.05, "any", "q of the sampled mechanism", low=1e-4),
        "epsilons": P(
            "floats", (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0, 4.0), "any", "epsilons", low=1e-3
        ),
    },
    "liu2024/prop2_1": {
        "activation": _activation(),
        "dimension": _int(16, 64, "d, values of a record", 3),
        "widths": _ints((4000, 16000, 64000), (8000, 32000, 128000), "m, neurons", 100),
        "batch_sizes": _ints((1, 2, 4), (1, 2, 4, 8), "B of the linear network's batches"),
        "draws": _draws(4, 20),
        "epsilons": _EPSILONS,
        "delta": _DELTA,
    },
    "liu2024/propA1": {
        "dimension": _int(16, 64, "d, values of a record", 3),
        "widths": _ints((4000, 16000, 64000), (8000, 32000, 128000), "m, neurons", 100),
        "pairs": _int(100, 400, "random pairs of records", 2),
        "epsilons": _EPSILONS,
        "delta": _DELTA,
    },
    "liu2024/thm3_2": {
        **_around((32, 64), (4, 8), (16000, 64000)),
        **_sweeps(_DIMENSIONS, _WIDTHS, _MORE),
        "batch_sizes": _ints((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), "B in the sweep"),
        "shares": P(
            "floats",
            (0.3, 0.5, 0.7, 0.9),
            (0.3, 0.5, 0.7, 0.9, 0.97),
            "any",
            "shares of neurons dropped, and of entries pruned",
            low=0.0,
        ),
    },
    "liu2024/thmD7": {
        **_around((32, 64), (4, 8), (16000, 64000)),
        "batch_sizes": _ints((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), "B without a defence"),
    },
    "liu2024/lemD2": {"matrices": _int(500, 5000, "random matrices", 10)},
    "liu2024/lemD5": {
        "dimensions": _ints((16, 256), (16, 64, 256, 1024), "d"),
        "widths": _ints((1000, 10000), (1000, 10000, 100000, 1000000), "m", 100),
    },
    "liu2024/lemD6": {
        **_around((8, 16), (1, 1), (1000, 4000)),
        "dimensions": _ints(_DIMENSIONS, _MORE, "d in the sweep over the dimension", 3),
        "widths": _ints(_WIDTHS, (4000, 16000, 64000, 256000), "m in the sweep", 100),
        "squared_bounds": P(
            "floats",
            (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
            (0.01, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0),
            _OURS,
            "noise levels, as the squared bound they give, smallest first",
            low=1e-6,
        ),
        "trials": _int(300, 2000, "records and noises at each level", 50, _OURS),
    },
    "liu2024/lemE1": {
        **_around((32, 64), (4, 8), (16000, 64000)),
        "widths": _ints(_WIDTHS, (4000, 16000, 64000, 256000), "m in the sweep at fixed C", 100),
        "shares": P(
            "floats",
            (0.01, 0.1, 0.5, 0.9, 2.0),
            (0.01, 0.1, 0.5, 0.9, 2.0),
            "any",
            "C over the gradient's norm",
            low=1e-6,
        ),
        "max_grad_norm": P("float", 4.0, 4.0, "2, 4, 8", "C in the sweep over widths", low=1e-3),
    },
    "liu2024/prop3_2": {
        **_around((24, 64), (4, 8), (8000, 64000)),
        **_sweeps(_DIMENSIONS, _WIDTHS, _MORE),
        "outer_rate": P(
            "float",
            0.2,
            0.2,
            "of order 1/m^2 or 1 (garbled)",
            "learning rate of the output weights times m B, at the largest m",
            low=0.0,
        ),
        "inner_rate": P(
            "float",
            1.0,
            1.0,
            "of order 1 to m (garbled)",
            "learning rate of the inner weights",
            low=0.0,
        ),
    },
    "liu2024/propE2": {
        **_around((16, 32), (4, 8), (8000, 64000)),
        "shares": P(
            "floats",
            (0.05, 0.2),
            (0.05, 0.1, 0.2),
            "of order 1/m^2 or 1 (garbled)",
            "learning rates of the output weights, times m B",
            low=0.0,
        ),
        "inner_rates": P(
            "floats",
            (1.0, 10.0),
            (1.0, 10.0),
            "of order 1 to m (garbled)",
            "learning rates of the inner weights, smallest first",
            low=0.0,
        ),
    },
    "liu2024/prop3_4": {
        **_around((32, 64), (4, 8), (16000, 64000)),
        **_sweeps(_DIMENSIONS, _WIDTHS, _MORE),
        "shares": P(
            "floats",
            (0.01, 0.1, 0.5, 0.7, 0.9),
            (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99),
            ".3, .5, .7, .9, .99",
            "shares of entries pruned, smallest first",
            low=0.0,
        ),
        "heavy": P("float", 0.7, 0.9, "any", "share pruned in the sweeps over d and m", low=0.0),
        "tensor_widths": _ints((8000, 64000), (16000, 256000), "m for the tensor attack", 100),
        "tensor_draws": _int(7, 15, "networks for the tensor attack at each point", 3),
    },
    "liu2024/lemE3": {
        **{k: v for k, v in _around((8, 16), (2, 4), (4000, 8000)).items() if k != "activation"},
        "outer_shares": P(
            "floats",
            (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98),
            (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98),
            _OURS,
            "shares of the output weights' entries pruned beyond d/(d + 1)",
            low=0.0,
        ),
    },
}
