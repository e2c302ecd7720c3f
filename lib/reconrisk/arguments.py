"""Checks of arguments: every refusal names the argument, its value and what was expected.

Nothing in the library clips or ignores a value that is out of range (DESIGN: *Numbers*); these
helpers are how it refuses one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["integer", "one_of", "real"]


def real(
    name: str,
    value: ArrayLike,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> np.ndarray:
    """Return ``value`` as a float array after checking that all of it lies in an interval.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : array_like
        Numbers; nan is always refused, infinity where the interval excludes it.
    low, high : float
        Ends of the interval, included unless ``low_open`` or ``high_open``.

    Raises
    ------
    TypeError
        If ``value`` is not numeric.
    ValueError
        If any entry is nan or outside the interval.
    """
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a real number or array of them; got {value!r}") from None
    above = array > low if low_open else array >= low
    below = array < high if high_open else array <= high
    if not np.all(above & below):
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        wrong = array[~(above & below)].flat[0]
        raise ValueError(f"{name} must be in {interval}; got {wrong!r}")
    return array


def integer(name: str, value: ArrayLike, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Return ``value`` as a float array of whole numbers in ``[low, high]``.

    Floats are kept (not machine integers) because the formulas divide them and dimensions reach
    1e9; ``TypeError`` and ``ValueError`` as in :func:`real`, also for fractions.
    """
    array = real(name, value, low, high)
    if not np.all(array == np.floor(array)) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a whole number; got {value!r}")
    return array


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is among ``choices``; raise ``ValueError`` that lists them if not."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
    return value
