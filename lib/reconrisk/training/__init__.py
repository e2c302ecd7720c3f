"""DP-SGD: single steps through autograd, and whole runs of one model or thousands at once.

- ``_autograd``: per-example gradients of any module; steps of batch size one (papers A and B);
- ``_factors``: per-example gradients of a small classifier as factors of outer products;
- ``_bulk``: DP-SGD of many models at once that differ in their target record (paper C);
- ``_backpropagation``: gradients of a sigmoid network, and their derivatives in the records;
- ``_mini_batches``: training of that network with Gaussian or von Mises-Fisher noise (paper D);
- ``_clients``: client updates of any network under a defence (paper E);
- ``_defended``: training of many networks under many defences (paper E);
- ``_jacobians``: the derivatives of client updates in the images.
"""

from typing import TYPE_CHECKING

from reconrisk import lazy
from reconrisk._extras import require

require("torch", "reconrisk.training")

if TYPE_CHECKING:
    from reconrisk.training._autograd import per_example_gradients, single_record_steps
    from reconrisk.training._backpropagation import (
        backward_pass,
        mean_gradient,
        network_accuracy,
        one_hot,
    )
    from reconrisk.training._bulk import (
        Observer,
        Trajectories,
        record_trajectories,
        train_many,
    )
    from reconrisk.training._clients import client_updates, update_function
    from reconrisk.training._defended import DefendedTraining, train_under_defences
    from reconrisk.training._factors import Factors, Weights, accuracy, gradient_factors
    from reconrisk.training._jacobians import update_jacobian
    from reconrisk.training._mini_batches import (
        Release,
        poisson_batches,
        release_gradients,
        train_mini_batches,
    )
else:
    __getattr__, __dir__ = lazy.attach(__name__)

__all__ = [
    "DefendedTraining",
    "Factors",
    "Observer",
    "Release",
    "Trajectories",
    "Weights",
    "accuracy",
    "backward_pass",
    "client_updates",
    "gradient_factors",
    "mean_gradient",
    "network_accuracy",
    "one_hot",
    "per_example_gradients",
    "poisson_batches",
    "record_trajectories",
    "release_gradients",
    "single_record_steps",
    "train_many",
    "train_mini_batches",
    "train_under_defences",
    "update_function",
    "update_jacobian",
]
