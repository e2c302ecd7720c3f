"""Parameters of the upper bounds of Liu et al. 2024. The paper runs no experiment on them."""

from __future__ import annotations

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "no experiment"

#: all exhibits that look at the attack's error share these, and with them the runs
_ERRORS = {
    "activation": Parameter(
        "str",
        "relu_shifted",
        "relu_shifted",
        "any of orders 2, 3",
        "of all but the pruned networks",
    ),
    "dense_activation": Parameter(
        "str",
        "elu",
        "elu",
        "any of orders 2, 3",
        "of the pruned networks: one whose gradient has no zeros",
    ),
    "networks": Parameter("int", 6, 10, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints",
        (4096, 16384, 65536, 131072),
        (16384, 65536, 131072, 262144),
        _OURS,
        "neurons m",
        low=1024,
    ),
    "dimensions": Parameter(
        "ints", (16, 32, 64, 128), (16, 32, 64, 128, 256), _OURS, "input dimensions d", low=8
    ),
    "batches": Parameter("ints", (2, 4, 8), (2, 3, 4, 6, 8), _OURS, "batch sizes B", low=1),
    "noises": Parameter(
        "floats",
        (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        _OURS,
        "standard deviations sigma_0 of the noise",
        low=0.0,
    ),
    "thresholds": Parameter(
        "floats",
        (200.0, 100.0, 50.0, 25.0, 12.5, 8.0),
        (300.0, 150.0, 75.0, 37.5, 18.75, 12.0),
        _OURS,
        "clipping thresholds C, noise 1/2",
        low=0.0,
    ),
    "dropouts": Parameter(
        "floats",
        (0.5, 0.75, 0.875),
        (0.5, 0.75, 0.875),
        _OURS,
        "shares p of dropped neurons",
        low=0.0,
    ),
    "prunings": Parameter(
        "floats",
        (0.5, 0.9),
        (0.5, 0.7, 0.9),
        "0.3, 0.5, 0.7 (elsewhere)",
        "shares p of pruned entries",
        low=0.0,
    ),
}

_LOCAL = {
    "activation": Parameter("str", "elu", "elu", "any of orders 2, 3", "of the networks"),
    "networks": Parameter("int", 4, 10, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints", (2048, 8192, 32768), (8192, 32768, 131072), _OURS, "neurons m", low=1024
    ),
    "dimensions": Parameter("ints", (8, 16, 32), (16, 32, 64), _OURS, "input dimensions", low=8),
    "batches": Parameter("ints", (2, 4, 8), (2, 4, 8, 16), _OURS, "batch sizes", low=1),
}

_MOMENTS = {
    "activation": Parameter("str", "relu_shifted", "relu_shifted", "any", "of the networks"),
    "networks": Parameter("int", 12, 20, _OURS, "independent networks at each point", low=2),
    "widths": Parameter(
        "ints",
        (1024, 4096, 16384, 65536),
        (4096, 16384, 65536, 262144),
        _OURS,
        "neurons m",
        low=1024,
    ),
    "dimensions": Parameter(
        "ints", (8, 16, 32, 64), (16, 32, 64, 128, 256), _OURS, "input dimensions d", low=8
    ),
    "batches": Parameter("ints", (2, 4, 8, 16), (2, 4, 8, 16, 32), _OURS, "batch sizes B", low=1),
}

_SHARE_ERRORS = (
    "table1",
    "thm3_1",
    "prop3_1",
    "prop3_3",
    "thmB6",
    "propC1",
    "propC2",
    "propC11",
    "propC12",
    "propC13",
)

PARAMETERS: dict[str, dict[str, Parameter]] = {
    **{f"liu2024/{name}": _ERRORS for name in _SHARE_ERRORS},
    **{
        f"liu2024/{name}": _LOCAL
        for name in ("lemC4", "lemC5", "corC6", "lemC7", "lemC8", "lemC9", "lemC10")
    },
    "liu2024/lemB4": _MOMENTS,
    "liu2024/lemB5": _MOMENTS,
    "liu2024/lemB3": {},
    "liu2024/lemB2": {
        "trials": Parameter("int", 200, 500, _OURS, "means drawn of each law", low=50),
        "dimensions": Parameter(
            "ints", (4, 16), (4, 16, 64), _OURS, "sizes of the matrices", low=2
        ),
        "count": Parameter("int", 2000, 5000, _OURS, "matrices in a mean", low=100),
    },
    "liu2024/thmB1": {
        "draws": Parameter("int", 6, 30, _OURS, "independent disturbances", low=2),
        "dimension": Parameter("int", 16, 64, _OURS, "d", low=8),
        "sizes": Parameter(
            "floats",
            (1e-4, 1e-3, 1e-2, 1e-1),
            (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
            _OURS,
            "operator norms of the disturbance",
            low=0.0,
        ),
    },
    "liu2024/alg_tensor": {
        "dimension": Parameter("int", 8, 16, _OURS, "d", low=4),
        "batch": Parameter("int", 2, 3, _OURS, "B", low=2),
        "width": Parameter("int", 131072, 524288, _OURS, "m", low=1024),
        "networks": Parameter("int", 2, 4, _OURS, "networks for each activation", low=2),
    },
}
