"""The training run that an event of dp-accounting describes."""

from __future__ import annotations

import math
from typing import Any

from reconrisk.risk._phases import Phase, one_run, phase_of_history
from reconrisk.risk._settings import TrainingRun, training_run

__all__ = ["from_dp_event"]

#: deepest nesting of events
_MOST_NESTED = 50


def from_dp_event(event: Any, **settings: Any) -> TrainingRun:
    """Return the training run that an event of ``dp_accounting`` describes.

    Accepts ``GaussianDpEvent``, ``PoissonSampledDpEvent`` of these, ``SelfComposedDpEvent``,
    ``ComposedDpEvent`` and ``NoOpDpEvent``, nested in any way. Several Gaussian releases of the
    same Poisson sample equal one release with less noise, and a sample of a sample equals one
    sample; both conversions are exact.

    Parameters
    ----------
    event : dp_accounting.DpEvent
    **settings
        What an event does not hold, as :func:`training_run` takes it: ``max_grad_norm``,
        ``parameters``, ``layers``, ``delta``, ``dataset_size``.

    Returns
    -------
    TrainingRun
        If the noise or the sampling rate changes during training, one run that reveals at least as
        much, with a note that says so.

    Raises
    ------
    TypeError
        If ``event`` is not an event, or not one of DP-SGD.
    ValueError
        If a value in it, or one of ``settings``, is out of range.

    Examples
    --------
    >>> import dp_accounting as dp  # doctest: +SKIP
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1))  # doctest: +SKIP
    >>> risk.from_dp_event(dp.SelfComposedDpEvent(step, 1000)).steps  # doctest: +SKIP
    1000
    """
    taken = {"noise_multiplier", "sampling_rate", "steps", "epochs", "batch_size"} & set(settings)
    if taken:
        raise TypeError(f"from_dp_event reads {', '.join(sorted(taken))} from the event")
    phases = _phases(event, 0)
    if not phases:
        raise ValueError("event must release something; it is empty")
    run, note = one_run(phases)
    return training_run(
        noise_multiplier=run.noise_multiplier,
        sampling_rate=run.sampling_rate,
        steps=run.steps,
        notes=(note,) if note else (),
        **settings,
    )


def _phases(event: Any, depth: int) -> list[Phase]:
    from dp_accounting import dp_event as events

    if depth > _MOST_NESTED:
        raise ValueError(f"event must be nested at most {_MOST_NESTED} deep")
    match event:
        case events.NoOpDpEvent():
            return []
        case events.GaussianDpEvent():
            return [phase_of_history("GaussianDpEvent", (event.noise_multiplier, 1.0, 1))]
        case events.SelfComposedDpEvent():
            if event.count == 0:
                return []
            inner = _phases(event.event, depth + 1)
            return [
                phase_of_history("SelfComposedDpEvent", (sigma, q, steps * event.count))
                for sigma, q, steps in inner
            ]
        case events.ComposedDpEvent():
            return [phase for one in event.events for phase in _phases(one, depth + 1)]
        case events.PoissonSampledDpEvent():
            return _sampled(event.sampling_probability, _phases(event.event, depth + 1))
        case events.DpEvent():
            raise TypeError(
                "event must be made of Gaussian releases, Poisson sampling and composition; "
                f"it holds a {type(event).__name__}"
            )
    raise TypeError(f"event must be a DpEvent of dp_accounting; got {type(event).__name__}")


def _sampled(probability: float, inner: list[Phase]) -> list[Phase]:
    """Merge the releases on one Poisson sample into one step."""
    if not inner:
        return []
    name = "PoissonSampledDpEvent"
    if all(q == 1.0 for _, q, _ in inner):
        # equivalent to one release: the inverse variances add up
        least = min(sigma for sigma, _, _ in inner)
        total = math.fsum(steps * (least / sigma) ** 2 for sigma, _, steps in inner)
        return [phase_of_history(name, (least / math.sqrt(total), probability, 1))]
    if len(inner) == 1 and inner[0][2] == 1:
        sigma, q, _ = inner[0]
        return [phase_of_history(name, (sigma, probability * q, 1))]
    raise TypeError(
        f"event must not hold a {name} of several sampled releases: in DP-SGD each step samples "
        "from the whole data set"
    )
