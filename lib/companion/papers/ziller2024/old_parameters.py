"""Parameters of the exhibits of Ziller et al. 2024."""

from __future__ import annotations

from typing import Any

from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_THEOREM = "not printed: a statement, not an experiment"
_NOT_PRINTED = "not printed"


def _samples(quick: int, paper: int, printed: str = _THEOREM) -> Parameter:
    return Parameter("int", quick, paper, printed, "reconstructions per setting", low=100)


def _dimensions(*values: int, low: float = 1) -> Parameter:
    return Parameter("ints", values, values, _THEOREM, "N, values of a record", low=low)


def _noise(*values: float) -> Parameter:
    return Parameter("floats", values, values, _THEOREM, "sigma, noise multipliers", low=1e-12)


def _sigmas(quick: tuple[float, ...], paper: tuple[float, ...]) -> Parameter:
    return Parameter("floats", quick, paper, _NOT_PRINTED, "sigma, noise multipliers", low=1e-12)


def _image(clip_ratio: float) -> dict[str, Parameter]:
    """Figures 5 to 8: one picture at three resolutions, one clipping norm."""
    sigmas = (1e-5, 1e-4, 3e-4, 1e-3, 1e-2)
    return {
        **_RESOLUTIONS,
        "clip_ratio": Parameter(
            "float",
            clip_ratio,
            clip_ratio,
            _NOT_PRINTED,
            "C over the picture's norm at the lowest resolution",
            low=1e-9,
        ),
        "noise_multipliers": _sigmas(sigmas, sigmas),
    }


_RESOLUTIONS = {
    "picture": Parameter(
        "int", 0, 0, _NOT_PRINTED, "which picture, counted from 0 in the data's order", low=0
    ),
    "sizes": Parameter(
        "ints",
        (32, 224, 1024),
        (32, 224, 1024),
        "32x32, 224x224, 1024x1024",
        "resolutions, lowest first, pixels a side",
        low=32,
    ),
}

#: Figures 1 and 4 look at the same reconstructions, so they share their parameters.
_MANY_PICTURES: dict[str, Parameter] = {
    "pictures": Parameter("int", 8, 100, "100", "photographs attacked", low=2),
    "size": Parameter("int", 224, 224, "224x224", "pixels a side", low=32),
    "clip_below": Parameter(
        "float",
        0.01,
        0.01,
        _NOT_PRINTED,
        "C of the first row, over the least norm (the next rows: the least and the largest norm)",
        low=1e-9,
    ),
    "clip_above": Parameter(
        "float", 10.0, 10.0, _NOT_PRINTED, "C of the last row, over the largest norm", low=1
    ),
    "noise_multipliers": _sigmas(
        (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1e-1),
        tuple(float(f"{m}e{e}") for e in range(-6, 0) for m in (1, 2, 5)) + (1.0,),
    ),
}

#: four clipping norms, between which the three resolutions' norms lie (they grow like the side).
_CLIP_RATIOS = (0.01, 2.6, 15.0, 320.0)

_TABLE1_PRINTED = "printed in the table itself, row by row"

