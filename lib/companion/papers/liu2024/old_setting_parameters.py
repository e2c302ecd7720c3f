"""Parameters of the diagram of Liu et al. 2024."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["PARAMETERS"]

_NOT = "not printed"

PARAMETERS: dict[str, dict[str, P]] = {
    "liu2024/fig1": {
        "dimension": P("int", 16, 32, _NOT, "entries of a record", low=2),
        "width": P("int", 4000, 32000, _NOT, "neurons of the network", low=100),
        "batch_size": P("int", 3, 4, _NOT, "records of a batch", low=2),
        "noise_std": P("float", 0.3, 0.3, _NOT, "the noise that is the defence", low=0.01),
        "draws": P("int", 4, 10, _NOT, "batches, each with a network of its own", low=2),
    },
}
