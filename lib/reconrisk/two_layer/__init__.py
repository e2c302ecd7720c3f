"""Two-layer networks with random weights, and the gradients they release: Liu et al., Section 3.

``f(x) = sum_j a_j s(w_j.x)`` with m neurons, ``a_j ~ N(0, 1/m^2)``, ``w_j ~ N(0, I)``, and the loss
``sum_i (f(x_i) - y_i)^2`` over a batch of B records. The gradient of the output weights ::

    g_j = sum_i r_i s(w_j.x_i),    r_i = 2 (f(x_i) - y_i)

is released. That of the inner weights carries a share of order 1/m^2 of the information, as
:func:`inner_gradient_jacobians` shows.

The weights are not stored: neurons are generated in chunks from counter-based seeds, independently
of the chunk size. NumPy only; double precision, from single-precision weights.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy

if TYPE_CHECKING:
    from reconrisk.two_layer._jacobians import gradient_jacobians, inner_gradient_jacobians
    from reconrisk.two_layer._network import Neurons, TwoLayer
    from reconrisk.two_layer._release import (
        OutputGradient,
        aggregate_gradients,
        release_output_gradient,
    )
    from reconrisk.two_layer._steps import LocalSteps, Simulation, simulate
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "LocalSteps",
    "Neurons",
    "OutputGradient",
    "Simulation",
    "TwoLayer",
    "aggregate_gradients",
    "gradient_jacobians",
    "inner_gradient_jacobians",
    "release_output_gradient",
    "simulate",
]
