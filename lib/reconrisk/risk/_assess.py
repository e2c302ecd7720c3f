"""The report: an entry of every kind for one setting."""

from __future__ import annotations

import numpy as np

import reconrisk
from reconrisk._types import DPSGD
from reconrisk.risk._catalogue import KINDS
from reconrisk.risk._composed import composed_numerically
from reconrisk.risk._kinds import Setting, compute_entry, setting_of
from reconrisk.risk._report import SCHEMA_VERSION, Report
from reconrisk.risk._settings import Questions, Record, TrainingRun, TwoLayerModel

__all__ = ["assess"]


@np.errstate(under="ignore")
def assess(
    run: TrainingRun | DPSGD,
    record: Record | None = None,
    questions: Questions | None = None,
    model: TwoLayerModel | None = None,
) -> Report:
    """Assess the reconstruction risk of a training run under every threat model.

    Parameters
    ----------
    run : TrainingRun or DPSGD
        From :func:`training_run`.
    record : Record, optional
        From :func:`record`. An entry that needs a property left out here is "not applicable" and
        names what is missing.
    questions : Questions, optional
        From :func:`questions`: candidates, thresholds, false positive rates.
    model : TwoLayerModel, optional
        From :func:`two_layer_model`, for the bounds on two-layer networks.

    Returns
    -------
    Report
        An entry for each kind of :data:`KINDS` and each value asked. An entry whose bound cannot be
        computed is "out of range" and gives the reason; the others are not affected.

    Raises
    ------
    SettingError
        If an argument has the wrong type.

    Notes
    -----
    Cost: tens to hundreds of milliseconds at usual settings, most of it for the best attack on
    sub-sampled runs. Deterministic.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.training_run(
    ...     noise_multiplier=2.0, sampling_rate=1.0, steps=4, parameters=1000
    ... )
    >>> report = risk.assess(run, risk.record(dimension=784, data_norm=9.0, data_range=1.0))
    >>> entry = report["rero[prior_size=10]"]
    >>> f"{entry.value:.4f}", entry.direction, entry.source.place
    ('0.3891', 'upper bound on success', 'Corollary 4')
    >>> f"{report['mse_shrunk'].value:.5f}"
    '0.10318'
    """
    setting = setting_of(run, record, questions, model)
    entries = tuple(
        compute_entry(kind, setting, point)
        for kind in KINDS.values()
        for point in kind.points(setting)
    )
    return Report(
        SCHEMA_VERSION,
        reconrisk.__version__,
        setting.run,
        setting.record,
        setting.questions,
        setting.model,
        entries,
        _notes(setting),
    )


def _notes(setting: Setting) -> tuple[str, ...]:
    run = setting.run
    notes = [
        *run.notes,
        "A bound holds for its attacker only: what is proved for one says nothing about a stronger "
        "one.",
        "Hyperparameters, data statistics and the choice of the run are taken as public; if it is "
        "the best of several on the same data, privacy.tuned_epsilon bounds what that adds.",
    ]
    if run.layers > 1:
        notes.append(
            f"A record moves the sum of a step by up to sqrt({run.layers}) clipping norms: for "
            f"membership and matching the noise multiplier counts as {run.effective_noise:g}."
        )
    if not composed_numerically(run):
        notes.append(
            "With so little noise, so little sampling or so many steps von Mises-Fisher noise is "
            "not composed numerically: epsilon and success are enclosed by closed forms, from far "
            "apart."
        )
    if setting.record.norms is not None:
        notes.append(
            "Errors are those of the sample's shortest record, the easiest to reconstruct; its "
            "median and longest norms are in the record."
        )
    if setting.record.contrast is None and setting.record.dimension is not None:
        notes.append("Correlations are those of a record of mean zero, the largest there are.")
    return tuple(notes)
