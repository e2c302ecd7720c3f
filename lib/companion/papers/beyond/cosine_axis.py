"""An axis of mean cosines, stretched at both ends, for curves over the noise."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import ArrayLike

#: few enough for panels of two inches
_TICKS = (0.01, 0.1, 0.5, 0.99)


def stretched(cosine: ArrayLike) -> np.ndarray:
    """Log of the signal over the noise: -1 at a cosine of 0.1, 1 near 0.995."""
    c = np.clip(np.asarray(cosine, dtype=float), 1e-3, 1 - 1e-7)
    return np.log10(c / np.sqrt(1 - c * c))


def draw_cosine_axis(axes: Axes, low: float = 0.003) -> None:
    """Label the horizontal axis with cosines, from ``low`` to nearly one."""
    axes.xaxis.set_major_locator(FixedLocator(list(stretched(_TICKS))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{c:g}" for c in _TICKS])
    axes.set(xlim=tuple(stretched([low, 0.99995])), xlabel="mean cosine")
