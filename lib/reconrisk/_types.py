"""The two types that modules share: the parameters of a DP-SGD run, and a certified interval."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation, localcontext

import numpy as np
from numpy.typing import ArrayLike

from reconrisk import arguments

__all__ = ["DPSGD", "Enclosure", "check_run", "order_ends"]

#: how far bounds may be off by rounding, in proportion
_ROUNDED = 1e-9


@arguments.names_sampling_rate
@dataclass(frozen=True)
class DPSGD:
    """Parameters of one run of DP-SGD that determine its privacy.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the clipping norm, sigma: in [1e-100, 1e100], or
        infinity.
    sampling_rate : float
        Probability q in [1e-100, 1] with which Poisson sampling puts a record into a batch.
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
        # beyond these, squares and quotients leave the range of floats
        if self.noise_multiplier < np.inf:
            arguments.real("noise_multiplier", self.noise_multiplier, 1e-100, 1e100)
        arguments.real("sampling_rate", self.sampling_rate, 1e-100, 1)
        object.__setattr__(self, "steps", arguments.count("steps", self.steps))
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

    ``float()`` of it raises ``TypeError``, so that no one end is quoted by accident. A number
    format shows both ends, rounded outwards; ``round()`` rounds outwards, too. An enclosure is
    smaller or larger than a number, or than another enclosure, if all of it is; where that is open,
    comparing raises ``ValueError``.

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
    >>> f"{Enclosure(0.1234, 0.1251):.2f}", round(found, 1), found < 0.6
    ('[0.12, 0.13]', Enclosure(lower=0.2, upper=0.5), True)
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

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return f"[{_format_beyond(self.lower, spec, -1)}, {_format_beyond(self.upper, spec, 1)}]"

    def __round__(self, digits: int = 0) -> Enclosure:
        unit = Decimal(1).scaleb(-min(max(int(digits), -_DIGITS), _DIGITS))
        ends = (
            _round_decimal(end, unit, sign) for end, sign in ((self.lower, -1), (self.upper, 1))
        )
        return Enclosure(*ends)

    def __lt__(self, other: object) -> bool:
        return self._compare(other, "<")

    def __gt__(self, other: object) -> bool:
        return self._compare(other, ">")

    def __le__(self, other: object) -> bool:
        return self._compare(other, "<=")

    def __ge__(self, other: object) -> bool:
        return self._compare(other, ">=")

    def _compare(self, other: object, sign: str) -> bool:
        """Compare where every value of the interval gives the same answer."""
        if isinstance(other, Enclosure):
            low, high = other.lower, other.upper
        elif isinstance(other, (int, float, np.integer, np.floating)):
            # a whole number beyond the floats is beyond all finite ends, too
            beyond = math.inf if other > 0 else -math.inf
            too_large = isinstance(other, int) and abs(other) > _LARGEST
            low = high = beyond if too_large else float(other)
        else:
            return NotImplemented
        compare = _COMPARISONS[sign]
        answers = {compare(a, b) for a in (self.lower, self.upper) for b in (low, high)}
        if len(answers) > 1 or math.isnan(low):
            raise ValueError(
                f"an Enclosure is compared with what it does not overlap; got {self} {sign} {other}"
                "; compare .lower or .upper"
            )
        return answers.pop()


#: decimals that any float has at most, and the largest float
_DIGITS, _LARGEST = 330, int(np.finfo(float).max)
_COMPARISONS = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def _round_decimal(value: float, unit: Decimal, sign: int) -> float:
    """Return a value rounded upwards (``sign`` 1) or downwards to a multiple of a unit."""
    if not math.isfinite(value):
        return value
    rounding = ROUND_CEILING if sign > 0 else ROUND_FLOOR
    with localcontext(prec=800):
        return float(Decimal(value).quantize(unit, rounding))


def _format_beyond(value: float, spec: str, sign: int) -> str:
    """Return a number by a format, rounded upwards (``sign`` 1) or downwards in its last digit."""
    text = format(value, spec)
    if not math.isfinite(value):
        return text
    percent, plain = text.strip().endswith("%"), text.strip().rstrip("%")
    try:
        shown = Decimal(plain.replace(",", "").replace("_", ""))
    except InvalidOperation:
        raise ValueError(f"an Enclosure has no format {spec!r}; format .lower or .upper") from None
    with localcontext(prec=800):
        exact = Decimal(value) * (100 if percent else 1)
        if (shown - exact) * sign >= 0:
            return text
        # a unit of the last digit that the format has; "g" does not show its zeros
        last = int(shown.as_tuple().exponent)
        if spec[-1] in "gG":
            digits = re.search(r"\.(\d+)", spec)
            last = exact.adjusted() + 1 - max(int(digits[1]) if digits else 6, 1)
        beyond = shown + sign * Decimal(1).scaleb(last)
        if percent:
            beyond /= 100
    return format(beyond, spec)


def order_ends(lower: ArrayLike, upper: ArrayLike, *, log: bool = False) -> np.ndarray:
    """Return lower ends of enclosures that are no larger than the upper ones.

    Rounding alone may put them in another order.

    Parameters
    ----------
    lower, upper : array_like
        Proven bounds, of one shape.
    log : bool
        They are logarithms, so that their differences are relative.

    Raises
    ------
    ArithmeticError
        If they contradict each other: then one of the proofs, or its code, is wrong.
    """
    lower, upper = np.asarray(lower, float), np.asarray(upper, float)
    rounding = _ROUNDED * (np.abs(np.where(np.isfinite(upper), upper, 0.0)) + log)
    if np.any(lower > upper + rounding):
        raise ArithmeticError(
            "the ends of an enclosure contradict each other, which is a fault of this library: "
            f"at least {lower} and at most {upper}"
        )
    return np.minimum(lower, upper)
