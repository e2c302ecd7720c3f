"""Parameters: accounting."""

from __future__ import annotations

from reconrisk.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

PARAMETERS: dict[str, dict[str, P]] = {}
