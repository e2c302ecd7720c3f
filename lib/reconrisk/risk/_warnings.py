"""What a reader must know before any number of a report: in words, for its first lines."""

from __future__ import annotations

import math
from dataclasses import replace

from reconrisk import privacy
from reconrisk._types import DPSGD
from reconrisk.privacy._releases import STEEPEST
from reconrisk.risk._correlated import CorrelatedRun
from reconrisk.risk._numbers import number
from reconrisk.risk._settings import Record, TrainingRun

__all__ = ["dataset_size", "warnings_of"]

#: how far below one the expected number of records of a batch is taken for a mistake
_WHOLE = 1.0 - 1e-9
#: root mean square of a record's values over their range below which units are doubted
_LEAST_VALUE = 0.01
#: passes over the data up to which their cost as full-batch steps is worth a sentence
_MOST_PASSES = 1e6


def warnings_of(run: TrainingRun, record: Record | None = None) -> tuple[str, ...]:
    """Return the warnings on a run and its records: delta, sampling rate, sampler, range and norm.

    Parameters
    ----------
    run : TrainingRun
    record : Record, optional

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
    if record is not None:
        found += _on_range(record)
    return tuple(found)


def _on_range(record: Record) -> list[str]:
    """Return a warning where range and norm are in different units, as of bytes and of shares."""
    n, span, norm = record.dimension, record.data_range, record.data_norm
    if n is None or span is None or norm is None:
        return []
    typical = norm / math.sqrt(n) / span
    if _LEAST_VALUE <= typical <= 1.0:
        return []
    return [
        f"A record of norm {norm:g} has values of {typical * span:.2g} (root mean square), and "
        f"their range is given as {span:g}: are both in the same units? Errors are compared with "
        "the range."
    ]


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
    whole = _passes(run)
    epochs = sum(int(phase.steps) for phase in whole)
    if epochs > _MOST_PASSES:
        return text + "."
    most = privacy.epsilon(whole, run.delta).upper
    begun = ", phases of one sampling rate follow each other as listed" if run.phases else ""
    return (
        f"{text}. If each record takes part exactly once an epoch{begun}, epsilon is at most "
        f"{number(most, 'up')}, the cost of {epochs:,} full-batch "
        f"step{'s' if epochs > 1 else ''} (adjacency zero-out)."
    )


def _passes(run: TrainingRun) -> list[DPSGD]:
    """Return a full-batch step for every epoch, with the least noise that the epoch has.

    Another sampling rate begins a new epoch.
    """
    found: list[DPSGD] = []
    rate = done = noise = 0.0
    for phase in run.each_phase:
        noise, q = float(phase.noise_multiplier) / run.group_size, float(phase.sampling_rate)
        if q != rate:
            rate, done = q, 0.0
        given = run.epochs if not run.phases else None
        passes = int(phase.steps) * q if given is None else given
        begun = math.ceil(done * (1.0 - 1e-9))
        if done < begun * (1.0 - 1e-9) and found:  # the epoch goes on
            last = found[-1]
            if noise < float(last.noise_multiplier):
                found[-1:] = [replace(last, steps=last.steps - 1)] if last.steps > 1 else []
                found.append(DPSGD(noise))
        done += passes
        more = math.ceil(done * (1.0 - 1e-9)) - begun
        if more > 0:
            found.append(DPSGD(noise, 1.0, more))
    return found or [DPSGD(noise)]
