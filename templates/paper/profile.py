"""Parameters of the example's exhibits."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

PARAMETERS: dict[str, dict[str, P]] = {
    "example2026/table1": {
        "answers": P("int", 20_000, 1_000_000, "not printed", "simulated answers", low=100),
    },
}
