"""Pictures of the example's exhibits."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, ORANGE, panels

__all__: list[str] = []


@draws(
    "example2026/table1",
    caption="How often a randomised answer is the true one, over epsilon: the closed form, and "
    "simulated answers with four standard errors.",
    alt="A line that rises from 0.62 to 0.88 with a mark on it at each of three epsilons.",
)
def table1(result: Result) -> Figure:
    shares, simulated = result.tables["shares"], result.tables["simulated"]
    figure, ((axis,),) = panels(1, 1, 5.0, 3.2)
    axis.plot(shares["epsilon"], shares["share"], color=BLUE, label="closed form")
    axis.errorbar(
        simulated["epsilon"], simulated["share"], yerr=4 * simulated["error"], color=ORANGE,
        marker="o", linestyle="", capsize=2, label="simulated",
    )  # fmt: skip
    axis.set(xlabel="epsilon", ylabel="share of true answers")
    axis.legend()
    return figure
