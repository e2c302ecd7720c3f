"""Parameters for which the paper prints no values."""

from companion.exhibit import *

_PRINTED = "not printed"


def count(quick: int, paper: int, meaning: str, low: float = 1) -> Parameter:
    return Parameter("int", quick, paper, _PRINTED, meaning, low=low)


def counts(quick: tuple[int, ...], paper: tuple[int, ...], meaning: str, low: float) -> Parameter:
    return Parameter("ints", quick, paper, _PRINTED, meaning, low=low)


def number(value: float, meaning: str, low: float) -> Parameter:
    """A number that is the same in both profiles."""
    return Parameter("float", value, value, _PRINTED, meaning, low=low)


def numbers(*both: float, meaning: str, low: float) -> Parameter:
    """A list that is the same in both profiles."""
    return Parameter("floats", both, both, _PRINTED, meaning, low=low)


def noise_multipliers(*both: float) -> Parameter:
    return numbers(*both, meaning="sigma, noise multipliers", low=1e-3)


def sampling_rates(*both: float) -> Parameter:
    return numbers(*both, meaning="q, sampling rates", low=1e-6)
