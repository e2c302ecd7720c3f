"""Parameters of the exhibits on theorems, for which the paper prints no values."""

from companion.study import Parameter

NOT_PRINTED = "not printed: a statement, not an experiment"


def count(quick: int, paper: int, meaning: str, low: float = 1) -> Parameter:
    """A number of random cases or of points."""
    return Parameter("int", quick, paper, NOT_PRINTED, meaning, low=low)


def values(*both: float, meaning: str, low: float, kind: str = "floats") -> Parameter:
    """A list that is the same in both profiles."""
    return Parameter(kind, both, both, NOT_PRINTED, meaning, low=low)


def noise_multipliers(*both: float) -> Parameter:
    return values(*both, meaning="sigma, noise multipliers", low=1e-3)


def sampling_rates(*both: float) -> Parameter:
    return values(*both, meaning="q, sampling rates", low=1e-6)
