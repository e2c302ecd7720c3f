"""Parameters: attacks on two-layer networks against what bounds them."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"


def _shape(
    dimension: tuple[int, int], count: tuple[int, int], width: tuple[int, int]
) -> dict[str, Parameter]:
    return {
        "dimension": Parameter("int", *dimension, "d", "numbers in a record", low=4),
        "count": Parameter("int", *count, "B", "records of a batch", low=2),
        "width": Parameter("int", *width, "m", "neurons", low=1000),
    }


def _networks(quick: int, paper: int) -> Parameter:
    return Parameter("int", quick, paper, _OURS, "networks with batches of their own", low=3)


PARAMETERS: dict[str, dict[str, Parameter]] = {
    "beyond/two_layer_refinement": {
        **_shape((12, 32), (3, 4), (6000, 16000)),
        "networks": _networks(6, 12),
        "restarts": Parameter(
            "int", 16, 40, _OURS, "random starts where the first seven did not lead to a fit", low=1
        ),
        "widening": Parameter(
            "int", 4, 4, _OURS, "times more neurons for networks that still fail", low=2
        ),
    },
    "beyond/two_layer_floor": {
        **_shape((12, 32), (3, 4), (6000, 16000)),
        "networks": _networks(6, 12),
        "noises": Parameter(
            "floats",
            (0.001, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
            (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
            _OURS,
            "standard deviations of the noise on every entry",
            low=1e-6,
        ),
        "noise": Parameter("float", 0.1, 0.1, _OURS, "the same where defences are compared", low=0),
        "batch_sizes": Parameter(
            "ints", (1, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6, 8, 12), _OURS, "batch sizes", low=1
        ),
        "shares": Parameter(
            "floats",
            (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99),
            (0.0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99),
            "0.3, 0.5, 0.7, 0.9, 0.99",
            "shares that pruning or dropout removes",
            low=0,
        ),
    },
    "beyond/two_layer_batch": {
        "dimension": Parameter("int", 16, 64, "d", "numbers in a record, for exponents", low=8),
        "width": Parameter("int", 131072, 524288, "m", "neurons, for exponents", low=1000),
        "record_width": Parameter(
            "int", 16384, 65536, _OURS, "neurons, for kinds of records", low=1000
        ),
        "batch_sizes": Parameter("ints", (1, 2, 4, 8), (1, 2, 4, 8, 16), "B", "batch sizes", low=1),
        "networks": _networks(5, 10),
    },
    "beyond/two_layer_clip_noise": {
        **_shape((12, 32), (3, 4), (6000, 16000)),
        "widths": Parameter(
            "ints",
            (2000, 4000, 8000, 16000, 32000),
            (4000, 16000, 64000),
            _OURS,
            "neurons",
            low=1000,
        ),
        "max_grad_norm": Parameter("float", 10.0, 10.0, "2, 4, 8", "C", low=0.01),
        "noise": Parameter("float", 0.05, 0.05, _OURS, "noise after clipping", low=1e-4),
        "networks": _networks(6, 12),
    },
}