PARAMETERS: dict[str, dict[str, Any]] = {
    "ziller2024/alg_linear_attack": {
        "records": Parameter("int", 8, 64, _THEOREM, "handwritten digits attacked", low=2),
        "rows": Parameter(
            "ints", (1, 4, 16), (1, 4, 16), "1 (the layer has one row)", "M, rows", low=1
        ),
        "noise_multiplier": Parameter(
            "float", 0.05, 0.05, _THEOREM, "sigma, noise multiplier", low=1e-12
        ),
        "samples": _samples(400, 4000),
    },
    "ziller2024/prop1": {
        "dimensions": _dimensions(4, 64, 1024),
        "noise_multipliers": _noise(0.1, 1.0),
        "samples": _samples(2000, 20000),
    },
    "ziller2024/prop2": {
        "dimensions": _dimensions(1, 2, 4, 10, 100, 1000),
        "samples": _samples(4000, 100000),
    },
    "ziller2024/prop3": {
        "dimensions": _dimensions(2, 3, 4, 10, 100, 1000, low=2),
        "noise_multipliers": _noise(0.5, 1.0),
        "samples": _samples(4000, 100000),
    },
    "ziller2024/prop4": {
        "steps": Parameter(
            "ints", (1, 4, 16, 64, 256), (1, 4, 16, 64, 256, 1024), _THEOREM, "T, steps", low=1
        ),
        "dimension": Parameter("int", 64, 64, _THEOREM, "N, values of a record", low=2),
        "samples": _samples(200, 2000),
    },
    "ziller2024/prop5": {
        "dimensions": _dimensions(1, 10, 100, 1000),
        "samples": _samples(4000, 100000),
    },
    "ziller2024/prop6": {
        "dimensions": _dimensions(1, 10, 100, 1000),
        "samples": _samples(4000, 100000),
    },
    "ziller2024/prop7": {
        "dimension": Parameter("int", 50, 50, _THEOREM, "N, values of a record", low=2),
        "samples": _samples(4000, 100000),
    },
    "ziller2024/propA1": {
        "dimension": Parameter("int", 10, 10, _THEOREM, "N, values of a record", low=3),
        "samples": _samples(20000, 200000),
    },
    "ziller2024/propC1": {
        "samples": Parameter(
            "int", 200000, 2000000, _THEOREM, "values of the synthetic record", low=10000
        ),
        "noise_stds": Parameter(
            "floats",
            (0.001, 0.01, 0.05, 0.07, 0.1, 1.0, 10.0, 100.0, 1000.0),
            (0.001, 0.01, 0.05, 0.07, 0.1, 1.0, 10.0, 100.0, 1000.0),
            _THEOREM,
            "C sigma, standard deviations of the noise, over that of the data",
            low=1e-12,
        ),
        "bins": Parameter("int", 100, 100, _NOT_PRINTED, "histogram bins per side", low=2),
    },
    "ziller2024/fig2": {
        "dimension": Parameter("int", 50, 50, "50", "N, values of a record", low=4),
        "max_grad_norm": Parameter("float", 1.0, 1.0, "1", "C, clipping norm", low=1e-9),
        "noise_multiplier": Parameter("float", 1.0, 1.0, "1", "sigma", low=1e-9),
        "steps": Parameter("int", 1, 1, "1", "T, reconstructions averaged", low=1),
        "samples": _samples(4000, 100000, _NOT_PRINTED),
    },
    "ziller2024/table1": {
        "pictures": Parameter(
            "int", 8, 8, _TABLE1_PRINTED, "bundled photographs that grey is held against", low=2
        ),
    },
    "ziller2024/fig1": _MANY_PICTURES,
    "ziller2024/fig3": {
        **_RESOLUTIONS,
        "clip_ratios": Parameter(
            "floats",
            _CLIP_RATIOS,
            _CLIP_RATIOS,
            _NOT_PRINTED,
            "C of each row, over the picture's norm at the lowest resolution",
            low=1e-9,
        ),
        "noise_multipliers": _sigmas(
            (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
            tuple(float(f"{m}e{e}") for e in range(-7, 0) for m in (1, 2, 5)) + (1.0,),
        ),
    },
    "ziller2024/fig4": {
        **_MANY_PICTURES,
        "bins": Parameter("int", 100, 100, _NOT_PRINTED, "histogram bins per side (NMI)", low=2),
    },
    "ziller2024/fig5": _image(_CLIP_RATIOS[0]),
    "ziller2024/fig6": _image(_CLIP_RATIOS[1]),
    "ziller2024/fig7": _image(_CLIP_RATIOS[2]),
    "ziller2024/fig8": _image(_CLIP_RATIOS[3]),
}
