"""The run of which nothing but a privacy guarantee is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from reconrisk import bounds, privacy
from reconrisk._types import Enclosure
from reconrisk.bounds import Guarantee
from reconrisk.risk._settings import (
    SettingError,
    TrainingRun,
    number,
    reject_unknown,
    remarks,
    whole,
)

__all__ = ["FORMS", "from_guarantee"]

#: The forms of a guarantee: the fields that it must have, and those that it may have.
FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "approximate": (("epsilon",), ("delta", "adjacency")),
    "zero-concentrated": (("rho",), ()),
    "gaussian": (("mu",), ()),
    "renyi": (("orders", "divergences"), ()),
    "trade-off": (("false_positives", "false_negatives"), ()),
    "laplace": (("laplace_scale",), ("sampling_rate", "steps")),
    "randomised response": (("random_answers", "categories"), ("steps",)),
}


def from_guarantee(
    guarantee: Guarantee | Mapping[str, Any] | Any, *, group_size: int = 1, **settings: Any
) -> TrainingRun:
    """Describe a mechanism of which only a privacy guarantee is known.

    The report answers what follows from the guarantee alone: epsilon, delta, membership tests, and
    the success of every attack at a prior success. Entries that need the noise say so.

    Parameters
    ----------
    guarantee : mapping, Guarantee, or a loss distribution of dp-accounting
        One of

        - ``{"epsilon": 3.0, "delta": 1e-5}``, with ``"adjacency": "replace"`` for local privacy and
          wherever any record may be replaced by any other (default: added or removed);
        - ``{"rho": 0.5}``, zero-concentrated differential privacy;
        - ``{"mu": 1.0}``, Gaussian differential privacy;
        - ``{"orders": [2, 8, 32], "divergences": [0.1, 0.4, 1.6]}``, Renyi privacy;
        - ``{"false_positives": [...], "false_negatives": [...]}``, corners of a trade-off curve;
        - ``{"laplace_scale": 2.0}``, over the sensitivity; ``sampling_rate`` and ``steps``, too;
        - ``{"random_answers": 0.5, "categories": 4}``: randomised response that draws this share
          of the answers uniformly; ``steps`` for several answers;
        - a class of :mod:`reconrisk.bounds`, such as :class:`~reconrisk.bounds.ApproximateDP`;
        - a ``PrivacyLossDistribution`` of ``dp_accounting``.
    group_size : int
        In [1, 10000]: records that are protected together.
    **settings
        ``delta`` at which epsilon is reported (default: that of the guarantee, else 1e-5);
        ``dataset_size``; ``notes``.

    Returns
    -------
    TrainingRun
        Its mechanism is "guarantee".

    Raises
    ------
    SettingError
        If a field is missing, unknown or out of its range.

    Examples
    --------
    >>> from reconrisk import risk
    >>> run = risk.from_guarantee({"epsilon": 3.0, "delta": 1e-5})
    >>> report = risk.assess(run)
    >>> round(report["rero[prior_size=1000]"].value, 4)
    0.0201
    >>> report["mutual_information[prior_size=10]"].reason
    'does not follow from (3, 1e-05)-differential privacy alone: it needs the noise'
    """
    together = whole("group_size", group_size, 1, 1e4)
    reject_unknown(
        settings, ("delta", "dataset_size", "notes"), "beside a guarantee, which says all"
    )
    size = settings.get("dataset_size")
    found, delta = _guarantee(guarantee, together)
    return TrainingRun(
        mechanism="guarantee",
        noise_multiplier=None,
        concentration=None,
        sampling_rate=1.0,
        steps=1,
        max_grad_norm=1.0,
        parameters=None,
        layers=1,
        batch_size=None,
        dataset_size=None if size is None else whole("dataset_size", size, 1, 1e12),
        epochs=None,
        delta=number("delta", settings.get("delta", delta), 1e-100, 1, high_open=True),
        notes=(
            f"Of the mechanism only {found.description} is known.",
            *remarks(settings.get("notes", ())),
        ),
        group_size=together,
        guarantee=found,
        adjacency=None,
    )


def _guarantee(given: Any, k: int) -> tuple[Guarantee, float]:
    """Return the guarantee of a group and the delta at which to report."""
    if isinstance(given, Mapping):
        return _of_fields(given, k)
    if hasattr(given, "success") and hasattr(given, "description"):
        return (given if k == 1 else _Grouped(given, k)), 1e-5
    try:
        found = bounds.LossDistribution(given)
    except TypeError:
        raise SettingError(
            "guarantee", type(given).__name__,
            "a mapping of fields, a class of reconrisk.bounds or a loss distribution",
        ) from None  # fmt: skip
    return (found if k == 1 else _Grouped(found, k)), 1e-5


def _of_fields(given: Mapping[str, Any], k: int) -> tuple[Guarantee, float]:
    form = _form(given)
    try:
        return _MAKE[form](dict(given), k)
    except SettingError:
        raise
    except (TypeError, ValueError) as error:
        # the message names one field, or several
        named, _, why = str(error).rsplit("; got", 1)[0].partition(" must be ")
        raise SettingError(f"guarantee {named}", given.get(named, dict(given)), why) from None


def _form(given: Mapping[str, Any]) -> str:
    forms = "; or ".join(", ".join(must) for must, _ in FORMS.values())
    for name, (must, may) in FORMS.items():
        if not set(must) & set(given):
            continue
        for field in must:
            if field not in given:
                raise SettingError(f"guarantee {field}", None, f"given with {must[0]}")
        for field in given:
            if field not in must + may:
                raise SettingError(
                    f"guarantee {field}",
                    given[field],
                    f"left out: {name} takes {', '.join(must + may)}",
                )
        return name
    raise SettingError("guarantee", dict(given), f"fields of one form: {forms}")


_Made = tuple[Guarantee, float]


def _approximate(given: dict[str, Any], k: int) -> _Made:
    one = bounds.ApproximateDP(**given)
    e, d = float(given["epsilon"]), float(given.get("delta", 0.0))
    if k > 1:
        # step by step from member to member: delta (1 + e^eps + ... + e^((k - 1) eps))
        share = k if e == 0.0 else math.expm1(min(k * e, 690.0)) / math.expm1(e)
        grown = {**given, "epsilon": k * e, "delta": min(d * share, 1.0 - 1e-12)}
        one = bounds.ApproximateDP(**grown)
        d = grown["delta"]
        one.description += f" for groups of {k}"
    return one, d if d >= 1e-100 else 1e-5


def _concentrated(given: dict[str, Any], k: int) -> _Made:
    rho = number("guarantee rho", given["rho"], 1e-9, 1e6)
    return _name_group(bounds.ZeroConcentratedDP(rho * k * k), k), 1e-5


def _gaussian(given: dict[str, Any], k: int) -> _Made:
    mu = number("guarantee mu", given["mu"], 1e-6, 1e6)
    return _name_group(bounds.gaussian_dp(mu * k), k), 1e-5


def _name_group(one: Any, k: int) -> Any:
    if k > 1:
        one.description += f", for groups of {k}"
    return one


def _renyi(given: dict[str, Any], k: int) -> _Made:
    return _group(bounds.RenyiDP(given["orders"], given["divergences"]), k)


def _trade_off(given: dict[str, Any], k: int) -> _Made:
    return _group(bounds.TradeOff(given["false_positives"], given["false_negatives"]), k)


def _laplace(given: dict[str, Any], k: int) -> _Made:
    scale = number("guarantee laplace_scale", given.pop("laplace_scale"), 0, 1e6, low_open=True)
    if k > 1 and given.get("sampling_rate", 1.0) < 1.0:
        raise SettingError("group_size", k, "1 for sub-sampled Laplace noise")
    one = privacy.Laplace(scale / k, **given)
    words = f"Laplace noise of scale {scale:g}"
    if one.steps > 1 or one.sampling_rate < 1.0:
        words += f", {one.steps:,} releases at sampling rate {one.sampling_rate:g}"
    return _name_group(bounds.Releases([one], words), k), 1e-5


def _answers(given: dict[str, Any], k: int) -> _Made:
    noise = number("guarantee random_answers", given["random_answers"], 0, 1, low_open=True)
    kinds = whole("guarantee categories", given["categories"], 2, 1e9)
    steps = whole("guarantee steps", given.get("steps", 1), 1, 1e9)
    one = privacy.Atoms.randomised_response(noise, kinds, steps)
    words = f"randomised response, {noise:g} of the answers random among {kinds:,}"
    if steps == 1:
        # any two records: the sharp bound of pure local privacy
        truth = 1.0 - noise + noise / kinds
        found: Any = bounds.ApproximateDP(math.log(truth * kinds / noise), 0.0, "replace")
        found.description = words
        return _group(found, k)
    return _group(bounds.Releases([one], f"{words}, {steps:,} answers"), k)


def _group(one: Guarantee, k: int) -> _Made:
    return (one if k == 1 else _Grouped(one, k)), 1e-5


_MAKE: dict[str, Callable[[dict[str, Any], int], _Made]] = {
    "approximate": _approximate,
    "zero-concentrated": _concentrated,
    "gaussian": _gaussian,
    "renyi": _renyi,
    "trade-off": _trade_off,
    "laplace": _laplace,
    "randomised response": _answers,
}


class _Grouped:
    """A guarantee for groups: its curve applied once for every member (Dong et al. 2022, 2.14)."""

    def __init__(self, one: Guarantee, size: int) -> None:
        self._one, self._size = one, size
        self.description = f"{one.description}, for groups of {size}"

    @property
    def of_tests(self) -> _Grouped:
        """What it says of tests of one group against another."""
        return _Grouped(getattr(self._one, "of_tests", self._one), self._size)

    def success(self, log_prior_success: float) -> Enclosure:
        """Enclose the logarithm of the largest success at the logarithm of a prior success."""
        high = log_prior_success
        for _ in range(self._size):
            high = self._one.success(high).upper
        return Enclosure(min(log_prior_success, high), high)

    def delta(self, epsilon: float) -> Enclosure:
        """Refuse: no closed form."""
        raise ValueError(f"group_size must be 1 for the delta of {self._one.description}")

    def epsilon(self, delta: float) -> Enclosure:
        """Refuse: no closed form."""
        raise ValueError(f"group_size must be 1 for the epsilon of {self._one.description}")
