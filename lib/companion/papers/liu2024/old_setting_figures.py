"""The diagram of Liu et al. 2024, in a design of our own."""

from __future__ import annotations

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from companion.drawings import draws
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE
from companion.study import Result

__all__: list[str] = []

_WIDTH, _HEIGHT = 1.72, 1.0


def _box(axes: Axes, x: float, y: float, head: str, text: str, colour: str) -> None:
    """A rounded box around its middle (x, y), with a heading and some lines below it."""
    corner = (x - _WIDTH / 2, y - _HEIGHT / 2)
    style = "round,pad=0.02,rounding_size=0.08"
    axes.add_patch(
        FancyBboxPatch(
            corner, _WIDTH, _HEIGHT, boxstyle=style, facecolor="white", edgecolor=colour, lw=1.6
        )
    )
    axes.text(x, y + 0.27, head, ha="center", va="center", color=colour, weight="bold", fontsize=10)
    axes.text(x, y - 0.14, text, ha="center", va="center", fontsize=8.5, linespacing=1.35)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], label: str) -> None:
    """An arrow with what it carries written above its middle."""
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": GREY, "lw": 1.4, "shrinkA": 0}
    )
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    axes.text(middle[0], middle[1] + 0.1, label, ha="center", va="bottom", fontsize=8.5, color=GREY)


@draws(
    "liu2024/fig1",
    caption="The paper draws data reconstruction as an inverse problem. Here its parts in order: "
    "the batch is the unknown signal, its gradient the forward map, a defence changes what is seen "
    "and an attack inverts it. One algorithm's error bounds what is left from above, the least "
    "error of any algorithm from below; the sizes are those of the batch that was sent through.",
    alt="Diagram: batch, gradient, defence and attack in a row joined by arrows with the sizes of "
    "what they carry; below, the error between an upper and a lower bound.",
)
def _fig1(result: Result) -> Figure:
    parts = result.tables["parts"].set_index("part")["numbers"]
    signal, observed = f"{parts['batch']:,} numbers", f"{parts['gradient']:,} numbers"
    figure, axes = plt.subplots(figsize=(9.6, 2.95), layout="constrained")
    axes.set(xlim=(-1.05, 9.75), ylim=(-2.2, 0.72), aspect="equal")
    axes.set_axis_off()
    boxes = [
        ("Batch", "unknown signal\n$S=(x_1,\\dots,x_B)$", BLUE),
        ("Gradient", "forward map\n$\\nabla_\\Theta L(\\Theta;\\,S)$", BLUE),
        ("Defence", "clip, add noise, prune,\ndrop, aggregate: $D$", ORANGE),
        ("Attack", "inverse problem\n$\\hat S=A(D(\\nabla L))$", GREEN),
    ]
    gap = 2.9
    for i, (head, text, colour) in enumerate(boxes):
        _box(axes, gap * i, 0.0, head, text, colour)
        if i:
            start, end = gap * (i - 1) + _WIDTH / 2 + 0.03, gap * i - _WIDTH / 2 - 0.03
            _arrow(axes, (start, 0.0), (end, 0.0), signal if i == 1 else observed)
    below = -1.6
    _box(axes, gap, below, "Lower bound $R_L$", "least error of any\nalgorithm", PURPLE)
    _box(axes, 2 * gap, below, "Error", "$\\min_\\pi d(S,\\pi(\\hat S))$,\nin the best order", GREY)
    _box(axes, 3 * gap, below, "Upper bound $R_U$", "error of one\nalgorithm", GREEN)
    _arrow(axes, (gap + _WIDTH / 2 + 0.03, below), (2 * gap - _WIDTH / 2 - 0.03, below), r"$\leq$")
    _arrow(
        axes, (3 * gap - _WIDTH / 2 - 0.03, below), (2 * gap + _WIDTH / 2 + 0.03, below), r"$\leq$"
    )
    _arrow(axes, (3 * gap - 0.55, -0.55), (2 * gap + 0.55, below + 0.55), "")
    _arrow(axes, (0.45, -0.55), (2 * gap - 0.7, below + 0.55), "")
    return figure
