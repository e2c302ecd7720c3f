"""Parameters of the exhibits of Biswas et al. 2024 that train networks."""

from __future__ import annotations

from companion.study.parameters import Parameter as P

__all__ = ["DATA", "PARAMETERS", "TRAINING"]

_LABELS = (75.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0)
_ONE = "not printed: one, it seems"
_OURS = "not printed: our comparison"

#: shared by every exhibit that trains, so that they share their runs
DATA = {
    "digits": P("str", "digits", "MNIST", "MNIST", "data set of digits: digits or MNIST"),
    "garments": P(
        "str",
        "patches",
        "FashionMNIST",
        "Fashion-MNIST",
        "data set of garments, or patches of photographs: patches or FashionMNIST",
    ),
}
TRAINING = {
    "epochs": P("int", 30, 3, "3", "passes over the training pictures", low=1),
    "repeats": P("int", 2, 3, _ONE, "networks trained with each setting", low=2),
    "concentrations": P(
        "floats",
        _LABELS,
        _LABELS,
        "75 to 400, eight pairs",
        "pairs of noises, named by their concentration",
        low=1.0,
    ),
}
_BATCH_SIZE = P("int", 128, 128, "128", "records of a batch, expected", low=1)
_TRIED = P("int", 32, 128, "128", "records of the batch that lines are tried on", low=4)

PARAMETERS: dict[str, dict[str, P]] = {
    "biswas2024/alg1": {
        **DATA,
        **TRAINING,
        "concentrations": P(
            "floats", (75.0, 400.0), (75.0, 400.0), "75 to 400", "pairs trained, by concentration"
        ),
        "batch_size": _BATCH_SIZE,
        "tried": _TRIED,
    },
    "biswas2024/alg2": {
        "digits": DATA["digits"],
        "tried": _TRIED,
        "concentration": P("float", 400.0, 400.0, "75 to 500", "kappa", low=1.0),
        "draws": P("int", 300, 5000, "not printed: a check of ours", "noisy gradients", low=20),
    },
    "biswas2024/fig2": {**DATA, **TRAINING, "batch_size": _BATCH_SIZE},
    "biswas2024/table5": {
        **DATA,
        **TRAINING,
        "batch_sizes": P(
            "ints", (32, 128), (16, 32, 64, 128), "16, 32, 64, 128", "records of a batch", low=1
        ),
        "accounted": P(
            "ints",
            (16, 128),
            (16, 32, 64, 128),
            "16, 32, 64, 128",
            "batch sizes whose epsilons are computed, at 60,000 records",
            low=1,
        ),
        "accounted_concentrations": P(
            "floats",
            (75.0, 250.0, 400.0),
            _LABELS,
            "75 to 400, eight pairs",
            "pairs whose epsilons are computed, by concentration",
            low=1.0,
        ),
        "reading_concentrations": P(
            "floats", (75.0, 400.0), _LABELS, _OURS, "pairs on which readings are compared", low=1.0
        ),
        "reading_batch_sizes": P(
            "ints", (128,), (16, 128), _OURS, "batch sizes at which readings are compared", low=1
        ),
        "reading_repeats": P("int", 2, 2, _OURS, "networks trained for each reading", low=2),
        "reading_sets": P("int", 1, 2, _OURS, "1: digits only; 2: garments too", low=1),
    },
}
