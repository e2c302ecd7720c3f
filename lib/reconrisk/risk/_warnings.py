"""What a reader must know before any number of a report: in words, for its first lines."""

from __future__ import annotations

import math

from reconrisk import privacy
from reconrisk._types import DPSGD
from reconrisk.risk._numbers import number
from reconrisk.risk._settings import TrainingRun

__all__ = ["dataset_size", "warnings_of"]

#: how far below one the expected number of records of a batch is taken for a mistake
_WHOLE = 1.0 - 1e-9


def warnings_of(run: TrainingRun) -> tuple[str, ...]:
    """Return the warnings on a run: its delta, its sampling rate, its sampler.

    Parameters
    ----------
    run : TrainingRun

    Returns
    -------
    tuple of str
        Sentences, the gravest first.
    """
    found = []
    size = dataset_size(run)
    if size is not None and run.delta * size >= 1.0:
        found.append(
            f"delta = {run.delta:g} is not below 1/n = {1.0 / size:.2g} for n = {size:,} records: "
            "at such a delta publishing a record or more in full counts as private. Epsilon means "
            f"little here; choose delta well below {1.0 / size:.2g}."
        )
    if size is not None and run.sampling_rate * size < _WHOLE:
        found.append(
            f"The sampling rate {run.sampling_rate:g} does not fit n = {size:,} records: a batch "
            f"would hold {run.sampling_rate * size:.2g} records on average."
        )
    if run.sampling_rate < 1.0:
        found.append(_on_sampling(run))
    return tuple(found)


def dataset_size(run: TrainingRun) -> int | None:
    """Return the number of records: as given, or as batch size and sampling rate imply."""
    if run.dataset_size is not None:
        return run.dataset_size
    return None if run.batch_size is None else round(run.batch_size / run.sampling_rate)


def _on_sampling(run: TrainingRun) -> str:
    text = (
        "Every number assumes Poisson sampling: each step draws each record by itself. If the "
        "loader shuffles, or takes batches of a fixed size, another analysis is needed, and "
        "epsilon can be several times as large (Chua et al. 2024): describe the run with sampler "
        "'shuffle' or 'fixed'"
    )
    passes = run.steps * run.sampling_rate
    if not run.gaussian or passes > 1e6:
        return text + "."
    # given the order, which is independent of the data, a record takes part in one step an epoch
    epochs = max(1, math.ceil(passes * (1.0 - 1e-9) if run.epochs is None else run.epochs))
    most = privacy.epsilon(DPSGD(run.effective_noise, 1.0, epochs), run.delta).upper
    return (
        f"{text}. If each record takes part exactly once an epoch, epsilon is at most "
        f"{number(most, 'up')}, the cost of {epochs:,} full-batch "
        f"step{'s' if epochs > 1 else ''}."
    )
