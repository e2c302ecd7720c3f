"""Parameters: attackers who know the defence, and what a defence leaves to any attacker."""

from __future__ import annotations

from dataclasses import replace

from companion.papers.liu2024.old_attacks_parameters import GRID
from companion.study.parameters import Parameter

__all__ = ["PARAMETERS"]

_OURS = "not printed: our own"

# with fewer channels the update does not determine a batch of four, defended or not
_GRID = {
    **GRID,
    "channels": replace(GRID["channels"], quick=16),
    "images": replace(GRID["images"], quick=8),
    "batch_sizes": Parameter("ints", (2, 4), (2, 4, 8), "2, 4, 8", "pictures a batch", low=1),
    "local_steps": Parameter(
        "ints", (3,), (3, 5), "3, 5", "local steps that aware attackers repeat", low=1
    ),
    "oblivious": Parameter(
        "str",
        "GradientInversion, Robbing The Fed, Analytic",
        "Ours, w/o FM, GradientInversion, CPA, Robbing The Fed, Analytic",
        "Ours, GradientInversion, Robbing The Fed, CPA",
        "attacks that take the update for a plain gradient",
    ),
    "aware": Parameter(
        "str",
        "GradientInversion, Robbing The Fed",
        "Ours, w/o FM, GradientInversion, CPA, Robbing The Fed",
        _OURS,
        "attacks that allow for the defence",
    ),
}

PARAMETERS: dict[str, dict[str, Parameter]] = {
    "beyond/aware_attackers": _GRID,
    "beyond/strongest_attack": {
        **_GRID,
        "small_side": Parameter(
            "int", 8, 8, _OURS, "pixels a side where least squares and ranks are computed", low=8
        ),
        "small_channels": Parameter(
            "int", 16, 16, _OURS, "of the first stage of the small network", low=1
        ),
        "small_wide": Parameter("int", 256, 256, _OURS, "neurons of its wide layer", low=1),
        "small_images": Parameter(
            "int", 8, 40, _OURS, "private pictures whose batches are bounded", low=4
        ),
        "ranked_sizes": Parameter(
            "ints", (2, 4), (1, 2, 4, 8), "2, 4, 8", "batch sizes whose rank is computed", low=1
        ),
        "fitted_size": Parameter("int", 2, 4, "2, 4, 8", "batch size of least squares", low=1),
        "fitted_batches": Parameter("int", 1, 10, _OURS, "batches of least squares", low=1),
        "width": Parameter("int", 2000, 20_000, _OURS, "neurons of the two-layer network", low=64),
    },
}
