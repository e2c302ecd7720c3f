"""The training run that an event of dp-accounting describes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special as sc

from reconrisk import arguments, bounds, special
from reconrisk._types import DPSGD
from reconrisk.privacy import Atoms, Group, Laplace
from reconrisk.risk._guarantees import from_guarantee
from reconrisk.risk._phases import phase_of_history
from reconrisk.risk._settings import TrainingRun, phased_run, refuse_read, training_run

__all__ = ["from_dp_event"]

#: deepest nesting of events
_MOST_NESTED = 50
#: share of delta that may be given away; a margin for the rounding of a binomial tail
_SPILLED, _MARGIN = 1e-3, 1.0 + 1e-6
_Found = DPSGD | Laplace | Atoms | Group | float


def from_dp_event(event: Any, **settings: Any) -> TrainingRun:
    """Return the training run that an event of ``dp_accounting`` describes.

    Events of Gaussian noise: ``GaussianDpEvent``, ``PoissonSampledDpEvent``,
    ``SelfComposedDpEvent``, ``ComposedDpEvent``, ``NoOpDpEvent``,
    ``SingleEpochTreeAggregationDpEvent``, nested in any way, are a run in phases. Several Gaussian
    releases of the same Poisson sample equal one release with less noise (the noisy count of
    adaptive clipping is one), and a sample of a sample equals one sample; both are exact. With
    ``LaplaceDpEvent``, ``DiscreteLaplaceDpEvent``, ``RandomizedResponseDpEvent`` or
    ``MixtureOfGaussiansDpEvent`` among them they compose as well, and the report answers what
    follows from their losses; with ``ZCDpEvent`` what follows from its guarantee. One Gaussian
    release of a ``SampledWithoutReplacementDpEvent``, repeated, is a run with batches of fixed
    size, whose adjacency is "replace" there and here, unless ``adjacency`` says otherwise. Steps of
    a ``TruncatedSubsampledGaussianDpEvent`` count with half the noise where the batch is cut.

    Parameters
    ----------
    event : dp_accounting.DpEvent
    **settings
        What an event does not hold, as :func:`training_run` takes it: ``max_grad_norm``,
        ``parameters``, ``layers``, ``delta``, ``dataset_size``, ``group_size``.

    Returns
    -------
    TrainingRun
        Its phases compose by their own losses.

    Raises
    ------
    TypeError
        If ``event`` is not an event, or one without such a form: the message names it.
    ValueError
        If a value in it, or one of ``settings``, is out of range.

    Examples
    --------
    >>> import dp_accounting as dp  # doctest: +SKIP
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1))  # doctest: +SKIP
    >>> risk.from_dp_event(dp.SelfComposedDpEvent(step, 1000)).steps  # doctest: +SKIP
    1000
    """
    refuse_read(settings, "from_dp_event", "event", "sampler")
    fixed = _fixed(event)
    if fixed is not None:
        twice = sorted({"dataset_size"} & set(settings))
        if twice:
            raise TypeError(f"from_dp_event reads {twice[0]} from the event")
        return training_run(**{"adjacency": "replace", **fixed, **settings})
    delta = arguments.real("delta", settings.get("delta", 1e-5), 0, 1, low_open=True)
    found = list(_releases(event, 0, _SPILLED * float(delta)))
    if not found:
        raise ValueError("event must release something; it is empty")
    # batches that are cut are known from above alone
    if all(isinstance(r, DPSGD) for r in found) and not _cuts_batches(event):
        phases = [(float(r.noise_multiplier), float(r.sampling_rate), int(r.steps)) for r in found]
        return phased_run(phases, **settings)
    concentrated = [r for r in found if isinstance(r, float)]
    if concentrated:
        return from_guarantee({"rho": math.fsum([*concentrated, *_rho(found)])}, **settings)
    mechanisms = [r for r in found if not isinstance(r, float)]
    return from_guarantee(bounds.Releases(mechanisms), **settings)


def _cuts_batches(event: Any) -> bool:
    """Whether an event holds a truncated one."""
    from dp_accounting import dp_event as events

    parts = getattr(event, "events", None) or [getattr(event, "event", None)]
    truncated = isinstance(event, events.TruncatedSubsampledGaussianDpEvent)
    return truncated or any(_cuts_batches(one) for one in parts if one is not None)


def _fixed(event: Any) -> dict[str, Any] | None:
    """Return the settings of a run with batches of fixed size, None of all other events."""
    from dp_accounting import dp_event as events

    steps = 1
    while isinstance(event, events.SelfComposedDpEvent):
        steps, event = steps * int(event.count), event.event
    if not isinstance(event, events.SampledWithoutReplacementDpEvent):
        return None
    inner = _releases(event.event, 0, 0.0)
    if len(inner) != 1 or not isinstance(inner[0], DPSGD) or inner[0].sampling_rate != 1.0:
        return None
    return {
        "noise_multiplier": float(inner[0].noise_multiplier) / math.sqrt(int(inner[0].steps)),
        "batch_size": event.sample_size,
        "dataset_size": event.source_dataset_size,
        "steps": steps,
        "sampler": "fixed",
    }


def _rho(found: Sequence[_Found]) -> Iterable[float]:
    """Yield the concentration of full-batch Gaussian releases; refuse all others."""
    for release in found:
        if isinstance(release, DPSGD) and release.sampling_rate == 1.0:
            yield 0.5 * release.steps / float(release.noise_multiplier) ** 2
        elif not isinstance(release, float):
            raise TypeError(
                "event must not compose a ZCDpEvent with anything but full-batch Gaussian "
                f"releases; it holds {release!r}"
            )


_REFUSED = {
    "NonPrivateDpEvent": "it protects nothing",
    "UnsupportedDpEvent": "nothing is known of it",
    "SampledWithoutReplacementDpEvent": "batches of a fixed size are composed here only as one "
    "Gaussian release, the same in every step",
    "SampledWithReplacementDpEvent": "batches drawn with replacement have no form here",
    "RepeatAndSelectDpEvent": "its losses have no form here",
}


def _releases(event: Any, depth: int, spill: float) -> list[_Found]:
    """Return what an event releases; a number is the rho of a concentrated guarantee.

    With a probability of ``spill`` everything may be taken to be told.
    """
    from dp_accounting import dp_event as events

    if depth > _MOST_NESTED:
        raise ValueError(f"event must be nested at most {_MOST_NESTED} deep")
    match event:
        case events.NoOpDpEvent():
            return []
        case events.SelfComposedDpEvent():
            if event.count == 0:
                return []
            if isinstance(event.event, events.TruncatedSubsampledGaussianDpEvent):
                return _cut_batches(event.event, event.count, spill)
            return [_repeat(r, event.count) for r in _releases(event.event, depth + 1, spill)]
        case events.ComposedDpEvent():
            return [release for one in event.events for release in _releases(one, depth + 1, spill)]
        case events.TruncatedSubsampledGaussianDpEvent():
            return _cut_batches(event, 1, spill)
        case events.PoissonSampledDpEvent():
            return _merge_sampled(
                event.sampling_probability, _releases(event.event, depth + 1, spill)
            )
        case events.DpEvent():
            return [_one(event)]
    raise TypeError(f"event must be a DpEvent of dp_accounting; got {type(event).__name__}")


def _one(event: Any) -> _Found:
    """Return what an event that is made of no others releases."""
    from dp_accounting import dp_event as events

    match event:
        case events.GaussianDpEvent():
            return _phase("GaussianDpEvent", event.noise_multiplier)
        case events.SingleEpochTreeAggregationDpEvent():
            counts = event.step_counts
            most = max(counts) if isinstance(counts, Iterable) else counts
            nodes = math.ceil(math.log2(arguments.integer("step_counts", most, 1) + 1))
            return _phase(type(event).__name__, event.noise_multiplier / math.sqrt(nodes))
        case events.LaplaceDpEvent():
            return Laplace(event.noise_multiplier)
        case events.DiscreteLaplaceDpEvent():
            return _discrete_laplace(event.noise_parameter, event.sensitivity)
        case events.RandomizedResponseDpEvent():
            return Atoms.randomised_response(event.noise_parameter, event.num_buckets)
        case events.MixtureOfGaussiansDpEvent():
            return _mixture(event)
        case events.ZCDpEvent():
            if event.xi != 0.0:
                raise TypeError(f"event must hold ZCDpEvents with xi = 0; got xi = {event.xi!r}")
            return float(event.rho)
    name = type(event).__name__
    why = _REFUSED.get(name, "it has no form here")
    raise TypeError(f"event holds a {name}, which cannot be composed: {why}")


def _phase(name: str, noise: float, rate: float = 1.0, steps: int = 1) -> DPSGD:
    return DPSGD(*phase_of_history(name, (noise, rate, steps)))


def _cut_batches(event: Any, count: int, spill: float) -> list[_Found]:
    """Return what dominates steps on Poisson samples that are cut to a size (arXiv 2508.15089).

    How many others a sample holds tells nothing of the record. If they fill the batch, the record
    takes the place of one of them, at a distance of two clipping norms, and with no more than the
    sampling rate; else the step is that on any Poisson sample. Of further steps that are cut every
    one is taken to tell all if it takes the record: with a probability of ``spill`` at most.
    """
    name = type(event).__name__
    steps = arguments.count("SelfComposedDpEvent, steps,", count, 1, 1e15)
    n = arguments.count(f"{name}, dataset_size,", event.dataset_size, 1, 1e12)
    most = arguments.count(f"{name}, truncated_batch_size,", event.truncated_batch_size, 1)
    run = _phase(name, event.noise_multiplier, event.sampling_probability, steps)
    full = min(_upper_tail(most, n - 1, run.sampling_rate), 1.0)

    def told_beyond(cut: int) -> float:
        return run.sampling_rate * steps * full * _upper_tail(cut, steps - 1, full)

    low, cut = -1, steps
    while cut - low > 1:
        middle = (low + cut) // 2
        low, cut = (middle, cut) if told_beyond(middle) > spill else (low, middle)
    told = told_beyond(cut)
    found: list[_Found] = []
    if cut < steps:
        found.append(replace(run, steps=steps - cut))
    if cut:
        found.append(replace(run, noise_multiplier=0.5 * run.noise_multiplier, steps=cut))
    if told > 0.0:
        found.append(Atoms.approximate_dp(0.0, told))
    return found


def _upper_tail(least: int, trials: int, probability: float) -> float:
    """Return the probability that a binomial variable is at least so large, rounded upwards."""
    if least <= 0 or least > trials:
        return float(least <= 0)
    # not bdtrc, which takes no counts from 2^31 on
    return float(sc.betainc(least, trials - least + 1.0, probability)) * _MARGIN


def _repeat(release: _Found, count: int) -> _Found:
    arguments.integer("SelfComposedDpEvent, steps,", count, 1, 1e15)
    if isinstance(release, float):
        return release * count
    if isinstance(release, Group):
        return replace(release, run=replace(release.run, steps=release.run.steps * count))
    return replace(release, steps=release.steps * count)


def _discrete_laplace(noise: float, sensitivity: int) -> Atoms:
    """The outcomes between the two values, and those on either side, whose losses are equal."""
    a = float(arguments.real("noise_parameter", noise, 0, 35, low_open=True))
    k = int(arguments.integer("sensitivity", sensitivity, 1, 1e6))
    # mass at most zero, and at one, two, ... up to all that is left
    tail = 1.0 / (1.0 + math.exp(-a))
    middle = math.tanh(0.5 * a) * np.exp(-a * np.arange(1.0, k))
    last = max(math.exp(-a * k) / (1.0 + math.exp(-a)), 0.0)
    law = [tail, *middle, last]
    total = math.fsum(law)
    law = [p / total for p in law]
    return Atoms(tuple(law), tuple(reversed(law)))


def _mixture(event: Any) -> Group | DPSGD:
    """A mixture whose members are binomial, as of a group under Poisson sampling."""
    size = len(event.sensitivities) - 1
    shares = [float(p) for p in event.sampling_probs]
    unit = float(event.sensitivities[1]) if size >= 1 else 0.0
    expected = [j * unit for j in range(size + 1)]
    rate = 1.0 - shares[0] ** (1.0 / size) if size >= 1 and shares[0] > 0.0 else 1.0
    if unit > 0.0 and rate < 1.0 and _close(event.sensitivities, expected):
        j = [float(i) for i in range(size + 1)]
        law = [math.exp(special.log_binomial_pmf(i, float(size), rate)) for i in j]
        if _close(shares, law):
            run = _phase("MixtureOfGaussiansDpEvent", event.standard_deviation / unit, rate)
            return Group(run, size) if size > 1 else run
    raise TypeError(
        "event holds a MixtureOfGaussiansDpEvent, which is composed here only with sensitivities "
        "0, c, 2 c, ... and binomial probabilities: those of a group under Poisson sampling"
    )


def _close(found: Sequence[float], expected: Sequence[float]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-15)
        for a, b in zip(found, expected, strict=True)
    )


def _merge_sampled(probability: float, inner: list[_Found]) -> list[_Found]:
    """Merge the releases on one Poisson sample into one step."""
    if not inner:
        return []
    name = "PoissonSampledDpEvent"
    runs = [r for r in inner if isinstance(r, DPSGD)]
    if len(runs) == len(inner) and all(r.sampling_rate == 1.0 for r in runs):
        # equivalent to one release: the inverse variances add up
        least = min(float(r.noise_multiplier) for r in runs)
        total = math.fsum(r.steps * (least / float(r.noise_multiplier)) ** 2 for r in runs)
        return [_phase(name, least / math.sqrt(total), probability)]
    if len(inner) == 1 and isinstance(inner[0], DPSGD | Laplace) and inner[0].steps == 1:
        rate = arguments.real(f"{name}, sampling_probability,", probability, 0, 1, low_open=True)
        return [replace(inner[0], sampling_rate=float(rate) * float(inner[0].sampling_rate))]
    raise TypeError(
        f"event holds a {name} of {len(inner)} releases, which is composed here only around "
        "Gaussian releases or one with Laplace noise: in DP-SGD each step samples from the whole "
        "data set (several sampled releases are a ComposedDpEvent of samples)"
    )
