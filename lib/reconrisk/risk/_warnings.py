"""What a reader must know before any number of a report: in words, for its first lines."""

from __future__ import annotations

import math
from dataclasses import replace

from reconrisk import privacy
from reconrisk._types import DPSGD
from reconrisk.privacy._releases import STEEPEST
from reconrisk.risk._correlated import CorrelatedRun
from reconrisk.risk._numbers import number
from reconrisk.risk._settings import TrainingRun

__all__ = ["dataset_size", "warnings_of"]

#: how far below one the expected number of records of a batch is taken for a mistake
_WHOLE = 1.0 - 1e-9
#: passes over the data up to which their cost as full-batch steps is worth a sentence
_MOST_PASSES = 1e6


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
    # of several phases the largest rate is in the run: another may sample where that does not
    rate = min((float(p.sampling_rate) for p in run.phases), default=run.sampling_rate)
    if size is not None and rate * size < _WHOLE:
        found.append(
            f"The sampling rate {rate:g} does not fit n = {size:,} records: a batch "
            f"would hold {rate * size:.2g} records on average."
        )
    if rate < 1.0 and run.guarantee is None:
        found.append(_on_sampling(run))
        one = run.gaussian and not run.phases and run.group_size == 1 and run.steps > 1
        if one and run.effective_noise < 1.0 / STEEPEST:
            found.append(
                f"With a noise multiplier below 1/{STEEPEST:g} sub-sampled steps are not composed "
                "numerically: epsilon lies between that of one step and that of the full batch, "
                "which are far apart."
            )
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
        "epsilon can be several times as large (Chua et al. 2024)"
    )
    if isinstance(run, CorrelatedRun):  # there is no other analysis of its samplers
        return text + "."
    if run.gaussian and not run.phases and run.group_size == 1:
        text += ": describe the run with sampler 'shuffle' or 'fixed'"
    if not run.gaussian:
        return text + "."
    # given the order, which is independent of the data, a record takes part in one step an epoch
    whole = [
        replace(
            phase,
            noise_multiplier=float(phase.noise_multiplier) / run.group_size,
            sampling_rate=1.0,
            steps=_epochs(phase, run.epochs),
        )
        for phase in run.each_phase
    ]
    epochs = sum(int(phase.steps) for phase in whole)
    if epochs > _MOST_PASSES:
        return text + "."
    most = privacy.epsilon(whole, run.delta).upper
    begun = " and every phase begins a new one" if run.phases else ""
    return (
        f"{text}. If each record takes part exactly once an epoch{begun}, epsilon is at most "
        f"{number(most, 'up')}, the cost of {epochs:,} full-batch "
        f"step{'s' if epochs > 1 else ''}."
    )


def _epochs(phase: DPSGD, given: float | None) -> int:
    """Return the steps of a phase that take a record, if each epoch has one."""
    passes = int(phase.steps) * float(phase.sampling_rate) * (1.0 - 1e-9)
    return max(1, math.ceil(passes if given is None else given))
