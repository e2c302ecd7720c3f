"""Three-valued logic: a statement is true, false or, by its Monte Carlo error, undecided (None).

What holds only by the error is undecided, and a larger error decides less: it may turn true or
false into undecided, never into each other.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

#: Monte Carlo standard errors allowed on top of the printed precision (two-sided 6e-5).
STANDARD_ERRORS = 4.0
#: the same as a probability
_RARE = float(special.erfc(STANDARD_ERRORS / 2**0.5))


def every(*held: object) -> bool | None:
    """Return whether all hold: False if one does not, else None if one is undecided.

    Parameters
    ----------
    *held : bool or None
        Of Python, NumPy or pandas.

    Examples
    --------
    >>> every(True, True), every(True, None), every(None, False)
    (True, None, False)
    """
    if any(one is not None and not one for one in held):
        return False
    return None if any(one is None for one in held) else True


def any_of(*held: object) -> bool | None:
    """Return whether one holds: True if one does, else None if one is undecided.

    Examples
    --------
    >>> any_of(False, False), any_of(False, None), any_of(None, True)
    (False, None, True)
    """
    return negate(every(*map(negate, held)))


def negate(held: object) -> bool | None:
    """Return whether a statement does not hold; what is undecided remains so.

    Examples
    --------
    >>> negate(True), negate(False), negate(None)
    (False, True, None)
    """
    return None if held is None else not held


def alike(*held: object) -> bool | None:
    """Return what a statement is at every end of a choice; None if it turns between them.

    For what a paper does not print and we had to choose: a verdict that turns within the range that
    the choice could have is ours, not the paper's.

    Examples
    --------
    >>> alike(True, True), alike(False, False), alike(True, False), alike(True, None)
    (True, False, None, None)
    """
    return settle(all(held), possibly=any(one is None or one for one in held))


def settle(surely: object, possibly: object) -> bool | None:
    """Return True for what surely holds, False for what not even possibly does, else None.

    For comparisons that the others do not make, such as one that holds as measured and fails only
    beyond its error.

    Examples
    --------
    >>> settle(True, True), settle(False, True), settle(False, False)
    (True, None, False)
    """
    return True if surely else None if possibly else False


def within(
    value: ArrayLike, expected: ArrayLike, standard_error: ArrayLike, margin: ArrayLike
) -> bool | None:
    """Return whether estimates equal expected values up to a margin stated before the run.

    Parameters
    ----------
    value, expected, standard_error, margin : array_like
        Broadcast; ``standard_error`` is the Monte Carlo error of ``value - expected``.

    Returns
    -------
    bool or None
        True if every estimate lies inside the margin *with* ``STANDARD_ERRORS`` of its error, False
        if one lies outside of it with that error, None if neither: a larger error decides less.

    Examples
    --------
    >>> within(1.02, 1.0, 0.001, 0.05), within(1.2, 1.0, 0.001, 0.05), within(1.02, 1.0, 0.02, 0.05)
    (True, False, None)
    """
    off = np.abs(np.asarray(value, float) - np.asarray(expected, float))
    error = STANDARD_ERRORS * np.asarray(standard_error, float)
    return settle(np.all(off + error <= margin), not np.any(off - error > margin))


def clearly(*gaps: tuple[ArrayLike, ArrayLike]) -> bool | None:
    """Whether all gaps are above zero, of pairs of gaps and their standard errors.

    True if each is by ``STANDARD_ERRORS`` of its error, False if one is below zero by more than as
    many, else None: a larger error decides less.

    Examples
    --------
    >>> clearly((1.0, 0.2)), clearly((-1.0, 0.2)), clearly(([1.0, 0.1], 0.2))
    (True, False, None)
    """
    pairs = [(np.asarray(g, float), STANDARD_ERRORS * np.asarray(e, float)) for g, e in gaps]
    surely = all(np.all(gap >= error) for gap, error in pairs)
    return settle(surely, not any(np.any(gap < -error) for gap, error in pairs))


def at_most(value: ArrayLike, limit: ArrayLike, standard_error: ArrayLike) -> bool | None:
    """Return whether estimates are at most a limit, clearly (:func:`clearly`).

    Parameters
    ----------
    value, limit, standard_error : array_like
        Broadcast; ``standard_error`` is the Monte Carlo error of ``value - limit``.

    Examples
    --------
    >>> at_most(0.9, 1.0, 0.01), at_most(1.1, 1.0, 0.01), at_most(1.0, 1.0, 0.01)
    (True, False, None)
    """
    return clearly((np.asarray(limit, float) - np.asarray(value, float), standard_error))


def at_least(value: ArrayLike, limit: ArrayLike, standard_error: ArrayLike) -> bool | None:
    """Return whether estimates are at least a limit, clearly; as :func:`at_most`.

    Examples
    --------
    >>> at_least(0.9, 1.0, 0.01), at_least(1.1, 1.0, 0.01), at_least(1.0, 1.0, 0.01)
    (False, True, None)
    """
    return at_most(np.negative(value), np.negative(limit), standard_error)


def not_above(
    value: ArrayLike, limit: ArrayLike, standard_error: ArrayLike, known_to: ArrayLike
) -> bool | None:
    """Return whether no estimate is clearly above a limit that may be attained.

    Parameters
    ----------
    value, limit, standard_error : array_like
        As of :func:`at_most`.
    known_to : array_like
        How far above the limit an estimate may lie *with* ``STANDARD_ERRORS`` of its error.

    Returns
    -------
    bool or None
        False if an estimate lies above the limit by more than that error; True if none does and
        all are known so well; else None.

    Examples
    --------
    >>> [not_above(1.0, 1.0, error, known_to=0.05) for error in (0.01, 0.1)]
    [True, None]
    >>> not_above(1.1, 1.0, 0.01, known_to=0.5)
    False
    """
    if at_most(value, limit, standard_error) is False:
        return False
    known = at_most(value, np.asarray(limit, float) + known_to, standard_error)
    return settle(known, possibly=True)


def jointly(gap: ArrayLike, standard_error: ArrayLike, margin: ArrayLike) -> bool | None:
    """Return whether many estimates, taken together, are what they should be.

    Each may lie within its own error, and nearly all on one side; so this goes beside a test of
    each. Estimates are taken to err independently of each other.

    Parameters
    ----------
    gap, standard_error, margin : array_like
        Broadcast; ``gap`` is an estimate less its expected value, ``standard_error`` its Monte
        Carlo error, ``margin`` by how much it may differ.

    Returns
    -------
    bool or None
        False if the signs of the gaps are more one-sided than chance allows, whatever the errors,
        or if their root mean square is above the margin by more than errors allow, by chi-squared;
        True if neither and it is within the margin with ``STANDARD_ERRORS`` of its error; else
        None: a larger error decides less.

    Examples
    --------
    >>> import numpy as np
    >>> both, one = np.resize([0.01, -0.01], 64), np.full(64, 0.01)
    >>> jointly(both, 0.02, 0.03), jointly(one, 0.02, 0.03), jointly(3 * both, 0.02, 0.01)
    (True, False, None)
    >>> jointly(9 * both, 0.02, 0.03)
    False
    """
    arrays = np.broadcast_arrays(*(np.atleast_1d(a) for a in (gap, standard_error, margin)))
    off, chance = (a.ravel() / arrays[2].ravel() for a in arrays[:2])
    fewer = min(np.count_nonzero(off > 0), np.count_nonzero(off < 0))
    if 2 * special.bdtr(fewer, np.count_nonzero(off), 0.5) < _RARE:
        return False
    level = np.sqrt(np.mean(off**2))
    surely = level + STANDARD_ERRORS * np.sqrt(np.mean(chance**2) / off.size) <= 1
    # a sum of squares of unequal errors exceeds this as rarely (Laurent and Massart 2000, Lemma 1)
    weights, rare = chance**2, -np.log(_RARE)
    most = weights.sum() + 2 * np.sqrt((weights**2).sum() * rare) + 2 * weights.max() * rare
    return settle(surely, level <= 1 + np.sqrt(most / off.size))
