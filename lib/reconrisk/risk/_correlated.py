"""A run whose noise is correlated between steps: DP-FTRL and its kin."""

from __future__ import annotations

from typing import Any

from reconrisk.privacy import MatrixMechanism, square_root_encoder, tree_encoder
from reconrisk.risk._settings import (
    SettingError,
    TrainingRun,
    number,
    only,
    training_run,
    whole,
)

__all__ = ["ENCODERS", "correlated_run", "from_matrix_mechanism"]

ENCODERS = ("tree", "square-root")
#: most steps whose encoder is built: a matrix of as many rows and columns
_MOST_STEPS = 5000


def from_matrix_mechanism(
    mechanism: MatrixMechanism, *, sampling_rate: float | None = None, **settings: Any
) -> TrainingRun:
    """Describe a run with correlated noise by the one Gaussian release that says as much.

    Parameters
    ----------
    mechanism : MatrixMechanism
    sampling_rate : float, optional
        With which a record of a part is in the batch, if batches are drawn in secret as
        :meth:`~reconrisk.privacy.MatrixMechanism.amplified` says; then the report is an upper
        bound. Without it nothing is assumed of the order of the records.
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
    """
    if not isinstance(mechanism, MatrixMechanism):
        raise SettingError("mechanism", mechanism, "a MatrixMechanism")
    named = ("max_grad_norm", "parameters", "delta", "dataset_size", "notes")
    only(settings, named, "beside correlated noise, which the mechanism describes")
    if sampling_rate is None:
        one, how = mechanism.gaussian(), "batches in any order, known to the attacker"
    else:
        rate = number("sampling_rate", sampling_rate, 1e-9, 1)
        one, how = (
            mechanism.amplified(rate),
            f"batches drawn in secret from {mechanism.bands} parts",
        )
    note = (
        f"Noise correlated between {mechanism.steps:,} steps, multiplier "
        f"{mechanism.noise_multiplier:g}, sensitivity {mechanism.sensitivity:.4g}; {how}. The "
        "settings are those of the run of DP-SGD that says as much."
    )
    settings["notes"] = (note, *settings.get("notes", ()))
    return training_run(
        noise_multiplier=float(one.noise_multiplier),
        sampling_rate=float(one.sampling_rate),
        steps=int(one.steps),
        **settings,
    )


def correlated_run(
    encoder: str,
    *,
    noise_multiplier: float,
    steps: int,
    bands: int | None = None,
    period: int | None = None,
    sampling_rate: float | None = None,
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
        Steps of an epoch; by default ``steps``: each record once.
    sampling_rate : float, optional
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
        MatrixMechanism(matrix, sigma, period), sampling_rate=sampling_rate, **settings
    )
