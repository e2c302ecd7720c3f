"""The training run that an Opacus accountant has recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconrisk.risk._phases import phase_of_history
from reconrisk.risk._settings import (
    SettingError,
    TrainingRun,
    phased_run,
    refuse_read,
    remarks,
)

__all__ = ["from_opacus"]


def from_opacus(source: Any, **settings: Any) -> TrainingRun:
    """Return the training run that Opacus has recorded so far.

    Parameters
    ----------
    source : PrivacyEngine, accountant, mapping or list
        An Opacus ``PrivacyEngine``; its accountant; what the accountant's ``state_dict()``
        returns; or its history, a list of ``(noise_multiplier, sample_rate, steps)``. Opacus is
        not imported, and the kind of accountant does not matter: epsilon is recomputed with
        certified bounds.
    **settings
        What the accountant does not hold, as :func:`training_run` takes it: ``max_grad_norm``,
        ``parameters``, ``delta``, ``dataset_size``, ``group_size``, ``sampler``, ``notes``, and
        ``adjacency``, which is "zero-out" (by default) or "replace".

    Returns
    -------
    TrainingRun
        All steps taken. If the noise or the sampling rate changed during training, its phases,
        which compose by their own losses; thousands of entries are grouped. The history does not
        distinguish Poisson sampling from shuffled batches; Poisson sampling is assumed unless
        ``sampler`` says otherwise, which needs one noise multiplier and one sampling rate.

        The report is for a number of records N that is public: Opacus samples with the rate
        ``1/len(loader)`` and divides a step's sum by ``int(N * rate)``, so that the weights show
        whether N is 120 or 121, whatever the noise (arXiv 2605.15648). A record may be hidden among
        N, by one of gradient zero or by another, but not that there is one more.

    Raises
    ------
    TypeError, ValueError
        If ``source`` has no history, the history has no step, or a value in it or in ``settings``
        is out of range. The noise multiplier must be positive.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.from_opacus([(1.1, 0.004, 1000), (1.1, 0.004, 500)], max_grad_norm=1.2)
    >>> run.steps, run.noise_multiplier
    (1500, 1.1)
    >>> run = risk.from_opacus([(1.1, 0.004, 1000), (0.8, 0.01, 10)])
    >>> run.adjacency, round(risk.assess(run)["epsilon"].value, 3)
    ('zero-out', 0.974)
    """
    refuse_read(settings, "from_opacus", "history")
    settings["adjacency"] = settings.get("adjacency") or "zero-out"
    if settings["adjacency"] == "add-remove":
        raise SettingError(
            "adjacency", "add-remove", "zero-out or replace: Opacus takes sampling rate and "
            "divisor from the number of records, which the weights then show",
        )  # fmt: skip
    layers = settings.pop("layers", 1)
    if layers != 1:
        raise SettingError(
            "layers", layers, "left out: the noise multiplier of Opacus is relative to the norm "
            "of all layers' bounds together, with per-layer clipping too",
        )  # fmt: skip
    history = _history(source)
    phases = [phase_of_history(f"history[{i}]", entry) for i, entry in enumerate(history)]
    if not phases:
        raise ValueError("history must hold at least one step of training; it is empty")
    note = (
        "recorded by Opacus, which takes sampling rate and divisor from the number of records: "
        "that number is taken as public (arXiv 2605.15648)"
    )
    if settings.get("sampler", "poisson") == "poisson":
        note += "; Poisson sampling is assumed"
    notes = (note, *remarks(settings.pop("notes", ())))
    return phased_run(phases, notes=notes, **settings)


def _history(source: Any) -> list | tuple:
    accountant = getattr(source, "accountant", source)
    if isinstance(accountant, Mapping):
        found = accountant.get("history")
    else:
        found = getattr(accountant, "history", accountant)
    if not isinstance(found, list | tuple):
        raise TypeError(
            "from_opacus takes a PrivacyEngine, an accountant, its state_dict() or its history, a "
            f"list of (noise_multiplier, sample_rate, steps); got {_shorten(source)}"
        )
    return found


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
