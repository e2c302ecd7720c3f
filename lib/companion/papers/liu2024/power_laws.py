"""Power laws through errors of independent networks, with intervals of their exponents."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from companion.exhibit import *

#: a point is asymptotic if the geometric mean of its networks' errors is below this; an error of
#: sqrt(2) is that of a guess, and .35 an angle of 20 degrees
REGIME = 0.35

#: a regime that includes every point, for values that have no ceiling
UNLIMITED = math.inf

#: tolerance of a fitted exponent, because networks are finite
NEAR = 0.15


@dataclass(frozen=True)
class PowerLaw:
    """The slope of a straight line through logarithms, its 95% interval and standard error."""

    exponent: float
    low: float
    high: float
    error: float

    def near(self, printed: float, room: float) -> bool:
        """Whether the slope is within ``room`` of a printed exponent."""
        return abs(self.exponent - printed) <= room

    def __str__(self) -> str:
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def power_law(x: Sequence[float], values: Sequence[np.ndarray]) -> PowerLaw:
    """Fit ``value = factor * x**exponent`` by weighted least squares on logarithms.

    Parameters
    ----------
    x : sequence of float
        One positive number for each of at least two points.
    values : sequence of ndarray
        The positive values that independent networks gave at each point, at least two each.

    Returns
    -------
    PowerLaw
        Points are weighted by the squared standard error of their mean logarithm, no smaller than
        half of what the spread over all points gives; the interval is Student's, and wider by
        the root of the reduced chi-square where the points do not lie on a line.

    Raises
    ------
    ValueError
        If there are fewer points or values, or one is not positive.
    """
    logs = [np.log(np.asarray(v, dtype=float)) for v in values]
    at = np.log(np.asarray(x, dtype=float))
    if len(at) < 2 or len(at) != len(logs) or min(map(len, logs)) < 2:
        raise ValueError("x must hold at least two points, with at least two values for each")
    if not all(np.all(np.isfinite(v)) for v in [at, *logs]):
        raise ValueError("x and values must be positive")
    counts = np.array([len(v) for v in logs])
    own = np.array([np.var(v, ddof=1) for v in logs])
    pooled = float(np.sum((counts - 1) * own) / np.sum(counts - 1))
    weights = counts / np.maximum(np.maximum(own, pooled / 4), 1e-20)
    means = np.array([v.mean() for v in logs])
    middle = np.sum(weights * at) / np.sum(weights)
    spread = np.sum(weights * (at - middle) ** 2)
    slope = float(np.sum(weights * (at - middle) * means) / spread)
    level = float(np.sum(weights * means) / np.sum(weights) - slope * middle)
    misfit = means - level - slope * at
    reduced = np.sum(weights * misfit**2) / (len(at) - 2) if len(at) > 2 else 1.0
    error = math.sqrt(max(1.0, reduced) / spread)
    room = float(stats.t.ppf(0.975, counts.sum() - 2)) * error
    return PowerLaw(slope, slope - room, slope + room, error)


def fit_column(
    table: pd.DataFrame, over: str, column: str = "error", *, regime: float = REGIME
) -> PowerLaw:
    """Fit one column over another, through the points whose geometric mean is below ``regime``."""
    points = [
        (float(np.exp(np.mean(np.log(part[over])))), part[column].to_numpy())
        for _, part in table.groupby("point", sort=False)
    ]
    inside = [(x, v) for x, v in points if np.exp(np.mean(np.log(v))) < regime]
    if len(inside) < 2:
        raise ValueError(f"{column} over {over}: fewer than two points are below {regime}")
    return power_law(*zip(*inside, strict=True))


def fit_levels(
    table: pd.DataFrame, over: str, column: str = "error", *, regime: float = REGIME
) -> PowerLaw:
    """Fit one column over another, with a slope for each network; every network has every level.

    The levels are those whose geometric mean is below ``regime``; the interval is Student's over
    the networks.
    """
    inside = table.groupby("point")[column].transform(lambda v: np.exp(np.log(v).mean())) < regime
    some = table[inside].assign(x=lambda t: np.log(t[over]), y=lambda t: np.log(t[column]))
    if some["point"].nunique() < 2:
        raise ValueError(f"{column} over {over}: fewer than two levels are below {regime}")
    found = [np.polyfit(part["x"], part["y"], 1)[0] for _, part in some.groupby("network")]
    error = max(float(np.std(found, ddof=1)) / math.sqrt(len(found)), 1e-12)
    middle = float(np.mean(found))
    room = float(stats.t.ppf(0.975, len(found) - 1)) * error
    return PowerLaw(middle, middle - room, middle + room, error)


def slopes(laws: Mapping[str, PowerLaw], *names: str) -> str:
    """Exponents rounded to what their errors support, for a verdict."""
    return ", ".join(rounded(laws[n].exponent, laws[n].error) for n in names)


def check_exponents(
    target: str,
    laws: Mapping[str, PowerLaw],
    statement: str,
    printed: Mapping[str, float],
    at_most: Collection[str] = (),
    rooms: Mapping[str, float] | None = None,
) -> Verdict:
    """Judge exponents against the printed ones.

    The tolerance is ``NEAR``, or that of ``rooms``; exponents named in ``at_most`` may be smaller.
    """
    room = {**dict.fromkeys(printed, NEAR), **(rooms or {})}
    return check(
        target,
        all(
            laws[n].exponent <= power + room[n] if n in at_most else laws[n].near(power, room[n])
            for n, power in printed.items()
        ),
        statement,
        ours="exponents: " + ", ".join(f"{n} {slopes(laws, n)}" for n in printed),
        paper=", ".join(f"{power:g}" for power in printed.values()),
        tolerance=", ".join(dict.fromkeys(f"{r:g}" for r in room.values()))
        + f", one-sided in {', '.join(at_most)}" * bool(at_most),
    )


#: of a table of power laws, in the order of the fields of :class:`PowerLaw`
_COLUMNS = ["exponent of", "value", "low", "high", "error"]


def listed(laws: Mapping[str, PowerLaw]) -> pd.DataFrame:
    """Power laws as a table, one row each."""
    rows = [(name, law.exponent, law.low, law.high, law.error) for name, law in laws.items()]
    return pd.DataFrame(rows, columns=_COLUMNS)


def laws_of(table: pd.DataFrame) -> dict[str, PowerLaw]:
    """Power laws by name, from a table of :func:`listed`."""
    return {name: PowerLaw(*law) for name, *law in table[_COLUMNS].itertuples(index=False)}


#: what exponents of :func:`listed` are of, in words
FACTORS = {
    **dict.fromkeys(("m", "none m", "local m", "batches m", "noise m"), "the width"),
    **dict.fromkeys(("d", "none d", "noise d"), "the dimension"),
    **dict.fromkeys(("B", "random", "random B"), "the batch size"),
    **dict.fromkeys(("equal", "equal B"), "the batch size, labels equal,"),
    "matrix": "the perturbation of P",
    "tensor": "the perturbation of T",
    "matrix pi": "1/pi_min, for P,",
    "tensor pi": "1/pi_min, for T,",
    "both m": "the width at fixed C",
    "both ratio": "|G|/C",
    "dropout 1-p": "the kept share 1 - p",
    "noise sigma0": "the noise",
    "pruned 0.9 m": "the width, under pruning,",
    "pruned share": "the share kept by pruning",
}
#: to be altered in a table of :func:`listed`
EXPONENTS = {"value": by("exponent of", "exponents", FACTORS)}
