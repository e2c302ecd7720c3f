"""Adam on given derivatives: PyTorch's own step, without loading its compiler.

The constructors of ``torch.optim`` import ``torch._dynamo``, which takes two seconds of every
process; the functions beneath them do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw

__all__ = ["Adam"]


class Adam:
    """The optimiser of :class:`torch.optim.Adam` or ``AdamW``, with the same results to the bit.

    Parameters
    ----------
    values : sequence of Tensor
        Changed in place by :meth:`step`.
    betas : tuple of float
        What the means of derivatives and of their squares keep from step to step.
    weight_decay : float
        Added to the derivatives times the values; or, ``decoupled``, what the values shrink by in
        every step, times the learning rate.
    fused : bool
        Whether one kernel updates all values.
    """

    def __init__(
        self,
        values: Sequence[torch.Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        decoupled: bool = False,
        fused: bool = False,
    ) -> None:
        self._values = list(values)
        self._moments = [[torch.zeros_like(v) for v in self._values] for _ in range(2)]
        device = self._values[0].device if fused else None
        self._steps = [torch.zeros((), dtype=torch.float32, device=device) for _ in self._values]
        self._update = adamw if decoupled else adam
        self._options: dict[str, Any] = {
            "beta1": betas[0],
            "beta2": betas[1],
            "weight_decay": weight_decay,
            "fused": fused,
        }

    @property
    def state(self) -> list[torch.Tensor]:
        """The moments and the steps counted: what a copy needs to go on."""
        return [*self._moments[0], *self._moments[1], *self._steps]

    @torch.no_grad()
    def step(self, slopes: Sequence[torch.Tensor], learning_rate: float) -> None:
        """Move the values against their derivatives."""
        self._update(
            self._values,
            list(slopes),
            *self._moments,
            [],
            self._steps,
            foreach=False,
            amsgrad=False,
            lr=learning_rate,
            eps=1e-8,
            maximize=False,
            **self._options,
        )
