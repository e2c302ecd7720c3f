"""Where our own exhibits still look for the parameters of the grid of attacks."""

from __future__ import annotations

from companion.experiments.client_grid import GRID
from companion.study.parameters import Parameter

__all__ = ["GRID", "PARAMETERS"]

PARAMETERS: dict[str, dict[str, Parameter]] = {}
