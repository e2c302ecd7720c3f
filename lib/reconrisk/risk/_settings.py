"""The inputs of a report: the run, the records, the questions, a model.

Constructors validate every value. If one is missing, contradictory or out of range they raise
:class:`SettingError`, which names the field, the value and what was expected.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments
from reconrisk._types import DPSGD
from reconrisk.bounds import GradientInformation, Guarantee, Releases, contrast_of
from reconrisk.privacy import Group, SampledRun
from reconrisk.privacy._samplers import LEAST_SAMPLED_NOISE, SAMPLERS
from reconrisk.risk._phases import (
    describe_phases,
    equivalent_noise,
    merge_equal_phases,
    one_run,
)
from reconrisk.special import ACTIVATIONS

__all__ = [
    "Questions",
    "Record",
    "SettingError",
    "TrainingRun",
    "TwoLayerModel",
    "questions",
    "record",
    "run_of",
    "training_run",
    "two_layer_model",
]

MECHANISMS = ("gaussian", "vmf")
#: fields of a phase
PHASE_FIELDS = (
    "noise_multiplier", "sampling_rate", "batch_size", "dataset_size", "steps", "epochs",
)  # fmt: skip
LEAST_NOISE, MOST_NOISE = 1e-6, 1e6
MOST_CONCENTRATION = 1e5
#: most values of a question
_MOST_VALUES = 100
#: relative difference up to which a sampling rate agrees with a batch size: six printed digits
_SIX_DIGITS = 5e-6
#: samplers that put a record into one step an epoch
_BY_EPOCHS = ("random-allocation", "shuffle", "cyclic")
#: adjacencies of which something is proven, the first of them by default. Without a record all
#: later ones move to other batches where the order is shuffled or fixed.
_ADJACENCIES = {
    "poisson": ("add-remove", "zero-out", "replace"),
    "fixed": ("add-remove", "zero-out", "replace"),
    "random-allocation": ("add-remove", "zero-out"),
    "shuffle": ("zero-out",),
    "cyclic": ("zero-out",),
}


class SettingError(ValueError):
    """A setting that is missing, contradictory or out of its range.

    Attributes
    ----------
    field : str
        The setting's name, as in the constructors.
    value : object
        The value given, None if it is missing.
    expected : str
        The values that are accepted.
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field, self.value, self.expected = field, value, expected
        super().__init__(field, value, expected)

    def __str__(self) -> str:
        return f"{self.field} must be {self.expected}; got {arguments.shown(self.value)[:80]}"


def reject_unknown(settings: Mapping[str, object], named: Iterable[str], beside: str) -> None:
    """Refuse a setting that is not one of those named."""
    for name in sorted(set(settings) - set(named)):
        raise SettingError(name, settings[name], f"left out {beside}")


def refuse_read(settings: Mapping[str, object], reader: str, source: str, *more: str) -> None:
    """Refuse a setting that a reader of other libraries' runs takes from its source."""
    read = {"noise_multiplier", "sampling_rate", "steps", "epochs", "batch_size", "phases", *more}
    taken = sorted(read & set(settings))
    if taken:
        raise TypeError(f"{reader} reads {', '.join(taken)} from the {source}")


# Values ------------------------------------------------------------------------------------------


