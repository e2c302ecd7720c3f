"""Checks of arguments whose errors name the argument, its value and what was expected.

The library never clips or ignores a value that is out of range; it raises, through these functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["count", "finite", "integer", "names_sampling_rate", "one_of", "real", "shown", "single"]

Call = TypeVar("Call", bound=Callable[..., Any])
#: beyond it whole numbers are no floats
_LARGEST = int(np.finfo(float).max)
#: what Opacus, dp-accounting and others call the sampling rate
_OTHER_WORDS = frozenset(
    {"sample_rate", "sampling_probability", "sampling_prob", "subsampling_rate"}
)


def real(
    name: str,
    value: ArrayLike,
    low: float = -np.inf,
    high: float = np.inf,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> np.ndarray:
    """Check that all entries of ``value`` lie in an interval.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : array_like
        Numbers. Nan is never valid; infinity only if the interval includes it.
    low, high : float
        Ends of the interval.
    low_open, high_open : bool
        Whether the interval excludes that end.

    Returns
    -------
    ndarray of float
        ``value`` as an array.

    Raises
    ------
    TypeError
        If ``value`` is not numeric.
    ValueError
        If any entry is nan or outside the interval.
    """
    if type(value) is float or type(value) is int:  # quickly: long schedules hold thousands
        enough = value > low if low_open else value >= low
        if enough and (value < high if high_open else value <= high) and abs(value) <= _LARGEST:
            return np.asarray(value, dtype=float)
    array = _floats(name, value)
    above = array > low if low_open else array >= low
    below = array < high if high_open else array <= high
    if not np.all(above & below):
        interval = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        wrong = array[~(above & below)].item(0)
        raise ValueError(f"{name} must be in {interval}; got {wrong!r}")
    return array


def _floats(name: str, value: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(value)
        # float() would read texts and truths, and None as nan
        if isinstance(value, bool) or array.dtype.kind in "US":
            raise TypeError
        if array.dtype.kind == "O" and any(
            one is None or isinstance(one, str) for one in array.flat
        ):
            raise TypeError
        return array.astype(float, copy=False)
    except OverflowError:
        raise ValueError(f"{name} must be in the range of floats; got a larger number") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a real number or array of them; got {shown(value)}"
        ) from None


def finite(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as an array of finite floats.

    Raises
    ------
    TypeError
        If ``value`` is not numeric.
    ValueError
        If any entry is nan or infinite.
    """
    array = _floats(name, value)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got {array[~np.isfinite(array)].item(0)!r}")
    return array


def integer(name: str, value: ArrayLike, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Check that all entries of ``value`` are whole numbers in ``[low, high]``.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : array_like
        Finite whole numbers.
    low, high : float
        Ends of the interval, included.

    Returns
    -------
    ndarray of float
        ``value`` as an array; floats, because the formulas divide and dimensions reach 1e12.

    Raises
    ------
    TypeError
        If ``value`` is not numeric.
    ValueError
        If any entry is nan, infinite, fractional or outside the interval.
    """
    array = real(name, value, low, high)
    if type(value) is int:
        return array
    if not np.all(array == np.floor(array)) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a whole number; got {shown(value)}")
    return array


def count(name: str, value: object, low: float = 1, high: float = np.inf) -> int:
    """Return a single whole number in ``[low, high]`` as an int: ``1e4`` will do for 10,000.

    Raises
    ------
    TypeError
        If ``value`` is not one number.
    ValueError
        If it is infinite, fractional or outside the interval.
    """
    single(name, value)
    integer(name, value, low, high)  # type: ignore[arg-type]
    return int(value)  # type: ignore[call-overload]


def single(name: str, value: object) -> None:
    """Check that ``value`` is one number: no text, no truth value, no list or array of numbers.

    Raises
    ------
    TypeError
        If it is not.
    """
    if type(value) is float or type(value) is int:
        return
    if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) != 0:  # type: ignore[arg-type]
        raise TypeError(f"{name} must be a single number; got {shown(value)[:80]}")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """Check that ``value`` is one of ``choices`` and return it.

    Raises
    ------
    ValueError
        If it is not; the message lists the choices.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {shown(value)}")
    return value


def names_sampling_rate(call: Call) -> Call:
    """Make a class or function name ``sampling_rate`` where another library's word is given."""

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **settings: Any) -> Any:
            wrong = _OTHER_WORDS.intersection(settings)
            if wrong:
                raise TypeError(
                    f"{call.__name__} calls it sampling_rate; got {', '.join(sorted(wrong))}"
                )
            return function(*args, **settings)

        return wrapper

    if isinstance(call, type):
        call.__init__ = checked(call.__init__)  # type: ignore[misc]
        return call
    return checked(call)  # type: ignore[return-value]


def shown(value: object) -> str:
    """Return a value as an error message shows it: a NumPy number as the number that it is.

    >>> import numpy as np
    >>> shown(np.float64(-1.0)), shown((np.float64(0.5), 2)), shown("x")
    ('-1.0', '(0.5, 2)', "'x'")
    """
    return repr(_plain(value))


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is list:
        return [_plain(one) for one in value]
    if type(value) is tuple:
        return tuple(_plain(one) for one in value)
    return value
