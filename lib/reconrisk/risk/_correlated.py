"""A run whose noise is correlated between steps: DP-FTRL and its kin."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from reconrisk.privacy import MatrixMechanism, square_root_encoder, tree_encoder
from reconrisk.risk._settings import (
    SettingError,
    TrainingRun,
    number,
    reject_unknown,
    training_run,
    whole,
)

__all__ = [
    "ENCODERS",
    "ORDERS",
    "CorrelatedRun",
    "correlated_run",
    "from_matrix_mechanism",
    "given_noise",
]

ENCODERS = ("tree", "square-root")
#: how the order of the records in one epoch is related to that in another
ORDERS = ("any", "same")
#: most steps whose encoder is built: a matrix of as many rows and columns
_MOST_STEPS = 5000


@dataclass(frozen=True)
class CorrelatedRun(TrainingRun):
    """A run with correlated noise, described by the run of DP-SGD that says as much.

    Attributes
    ----------
    length : float
        How far a record moves what is released, over the clipping norm. The noise multiplier of the
        mechanism, as it was given, is ``noise_multiplier * length``.
    words : str
        What is known of it, for the first of the notes.
    """

    length: float = 1.0
    words: str = ""

    def with_noise(self, noise_multiplier: float) -> CorrelatedRun:
        """Return the run with another noise multiplier, as that of DP-SGD."""
        own = _note(self.words, noise_multiplier * self.length)
        return replace(self, noise_multiplier=noise_multiplier, notes=(own, *self.notes[1:]))

    def as_dict(self) -> dict[str, object]:
        """Return the fields of a :class:`TrainingRun` as JSON values, and the noise as given."""
        plain = super().as_dict()
        plain["correlation"] = {
            "noise_multiplier": given_noise(self),
            "sensitivity": self.length,
        }
        return {name: plain[name] for name in plain if name not in ("length", "words")}


def given_noise(run: TrainingRun) -> float | None:
    """Return the noise multiplier as it is given to describe a run: of correlated noise its own."""
    if isinstance(run, CorrelatedRun) and run.noise_multiplier is not None:
        return run.noise_multiplier * run.length
    return run.noise_multiplier


def _note(words: str, noise_multiplier: float) -> str:
    return (
        f"Noise correlated between {words}. The noise multiplier is {noise_multiplier:g} before "
        "the noise is decoded; the other settings are those of the run of DP-SGD that says as much."
    )


def from_matrix_mechanism(
    mechanism: MatrixMechanism,
    *,
    sampling_rate: float | None = None,
    order: str = "any",
    **settings: Any,
) -> TrainingRun:
    """Describe a run with correlated noise by the one Gaussian release that says as much.

    Parameters
    ----------
    mechanism : MatrixMechanism
    sampling_rate : float, optional
        With which a record of a part is in the batch, if batches are drawn in secret as
        :meth:`~reconrisk.privacy.MatrixMechanism.amplified` says; then the report is an upper
        bound. The parts are as many as the encoder has bands, so that batches of b of n records
        have the rate ``bands*b/n``. Not for a mechanism with a ``period``.
    order : {"any", "same"}
        In both, the attacker may know the order of the records, and each takes part in at most one
        step of each ``period`` of the mechanism. "any": in any one, as if the data were shuffled
        anew for every epoch; from three epochs on the report may be an upper bound. "same": in the
        same one in each epoch, a smaller risk.
    **settings
        ``max_grad_norm``, ``parameters``, ``delta``, ``dataset_size``, ``notes``, as
        :func:`training_run` takes them.

    Returns
    -------
    TrainingRun

    Raises
    ------
    SettingError
        If a setting is unknown or out of its range.

    Examples
    --------
    >>> from reconrisk import risk
    >>> from reconrisk.privacy import MatrixMechanism, square_root_encoder
    >>> run = risk.from_matrix_mechanism(MatrixMechanism(square_root_encoder(256), 2.0))
    >>> round(risk.assess(run)["rero[prior_size=10]"].value, 3)
    0.33

    Data that are shuffled for every epoch, and data in a fixed order:

    >>> mechanism = MatrixMechanism(square_root_encoder(256), 2.0, period=64)
    >>> for order in ("any", "same"):
    ...     run = risk.from_matrix_mechanism(mechanism, order=order)
    ...     print(order, round(risk.assess(run)["rero[prior_size=10]"].value, 2))
    any 0.86
    same 0.79
    """
    if not isinstance(mechanism, MatrixMechanism):
        raise SettingError("mechanism", mechanism, "a MatrixMechanism")
    named = ("max_grad_norm", "parameters", "delta", "dataset_size", "notes")
    reject_unknown(settings, named, "beside correlated noise, which the mechanism describes")
    if order not in ORDERS:
        raise SettingError("correlation order", order, f"one of {', '.join(ORDERS)}")
    sigma = float(mechanism.noise_multiplier)
    if sampling_rate is None:
        rate, rounds = 1.0, 1
        length = mechanism.sensitivity_in_any_order if order == "any" else mechanism.sensitivity
        how = _in_order(mechanism, order)
    else:
        if mechanism.period is not None:
            raise SettingError(
                "correlation period",
                mechanism.period,
                "left out with a sampling_rate: a record may be in every batch of its part",
            )
        if order != "any":
            raise SettingError("correlation order", order, "left out with a sampling_rate")
        one = mechanism.amplified(number("sampling_rate", sampling_rate, 1e-9, 1))
        rate, rounds = float(one.sampling_rate), int(one.steps)
        length = sigma / float(one.noise_multiplier)
        how = (
            f"batches drawn in secret: step i takes each record of part i modulo {mechanism.bands} "
            f"with probability {rate:g}, and so {rate / mechanism.bands:.3g} of all records on "
            "average"
        )
    words = f"{mechanism.steps:,} steps, sensitivity {length:.4g}; {how}"
    settings["notes"] = (_note(words, sigma), *settings.get("notes", ()))
    run = training_run(
        noise_multiplier=sigma / length,
        sampling_rate=rate,
        steps=rounds,
        adjacency="zero-out",
        **settings,
    )
    return CorrelatedRun(
        **{field.name: getattr(run, field.name) for field in fields(run)},
        length=length,
        words=words,
    )


def _in_order(mechanism: MatrixMechanism, order: str) -> str:
    """Say which steps a record takes part in, and what the attacker knows of that."""
    period = mechanism.period or mechanism.steps
    if period == mechanism.steps:
        return (
            "each record in at most one step of the whole run (one epoch; with more, give the "
            "period), in any order, known to the attacker"
        )
    steps = f"each record in at most one of every {period:,} steps"
    if order == "same":
        return f"{steps}, in every epoch in the same order, known to the attacker"
    bound = ", an upper bound" if mechanism.steps > 2 * period else ""
    return f"{steps}, in any order, new in every epoch and known to the attacker{bound}"


def correlated_run(
    encoder: str,
    *,
    noise_multiplier: float,
    steps: int,
    bands: int | None = None,
    period: int | None = None,
    sampling_rate: float | None = None,
    order: str = "any",
    **settings: Any,
) -> TrainingRun:
    """Describe a run with correlated noise by the name of its encoder.

    Parameters
    ----------
    encoder : {"tree", "square-root"}
        A binary tree's sums (DP-FTRL, Kairouz et al. 2021), or the square root of prefix sums
        (Fichtenberger et al. 2023), cut to its first ``bands`` if they are given.
    noise_multiplier : float
        Of the noise before it is decoded, over the clipping norm.
    steps : int
        In [1, 5000].
    bands : int, optional
        Of "square-root" only.
    period : int, optional
        Steps of an epoch, in each of which a record takes part once; by default ``steps``: the
        whole run is one epoch. To be given if there are more, or the risk is understated.
    sampling_rate : float, optional
        Of "square-root" only, with ``bands`` and without ``period``: the probability with which a
        record of the part whose turn it is, one of as many as there are bands, is in the batch.
        Batches of b of n records have the rate ``bands*b/n``, not ``b/n``.
    order : {"any", "same"}
        In which records come in each epoch, as :func:`from_matrix_mechanism` takes it.
    **settings
        As :func:`from_matrix_mechanism` takes them.

    Returns
    -------
    TrainingRun

    Raises
    ------
    SettingError
        If a value is missing, unknown or out of its range.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.correlated_run("tree", noise_multiplier=4.0, steps=100)
    >>> round(run.noise_multiplier, 3)
    1.512
    """
    sigma = number("noise_multiplier", noise_multiplier, 1e-6, 1e6)
    count = whole("steps", steps, 1, _MOST_STEPS)
    if encoder not in ENCODERS:
        raise SettingError("correlation encoder", encoder, f"one of {', '.join(ENCODERS)}")
    if encoder == "tree" and bands is not None:
        raise SettingError("correlation bands", bands, "left out for encoder 'tree'")
    if bands is not None:
        bands = whole("correlation bands", bands, 1, count)
    if period is not None:
        period = whole("correlation period", period, 1, count)
    matrix = tree_encoder(count) if encoder == "tree" else square_root_encoder(count, bands)
    if sampling_rate is not None and encoder == "tree":
        raise SettingError("sampling_rate", sampling_rate, "left out for encoder 'tree'")
    return from_matrix_mechanism(
        MatrixMechanism(matrix, sigma, period),
        sampling_rate=sampling_rate,
        order=order,
        **settings,
    )
