"""The two types that modules share: the parameters of a DP-SGD run, and a certified interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconrisk import arguments

__all__ = ["DPSGD", "Enclosure", "check_run"]


@dataclass(frozen=True)
class DPSGD:
    """Parameters of one run of DP-SGD that determine its privacy.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm, sigma > 0.
    sampling_rate : float
        Probability q in (0, 1] with which Poisson sampling puts a record into a batch.
    steps : int
        Number of steps T >= 1.
    max_grad_norm : float
        Clipping norm C > 0 of the per-example gradients.

    Raises
    ------
    TypeError, ValueError
        If an argument is not a number or is out of its range.

    Examples
    --------
    >>> from reconrisk import DPSGD
    >>> run = DPSGD(noise_multiplier=1.1, sampling_rate=0.01, steps=1000)
    >>> run.max_grad_norm
    1.0
    """

    noise_multiplier: float
    sampling_rate: float = 1.0
    steps: int = 1
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "sampling_rate", "steps", "max_grad_norm"):
            arguments.single(name, getattr(self, name))
        arguments.real("noise_multiplier", self.noise_multiplier, 0, np.inf, low_open=True)
        arguments.real("sampling_rate", self.sampling_rate, 0, 1, low_open=True)
        arguments.integer("steps", self.steps, 1)
        arguments.real("max_grad_norm", self.max_grad_norm, 0, np.inf, low_open=True)


def check_run(run: DPSGD) -> None:
    """Raise ``TypeError`` if ``run`` is not a :class:`DPSGD`."""
    if not isinstance(run, DPSGD):
        check_not_described(run, "a DPSGD, such as run.releases of one phase")
        raise TypeError(f"run must be a DPSGD; got {run!r}")


def check_not_described(
    run: object, expected: str = "a DPSGD, or a list of releases, such as run.releases"
) -> None:
    """Raise ``TypeError`` if ``run`` is a description, such as a TrainingRun, that has releases."""
    # not by its type, whose module imports this one; its releases may be refused
    if hasattr(type(run), "releases"):
        raise TypeError(f"run must be {expected}; got a {type(run).__name__}")


@dataclass(frozen=True)
class Enclosure:
    """A certified interval: the true value lies in ``[lower, upper]``.

    ``float()`` of it raises ``TypeError``, so that no one end is quoted by accident.

    Parameters
    ----------
    lower, upper : float
        Ends of the interval, ``lower <= upper``.

    Raises
    ------
    ValueError
        If ``lower`` exceeds ``upper`` or an end is nan.

    Examples
    --------
    >>> from reconrisk import Enclosure
    >>> found = Enclosure(0.25, 0.5)
    >>> 0.3 in found, found.width
    (True, 0.25)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ValueError(f"lower must not exceed upper; got [{self.lower!r}, {self.upper!r}]")

    @property
    def width(self) -> float:
        """``upper - lower``."""
        return self.upper - self.lower

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __float__(self) -> float:
        raise TypeError("an Enclosure is an interval; take .lower, .upper or .width")