def number(
    field: str,
    value: object,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return a finite real number in an interval; booleans and all other types are refused."""
    ends = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
    expected = f"a number in {ends}"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise SettingError(field, value, expected)
    try:
        x = float(value)
    except OverflowError:
        raise SettingError(field, value, expected) from None
    above = x > low if low_open else x >= low
    below = x < high if high_open else x <= high
    if not (above and below):
        raise SettingError(field, value, expected)
    return x


def whole(field: str, value: object, low: float, high: float) -> int:
    """Return a whole number in an interval; a float such as ``1e6`` is accepted."""
    expected = f"a whole number in [{low:g}, {high:g}]"
    try:
        x = number(field, value, low, high)
    except SettingError:
        raise SettingError(field, value, expected) from None
    if x != math.floor(x):
        raise SettingError(field, value, expected)
    return int(value) if isinstance(value, (int, np.integer)) else int(x)


def _values(field: str, values: object, one: str) -> Sequence[object]:
    expected = f"a list of at most {_MOST_VALUES} numbers, each {one}"
    if isinstance(values, (Real, str, bytes)) or not isinstance(values, Iterable):
        raise SettingError(field, values, expected)
    found = list(values)
    if len(found) > _MOST_VALUES:
        raise SettingError(field, values, expected)
    return found


def _numbers(
    field: str, values: object, low: float, high: float, **ends: bool
) -> tuple[float, ...]:
    found = _values(field, values, f"in [{low:g}, {high:g}]")
    return tuple(dict.fromkeys(number(field, v, low, high, **ends) for v in found))


def _wholes(field: str, values: object, low: float, high: float) -> tuple[int, ...]:
    found = _values(field, values, f"whole, in [{low:g}, {high:g}]")
    return tuple(dict.fromkeys(whole(field, v, low, high) for v in found))


#: arguments of other libraries for ours
_ELSEWHERE = {
    "sample_rate": "sampling_rate", "sampling_probability": "sampling_rate",
    "sigma": "noise_multiplier", "noise_scale": "noise_multiplier",
    "l2_norm_clip": "max_grad_norm", "num_steps": "steps", "iterations": "steps",
    "num_examples": "dataset_size", "sample_size": "dataset_size",
}  # fmt: skip
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def name_unknown(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a function's error on an argument that it has not name the one that is meant."""
    known = [*inspect.signature(function).parameters]

    @functools.wraps(function)
    def checked(*args: _Arguments.args, **given: _Arguments.kwargs) -> _Result:
        for name in given:
            if name not in known:
                near = [_ELSEWHERE[name]] if name in _ELSEWHERE else []
                near += difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else f": it has {', '.join(known)}"
                raise TypeError(f"{function.__name__} has no argument {name}{hint}")
        return function(*args, **given)

    return checked


def remarks(notes: object) -> tuple[str, ...]:
    """Return the remarks for a report; a single text, whose letters would be taken, is refused."""
    expected = "a list of sentences"
    if isinstance(notes, (str, bytes)) or not isinstance(notes, Iterable):
        raise SettingError("notes", notes, expected)
    found = tuple(notes)
    if not all(isinstance(note, str) for note in found):
        raise SettingError("notes", found, expected)
    return found


# The run -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingRun:
    """A private training run; made by :func:`training_run`, which derives what was left out.

    Attributes
    ----------
    mechanism : str
        "gaussian", "vmf", or "guarantee" where nothing but a guarantee is known, or is proven of
        the sampler.
    noise_multiplier : float or None
        Standard deviation of the noise over the clipping norm; None without Gaussian noise. Of
        several phases, the least.
    concentration : float or None
        Concentration of von Mises-Fisher noise; None under Gaussian noise.
    sampling_rate : float
        Probability that a record takes part in a step; of several phases, the largest.
    steps : int
        Number of releases, of all phases.
    max_grad_norm : float
        Clipping norm of a record's gradient.
    parameters : int or None
        Number of released coordinates.
    layers : int
        Number of parts of the gradient that are clipped to ``max_grad_norm`` separately.
    batch_size, dataset_size : int or None
    epochs : float or None
    delta : float
        The delta at which epsilon is reported.
    notes : tuple of str
        Remarks for the report, on how the run was described.
    phases : tuple of DPSGD
        If noise or sampling rate change during training: what the report composes. Else empty.
    group_size : int
        Records that are protected together, such as those of one person.
    guarantee : Guarantee or None
        Where nothing else is known of the mechanism, or is proven of the sampler.
    sampler : str
        How batches are drawn; without meaning where nothing but a guarantee is known.
    adjacency : str or None
        What answers on membership compare: a run with the record and one with no record, a record
        of gradient zero, or any other in its place. None where only a guarantee's words say it.
    """

    mechanism: str
    noise_multiplier: float | None
    concentration: float | None
    sampling_rate: float
    steps: int
    max_grad_norm: float
    parameters: int | None
    layers: int
    batch_size: int | None
    dataset_size: int | None
    epochs: float | None
    delta: float
    notes: tuple[str, ...] = ()
    phases: tuple[DPSGD, ...] = ()
    group_size: int = 1
    guarantee: Guarantee | None = None
    sampler: str = "poisson"
    adjacency: str | None = "add-remove"

    def __post_init__(self) -> None:
        if self.dataset_size is not None and self.group_size > self.dataset_size:
            raise SettingError(
                "group_size", self.group_size, f"at most dataset_size, {self.dataset_size}"
            )

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        return self.mechanism == "gaussian"

    @property
    def guarantee_of_noise(self) -> bool:
        """Whether the guarantee is what is proven of noise that is known, by a sampler's name."""
        return isinstance(self.guarantee, Releases) and self.guarantee.sampled

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of a step's sum to one record, or group of them, in clipping norms."""
        return math.sqrt(self.layers) * self.group_size

    @cached_property
    def effective_noise(self) -> float:
        """Noise multiplier with respect to the whole gradient: divided by the sensitivity.

        Of several phases, that of as many equal full-batch steps that say as much.
        """
        if self.noise_multiplier is None:
            raise SettingError("noise_multiplier", None, "given: this needs Gaussian noise")
        noise = equivalent_noise(self.phases) if self.phases else self.noise_multiplier
        return noise / self.sensitivity

    @property
    def dpsgd(self) -> DPSGD:
        """The run as the privacy accountant sees it; one phase of Gaussian noise only."""
        if self.phases:
            raise SettingError("phases", None, "one phase: this has no form for several")
        self._need_poisson()
        return DPSGD(self.effective_noise, self.sampling_rate, self.steps, self.max_grad_norm)

    def _need_poisson(self) -> None:
        # the same noise and rate mean less privacy with other batches
        if self.sampler != "poisson":
            raise SettingError("sampler", self.sampler, "'poisson': this has no form for others")

    @cached_property
    def releases(self) -> DPSGD | tuple[DPSGD | Group, ...] | SampledRun:
        """What composes, as :func:`reconrisk.privacy.epsilon` takes it; Gaussian noise only."""
        if self.sampler != "poisson":
            rate, passes = self.sampling_rate, self.epochs
            return _sampled_run(self.effective_noise, rate, self.steps, passes, self.sampler)
        if not self.phases and (self.group_size == 1 or self.sampling_rate == 1.0):
            return self.dpsgd
        if self.group_size == 1:
            return self.each_phase
        return tuple(Group(phase, self.group_size) for phase in self.each_phase)

    @cached_property
    def of_membership(self) -> Guarantee | None:
        """What is known of membership under the adjacency; None where the releases say it.

        Naming, attributes and reconstruction need a reference that does not depend on the record:
        for them a record of gradient zero is one, whatever the adjacency.
        """
        if self.guarantee_of_noise:
            assert isinstance(self.releases, SampledRun)
            if self.sampler != "fixed" or self.adjacency == "zero-out":
                return self.guarantee
            return Releases(replace(self.releases, adjacency=self.adjacency or "zero-out"))
        if self.guarantee is not None or self.adjacency != "replace":
            return self.guarantee
        one = self.dpsgd
        replaced = SampledRun(
            float(one.noise_multiplier),
            float(one.sampling_rate),
            int(one.steps),
            "poisson",
            "replace",
        )
        return Releases(replaced, "what is known of a run where any record may be replaced")

    @cached_property
    def as_told(self) -> TrainingRun:
        """The run as it looks to an attacker who is told which steps took the record.

        Fixed batches take a record as often as Poisson samples do, the others once an epoch, and in
        an epoch that is not finished with the share of its batches.
        """
        if not self.guarantee_of_noise:
            return self
        rate, steps = self.sampling_rate, self.steps
        if self.sampler in _BY_EPOCHS:
            assert isinstance(self.releases, SampledRun)
            rate, steps = min(1.0, self.steps / self.releases.batches), self.releases.epochs
        plain = {"mechanism": "gaussian", "guarantee": None, "sampler": "poisson"}
        return replace(self, sampling_rate=rate, steps=steps, **plain)  # type: ignore[arg-type]

    @cached_property
    def each_phase(self) -> tuple[DPSGD, ...]:
        """The phases, or the one, with noise multipliers for one record's whole gradient."""
        self._need_poisson()
        assert self.noise_multiplier is not None
        parts = math.sqrt(self.layers)
        phases = self.phases or (DPSGD(self.noise_multiplier, self.sampling_rate, self.steps),)
        return tuple(replace(p, noise_multiplier=float(p.noise_multiplier) / parts) for p in phases)

    def with_noise(self, noise_multiplier: float) -> TrainingRun:
        """Return the run with another noise multiplier, those of all phases in proportion."""
        self._need_poisson()
        assert self.noise_multiplier is not None
        scale = noise_multiplier / self.noise_multiplier
        return replace(
            self,
            noise_multiplier=noise_multiplier,
            phases=tuple(
                replace(p, noise_multiplier=float(p.noise_multiplier) * scale) for p in self.phases
            ),
        )

    def as_dict(self) -> dict[str, object]:
        """Return the fields as JSON values; of a guarantee, its words."""
        plain = asdict(replace(self, guarantee=None))
        plain["notes"] = list(self.notes)
        plain["phases"] = [
            {name: getattr(p, name) for name in ("noise_multiplier", "sampling_rate", "steps")}
            for p in self.phases
        ]
        plain["guarantee"] = None if self.guarantee is None else self.guarantee.description
        if self.guarantee is not None and not self.guarantee_of_noise:
            plain["sampler"] = None
            plain["adjacency"] = None
        plain["correlation"] = None
        return plain


@name_unknown
def training_run(
    *,
    noise_multiplier: float | None = None,
    concentration: float | None = None,
    mechanism: str | None = None,
    sampling_rate: float | None = None,
    batch_size: int | None = None,
    dataset_size: int | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    max_grad_norm: float = 1.0,
    parameters: int | None = None,
    layers: int = 1,
    delta: float = 1e-5,
    group_size: int = 1,
    sampler: str = "poisson",
    adjacency: str | None = None,
    phases: Iterable[Mapping[str, float] | DPSGD] | None = None,
    notes: Iterable[str] = (),
) -> TrainingRun:
    """Describe a run of DP-SGD, or of its variant with von Mises-Fisher noise.

    Parameters
    ----------
    noise_multiplier : float, optional
        ``sigma`` in [1e-6, 1e6], of Gaussian noise.
    concentration : float, optional
        In [1e-6, 1e5], of von Mises-Fisher noise. Give either this or ``noise_multiplier``.
    mechanism : {"gaussian", "vmf"}, optional
        By default derived from which of the two is given.
    sampling_rate : float, optional
        q in [1e-9, 1]. By default ``batch_size/dataset_size``; one of the two must be given, or
        both if they agree to six digits. 1 is the full batch.
    batch_size, dataset_size : int, optional
        Expected size of a batch and number of records: ``q = batch_size/dataset_size``.
    steps : int, optional
        T in [1, 1e9]. By default derived from ``epochs``; one of the two must be given.
    epochs : float, optional
        Passes over the data: an epoch has ``ceil(1/q)`` steps, as of a loader that makes a smaller
        batch of what is left, of Opacus and of :func:`~reconrisk.training.train_mini_batches`.
        Give ``steps`` where a loop takes others.
    max_grad_norm : float
        Clipping norm C in [1e-9, 1e9].
    parameters : int, optional
        Released coordinates p in [1, 1e9]; required, and at least 2, for von Mises-Fisher noise.
    layers : int
        In [1, 1e6]: parts of the gradient that are clipped to C separately, so that the sum has L2
        sensitivity ``C sqrt(layers)``.
    delta : float
        In [1e-100, 1), at which epsilon is reported.
    group_size : int
        In [1, 10000]: records that are protected together, those of one person, say.
    sampler : {"poisson", "fixed", "random-allocation", "shuffle", "cyclic"}
        How batches are drawn, as in :class:`~reconrisk.privacy.SampledRun`. With other batches
        than Poisson's the report answers what follows from the trade-off curve, and from the steps
        that take a record: one Gaussian phase, single records. An epoch of
        "random-allocation", "shuffle" and "cyclic" has ``floor(1/q)`` batches; with ``epochs`` the
        run has so many whole epochs, with ``steps`` alone all epochs that so many steps begin.
    adjacency : {"add-remove", "zero-out", "replace"}, optional
        What the neighbouring data set has in the record's place: no record, one of gradient zero,
        or any other. Matters for membership and epsilon alone. By default "add-remove", which
        assumes that neither the sampling rate nor the divisor of a step's sum depends on the number
        of records; "zero-out" for "shuffle" and "cyclic", where removing a record moves others to
        other batches, and nothing better than that is proven. "replace" is for "poisson" (one
        Gaussian phase, single records; exact) and "fixed".
    phases : iterable of mapping or DPSGD, optional
        If noise, sampling rate or batch size change during training: for each phase its own
        ``noise_multiplier``, ``sampling_rate`` or ``batch_size``, and ``steps`` or ``epochs``. What
        a phase leaves out is what is given for all. Phases compose by their own losses, in any
        order. A DPSGD also has a clipping norm, which must be the same in all. The noisy count of
        adaptive clipping is no phase, as it is released of the same batch as the gradient: both
        equal one release with noise multiplier ``1/sqrt(1/sigma**2 + 1/sigma_count**2)``.
    notes : iterable of str
        Remarks for the report, as :func:`from_opacus` adds them.

    Returns
    -------
    TrainingRun

    Raises
    ------
    SettingError
        If a value has the wrong type or is out of its range, two of them contradict each other, or
        the noise, the sampling rate or the number of steps is missing.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.training_run(
    ...     noise_multiplier=1.1, batch_size=256, dataset_size=60_000, epochs=15
    ... )
    >>> run.steps
    3525

    The learning rate falls after ten epochs, and the noise too:

    >>> run = risk.training_run(
    ...     batch_size=256,
    ...     dataset_size=60_000,
    ...     phases=[
    ...         {"noise_multiplier": 1.3, "epochs": 10},
    ...         {"noise_multiplier": 0.9, "epochs": 5},
    ...     ],
    ... )
    >>> print(run.notes[0])
    2 phases: sigma 1.3, q 0.00426667, 2,350 steps; sigma 0.9, q 0.00426667, 1,175 steps.
    """
    if phases is not None:
        if sampler != "poisson":
            raise SettingError("sampler", sampler, "'poisson' for several phases")
        everywhere = {
            "noise_multiplier": noise_multiplier, "sampling_rate": sampling_rate,
            "batch_size": batch_size, "dataset_size": dataset_size, "steps": steps,
            "epochs": epochs,
        }  # fmt: skip
        if concentration is not None or mechanism not in (None, "gaussian"):
            raise SettingError("mechanism", "vmf", "'gaussian' for several phases")
        if isinstance(phases, Iterable) and not isinstance(phases, (str, bytes, Mapping)):
            phases = list(phases)
        max_grad_norm = _clipping_norm(phases, max_grad_norm)
        return phased_run(
            _phases_of(phases, everywhere),
            batch_size=batch_size,
            dataset_size=dataset_size,
            max_grad_norm=max_grad_norm,
            parameters=parameters,
            layers=layers,
            delta=delta,
            group_size=group_size,
            adjacency=adjacency,
            notes=notes,
        )
    noise, kappa, name = _mechanism(noise_multiplier, concentration, mechanism)
    batch = None if batch_size is None else whole("batch_size", batch_size, 1, 1e12)
    size = None if dataset_size is None else whole("dataset_size", dataset_size, 1, 1e12)
    rate = _sampling_rate(sampling_rate, batch, size)
    passes = None if epochs is None else number("epochs", epochs, 0, 1e9, low_open=True)
    p = None if parameters is None else whole("parameters", parameters, 1, 1e9)
    if name == "vmf" and (p is None or p < 2):
        raise SettingError(
            "parameters", parameters, "the number of coordinates, from 2 on, for mechanism 'vmf'"
        )
    parts = whole("layers", layers, 1, 1e6)
    if parts > 1 and name == "vmf":
        raise SettingError("layers", layers, "1 for mechanism 'vmf', which perturbs one direction")
    together = whole("group_size", group_size, 1, 1e4)
    if together > 1 and name == "vmf":
        raise SettingError("group_size", group_size, "1 for mechanism 'vmf'")
    if not isinstance(sampler, str) or sampler not in SAMPLERS:
        raise SettingError("sampler", sampler, f"one of {', '.join(SAMPLERS)}")
    if sampler != "poisson" and (name == "vmf" or together > 1):
        raise SettingError("sampler", sampler, "'poisson' for vmf noise and for groups")
    one = name == "gaussian" and together == 1
    run = TrainingRun(
        mechanism=name,
        noise_multiplier=noise,
        concentration=kappa,
        sampling_rate=rate,
        steps=_steps(steps, passes, rate, sampler),
        max_grad_norm=number("max_grad_norm", max_grad_norm, 1e-9, 1e9),
        parameters=p,
        layers=parts,
        batch_size=batch,
        dataset_size=size,
        epochs=passes,
        delta=number("delta", delta, 1e-100, 1, high_open=True),
        notes=remarks(notes),
        group_size=together,
        sampler=sampler,
        adjacency=_adjacency(adjacency, sampler, one=one),
    )
    if run.adjacency == "replace":
        _check_composed(run)
    return run if sampler == "poisson" else _otherwise_sampled(run)


def _adjacency(given: object, sampler: str, *, one: bool) -> str:
    """Return the adjacency, by default the first that is proven; ``one``: of single records."""
    allowed = _ADJACENCIES[sampler]
    if given is None:
        return allowed[0]
    if not one:
        allowed = allowed[:2]
    if not isinstance(given, str) or given not in allowed:
        words = " or ".join(allowed) + f" for sampler {sampler!r}"
        raise SettingError("adjacency", given, words if one else f"{words}, groups and vmf noise")
    return given


def _check_composed(run: TrainingRun) -> float:
    """Return the noise multiplier, which must be one that other samplers are composed with."""
    least = LEAST_SAMPLED_NOISE * run.sensitivity
    return number("noise_multiplier", run.noise_multiplier, least, MOST_NOISE)


def _otherwise_sampled(run: TrainingRun) -> TrainingRun:
    """Return a run whose batches are no Poisson samples: what its trade-off curve says."""
    sigma = _check_composed(run)
    found = run.releases
    assert isinstance(found, SampledRun)
    length = f"{run.steps:,} steps"
    if run.sampler in _BY_EPOCHS:
        length += f", {found.epochs:,} epochs"
    words = (
        f"what is proven of a run with sampler {run.sampler} (sigma {sigma:g}, "
        f"q {run.sampling_rate:g}, {length})"
    )
    return replace(
        run,
        mechanism="guarantee",
        notes=(found.drawing, *run.notes),
        guarantee=Releases(found, words),
    )


def _sampled_run(
    noise: float, rate: float, steps: int, epochs: float | None, sampler: str
) -> SampledRun:
    """Return a run as the accountant of samplers sees it: given epochs decide on its length.

    An epoch has a whole number of batches, so that ``epochs/q`` steps begin one epoch too many.
    """
    run = SampledRun(noise, rate, steps, sampler)
    if epochs is None or sampler not in _BY_EPOCHS:
        return run
    return replace(run, steps=_of_epochs(epochs * run.batches))


def _of_epochs(steps: float) -> int:
    return max(1, math.ceil(steps * (1.0 - 1e-12)))


def _clipping_norm(phases: object, everywhere: float) -> float:
    """Return the one clipping norm of phases, of which the report has one."""
    everywhere = number("max_grad_norm", everywhere, 1e-9, 1e9)
    given = phases if isinstance(phases, list) else []
    norms = [float(phase.max_grad_norm) for phase in given if isinstance(phase, DPSGD)]
    if everywhere != 1.0:  # a norm of one may be a default, here or there
        norms = [everywhere, *(norm for norm in norms if norm != 1.0)]
    for norm in norms:
        if norm != norms[0]:
            raise SettingError(
                "phases max_grad_norm", norm,
                f"the same in all phases, {norms[0]:g} (noise multipliers are relative to it, so "
                "that epsilon does not depend on it)",
            )  # fmt: skip
    return norms[0] if norms else everywhere


def _phases_of(phases: object, everywhere: Mapping[str, object]) -> list[tuple[float, float, int]]:
    """Return phases as (noise multiplier, sampling rate, steps)."""
    expected = "a list of phases, each with fields such as noise_multiplier and steps"
    if isinstance(phases, (str, bytes, Mapping)) or not isinstance(phases, Iterable):
        raise SettingError("phases", phases, expected)
    found = []
    for i, phase in enumerate(phases):
        if isinstance(phase, DPSGD):
            phase = {
                name: getattr(phase, name)
                for name in ("noise_multiplier", "sampling_rate", "steps")
            }
        if not isinstance(phase, Mapping):
            raise SettingError(f"phases[{i}]", phase, "a mapping of fields, or a DPSGD")
        unknown = sorted(set(map(str, phase)) - set(PHASE_FIELDS))
        if unknown:
            raise SettingError(
                f"phases[{i}] {unknown[0]}",
                phase[unknown[0]],
                f"left out: a phase has {', '.join(PHASE_FIELDS)}",
            )
        fields = {**everywhere, **phase}
        # a phase's own value of one quantity comes before another for all phases
        for own, other in (("sampling_rate", "batch_size"), ("steps", "epochs")):
            for one, two in ((own, other), (other, own)):
                if one in phase and two not in phase:
                    fields[two] = None
        if "sampling_rate" in phase and "dataset_size" not in phase:
            fields["dataset_size"] = None
        try:
            run = training_run(**fields)  # type: ignore[arg-type]
        except SettingError as error:
            raise SettingError(f"phases[{i}] {error.field}", error.value, error.expected) from None
        assert run.noise_multiplier is not None
        found.append((run.noise_multiplier, run.sampling_rate, run.steps))
    if not found:
        raise SettingError("phases", phases, expected)
    return found


def phased_run(phases: Iterable[tuple[float, float, int]], **settings: Any) -> TrainingRun:
    """Describe a run of phases (noise multiplier, sampling rate, steps).

    Parameters
    ----------
    phases : iterable of (float, float, int)
    **settings
        As :func:`training_run` takes them.
    """
    known = merge_equal_phases(phases)
    one = one_run(known)
    sampler = settings.get("sampler", "poisson")
    if one is None and sampler != "poisson":
        raise SettingError("sampler", sampler, "'poisson' for several phases")
    if one is None and settings.get("adjacency") == "replace":
        raise SettingError("adjacency", "replace", "add-remove or zero-out for several phases")
    notes = remarks(settings.pop("notes", ()))
    if len(known) > 1:
        notes = (f"{len(known):,} phases: {describe_phases(known)}.", *notes)
    batch = settings.pop("batch_size", None)
    run = training_run(
        noise_multiplier=min(p.noise_multiplier for p in known)
        if one is None
        else one.noise_multiplier,
        sampling_rate=max(p.sampling_rate for p in known),
        steps=sum(p.steps for p in known),
        notes=notes,
        **settings,
    )
    batch = None if batch is None else whole("batch_size", batch, 1, 1e12)
    return replace(run, phases=known if one is None else (), batch_size=batch)


def _mechanism(
    noise: object, concentration: object, mechanism: object
) -> tuple[float | None, float | None, str]:
    if mechanism is not None and mechanism not in MECHANISMS:
        raise SettingError("mechanism", mechanism, "'gaussian' or 'vmf'")
    if noise is not None and concentration is not None:
        raise SettingError(
            "concentration", concentration, "left out where noise_multiplier is given"
        )
    if noise is None and concentration is None:
        field = "concentration" if mechanism == "vmf" else "noise_multiplier"
        raise SettingError(field, None, "given: a report needs the noise")
    name = "vmf" if noise is None else "gaussian"
    if mechanism is not None and mechanism != name:
        wanted = "concentration" if mechanism == "vmf" else "noise_multiplier"
        raise SettingError("mechanism", mechanism, f"{name!r}, or its noise given by {wanted}")
    if name == "gaussian":
        return number("noise_multiplier", noise, LEAST_NOISE, MOST_NOISE), None, name
    return None, number("concentration", concentration, LEAST_NOISE, MOST_CONCENTRATION), name


def _sampling_rate(rate: object, batch: int | None, size: int | None) -> float:
    given = None if rate is None else number("sampling_rate", rate, 1e-9, 1)
    if batch is not None and size is not None:
        if batch > size:
            raise SettingError("batch_size", batch, f"at most dataset_size, {size}")
        share = batch / size
        if share < 1e-9:
            raise SettingError("batch_size", batch, f"at least 1e-9 of dataset_size, {size}")
        if given is not None and not math.isclose(given, share, rel_tol=_SIX_DIGITS):
            raise SettingError(
                "sampling_rate", rate, f"batch_size/dataset_size = {share:g}, or left out"
            )
        return share
    if batch is not None and given is None:
        raise SettingError("dataset_size", None, "given with batch_size, or a sampling_rate")
    if given is None:
        raise SettingError(
            "sampling_rate", None, "given: what share of the records does a step take? (1: all of "
            "them; batch_size and dataset_size say it as well)",
        )  # fmt: skip
    return given


def _steps(steps: object, epochs: float | None, rate: float, sampler: str) -> int:
    given = None if steps is None else whole("steps", steps, 1, 1e9)
    if epochs is None:
        if given is None:
            raise SettingError(
                "steps", None, "given: how many steps, or epochs, did training take? (1: a single "
                "release)",
            )  # fmt: skip
        return given
    # loaders drop what does not fill a batch, or make a smaller one of it
    least = epochs * math.floor(1.0 / rate * (1.0 + 1e-12))
    most = epochs * math.ceil(1.0 / rate * (1.0 - 1e-12))
    if most > 1e9:
        raise SettingError("epochs", epochs, f"at most {1e9 * rate:g} at this sampling rate")
    if given is None:
        return _of_epochs(least if sampler in _BY_EPOCHS else most)
    if not least - 1.0 < given < most + 1.0:
        raise SettingError("steps", steps, f"epochs/sampling_rate = {epochs / rate:g}, or left out")
    return given


def run_of(run: TrainingRun | DPSGD) -> TrainingRun:
    """Return a run as a TrainingRun, converted from DPSGD if need be."""
    if isinstance(run, TrainingRun):
        return run
    if isinstance(run, DPSGD):
        return training_run(
            noise_multiplier=run.noise_multiplier,
            sampling_rate=run.sampling_rate,
            steps=run.steps,
            max_grad_norm=run.max_grad_norm,
        )
    raise SettingError("run", run, "a TrainingRun or a DPSGD")


# The records -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Known properties of the records; made by :func:`record`. None where unknown.

    Of a sample ``data_norm`` is the smallest norm, whose record is the easiest to reconstruct,
    ``norms`` are the smallest, median and largest, and ``contrast`` is the largest. Without a
    contrast correlations are reported at contrast one, which bounds them for every record. Of a
    ``picture`` the report says how it would look, of others how far their values are off.
    """

    dimension: int | None = None
    data_range: float | None = None
    data_norm: float | None = None
    contrast: float | None = None
    norms: tuple[float, float, float] | None = None
    picture: bool = False


def record(
    *,
    dimension: int | None = None,
    data_range: float | None = None,
    data_norm: float | None = None,
    contrast: float | None = None,
    sample: ArrayLike | None = None,
    picture: bool = False,
) -> Record:
    """Describe the records; entries that need a property left out are not applicable.

    Parameters
    ----------
    dimension : int, optional
        N in [1, 1e9], number of values of a record.
    data_range : float, optional
        Largest minus smallest value a record may have, in [1e-9, 1e12], data units.
    data_norm : float, optional
        Euclidean norm of a record, in [1e-9, 1e12], data units.
    contrast : float, optional
        ``|x - mean(x)|/|x|``, in [0, 1].
    sample : array_like, shape (n, ...), optional
        Records of the training set, from which dimension, norms and contrast are computed. No
        record may be zero.
    picture : bool
        Whether a record is a picture.

    Returns
    -------
    Record

    Raises
    ------
    SettingError
        If a value is out of its range or contradicts the sample.

    Examples
    --------
    >>> from reconrisk import risk
    >>> risk.record(sample=[[0.0, 3.0], [4.0, 3.0]]).norms
    (3.0, 4.0, 5.0)
    """
    n = None if dimension is None else whole("dimension", dimension, 1, 1e9)
    span = None if data_range is None else number("data_range", data_range, 1e-9, 1e12)
    norm = None if data_norm is None else number("data_norm", data_norm, 1e-9, 1e12)
    share = None if contrast is None else number("contrast", contrast, 0, 1)
    if not isinstance(picture, bool):
        raise SettingError("picture", picture, "true or false")
    if sample is None:
        return Record(n, span, norm, share, picture=picture)
    if norm is not None:
        raise SettingError("data_norm", data_norm, "left out where a sample is given")
    rows = _sample(sample)
    if n is not None and n != rows.shape[1]:
        raise SettingError("dimension", dimension, f"that of the sample, {rows.shape[1]}")
    spread = float(rows.max() - rows.min())
    if span is not None and spread > span * (1.0 + 1e-6):
        raise SettingError("data_range", data_range, f"at least that of the sample, {spread:g}")
    lengths = np.linalg.norm(rows, axis=1)
    if lengths.min() < 1e-9:
        where = int(lengths.argmin())
        raise SettingError("sample", lengths[where], f"of no norm zero; that of record {where} is")
    norms = tuple(
        number("sample", float(v), 1e-9, 1e12)
        for v in (lengths.min(), np.median(lengths), lengths.max())
    )
    if share is None:
        # a constant record has no correlation
        share = max((contrast_of(r) for r in rows if np.ptp(r) > 0), default=0.0)
    three = (norms[0], norms[1], norms[2])
    return Record(int(rows.shape[1]), span, norms[0], share, three, picture)


def _sample(sample: ArrayLike) -> np.ndarray:
    expected = "an array of finite numbers of shape (records, ...)"
    try:
        rows = np.asarray(sample, dtype=float)
    except (TypeError, ValueError):
        raise SettingError("sample", type(sample).__name__, expected) from None
    if rows.ndim < 2 or rows.size == 0 or not np.all(np.isfinite(rows)):
        raise SettingError("sample", f"shape {rows.shape}", expected)
    return rows.reshape(rows.shape[0], -1)


# The questions -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Questions:
    """The values at which a report answers, as tuples; made by :func:`questions`."""

    false_positive_rates: tuple[float, ...] = (1e-3, 1e-2, 1e-1)
    prior_sizes: tuple[int, ...] = (10, 1000, 1_000_000)
    log_priors: tuple[float, ...] = ()
    mse: tuple[float, ...] | None = None
    psnr: tuple[float, ...] = (20.0,)
    ncc: tuple[float, ...] = (0.5,)
    pixel_shares: tuple[float, ...] = (0.9,)


def questions(
    *,
    false_positive_rates: Iterable[float] = Questions.false_positive_rates,
    prior_sizes: Iterable[int] = Questions.prior_sizes,
    log_priors: Iterable[float] = Questions.log_priors,
    mse: Iterable[float] | None = None,
    psnr: Iterable[float] = Questions.psnr,
    ncc: Iterable[float] = Questions.ncc,
    pixel_shares: Iterable[float] = Questions.pixel_shares,
) -> Questions:
    """Choose the values at which a report answers.

    Parameters
    ----------
    false_positive_rates : iterable of float
        Of membership tests, in [1e-100, 1).
    prior_sizes : iterable of int
        Numbers of equally likely candidates, whole, in [2, 1e300]; ``kappa = 1/n``.
    log_priors : iterable of float
        Natural logarithms of further prior successes, in [-1e6, 0): ``-4260`` for 1e-1850.
    mse : iterable of float, optional
        Thresholds of success in [1e-30, 1e30], squared data units; by default a hundredth of the
        squared data range.
    psnr, ncc : iterable of float
        Thresholds of success in [-300, 300] dB, and in [-1, 1].
    pixel_shares : iterable of float
        Shares, in (0, 1], of the values that must be within an eighth of the range.

    Returns
    -------
    Questions

    Raises
    ------
    SettingError
        If a value is out of its range, or a question has more than a hundred.
    """
    return Questions(
        _numbers("false_positive_rates", false_positive_rates, 1e-100, 1, high_open=True),
        _wholes("prior_sizes", prior_sizes, 2, 1e300),
        _numbers("log_priors", log_priors, -1e6, 0, high_open=True),
        None if mse is None else _numbers("mse", mse, 1e-30, 1e30),
        _numbers("psnr", psnr, -300, 300),
        _numbers("ncc", ncc, -1, 1),
        _numbers("pixel_shares", pixel_shares, 0, 1, low_open=True),
    )


# A model -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TwoLayerModel:
    """A two-layer network whose batch gradient is released; made by :func:`two_layer_model`."""

    width: int
    activation: str
    batch_size: int
    residual: float
    grad_norm: float | None
    singular_value: float
    condition: float
    dropout: float
    pruned: float
    information: GradientInformation | None = None
    inputs: tuple[tuple[float, ...], ...] | None = None


def two_layer_model(
    *,
    width: int,
    activation: str = "softplus",
    batch_size: int = 1,
    residual: float = 1.0,
    grad_norm: float | None = None,
    singular_value: float = 1.0,
    condition: float = 1.0,
    dropout: float = 0.0,
    pruned: float = 0.0,
    information: GradientInformation | None = None,
    inputs: ArrayLike | None = None,
) -> TwoLayerModel:
    """Describe a two-layer network as Liu et al. 2024 analyse it, for records of norm one.

    Parameters
    ----------
    width : int
        m in [1, 1e12].
    activation : str
        A name of ``reconrisk.special.ACTIVATIONS``.
    batch_size : int
        B in [1, 1e9], records in the released batch.
    residual : float
        Absolute value of the loss's derivative in the network's output, in [1e-9, 1e9].
    grad_norm : float, optional
        Norm of the batch gradient, in the units of the clipping norm, in [1e-9, 1e12]; by default
        it is taken to be shorter than that.
    singular_value : float
        Smallest of the matrix of records, in [1e-9, 1e9].
    condition : float
        Largest over smallest residual, in [1, 1e9].
    dropout, pruned : float
        Shares of neurons dropped, and of the derivatives' squared norm pruned, in [0, 1).
    information : GradientInformation, optional
        Fisher information of the network and its records, from
        :func:`reconrisk.bounds.gradient_information`, for the exact bound.
    inputs : array_like, shape (B, d), optional
        The records of ``information``.

    Returns
    -------
    TwoLayerModel

    Raises
    ------
    SettingError
        If a value is out of its range, or only one of ``information`` and ``inputs`` is given.
    """
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise SettingError("activation", activation, f"one of {', '.join(ACTIVATIONS)}")
    if (information is None) != (inputs is None):
        missing = "inputs" if inputs is None else "information"
        raise SettingError(missing, None, "given: information and inputs go together")
    if information is not None and not isinstance(information, GradientInformation):
        raise SettingError("information", information, "a GradientInformation")
    rows = None if inputs is None else tuple(tuple(map(float, r)) for r in _sample(inputs))
    norm = None if grad_norm is None else number("grad_norm", grad_norm, 1e-9, 1e12)
    return TwoLayerModel(
        whole("width", width, 1, 1e12),
        activation,
        whole("batch_size", batch_size, 1, 1e9) if rows is None else len(rows),
        number("residual", residual, 1e-9, 1e9),
        norm,
        number("singular_value", singular_value, 1e-9, 1e9),
        number("condition", condition, 1, 1e9),
        number("dropout", dropout, 0, 1, high_open=True),
        number("pruned", pruned, 0, 1, high_open=True),
        information,
        rows,
    )
