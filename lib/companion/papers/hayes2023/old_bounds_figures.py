"""Pictures of exhibits of Hayes et al. 2023 (bounds)."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.style import BLUE, GREEN, GREY, ORANGE, PURPLE, panels
from companion.study import Result

__all__: list[str] = []

KEY = "hayes2023"


@draws(
    f"{KEY}/cor4",
    caption="Left: the largest success of any attack on full-batch DP-SGD by Corollary 4 (solid) "
    "and by the earlier bound from Renyi privacy, eq. (2) (dashed), for three prior sizes. Right: "
    "the epsilon up to which no attack has more than the tolerated advantage, over the prior "
    "probability of success; membership inference is the point furthest left, the paper's very "
    "small priors are at the right end. Not in the paper as a picture; its Section 3.2 and "
    "Appendix J speak of both.",
    alt="Left: six S-shaped curves over epsilon from 0.5 to 100; each dashed one lies above the "
    "solid one of the same colour, and the curves move right as the prior grows. Right: two almost "
    "straight, nearly equal lines on log-log axes from an epsilon below one for two candidates to "
    "several thousand at a prior success of 1e-1850.",
)
def corollary4(result: Result) -> Figure:
    curves, tolerated = result.tables["success"], result.tables["tolerated"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    for colour, (n, part) in zip((BLUE, ORANGE, GREEN), curves.groupby("n"), strict=True):
        row[0].plot(part["epsilon"], part["Corollary 4"], color=colour, label=f"n = {n}")
        row[0].plot(part["epsilon"], part["eq. (2)"], color=colour, linestyle="--", linewidth=1.2)
    row[0].plot([], [], color=GREY, linestyle="--", linewidth=1.2, label="eq. (2)")
    row[0].set(
        xscale="log",
        xlabel=r"$\epsilon$ at $\delta = 10^{-5}$",
        ylabel="bound on the success",
        ylim=(-0.02, 1.02),
        xticks=[1, 10, 100],
        xticklabels=["1", "10", "100"],
    )
    row[0].legend(loc="upper left", bbox_to_anchor=(0.0, 1.0))
    x = tolerated["log10(1/kappa)"]
    row[1].plot(x, tolerated["Corollary 4"], color=BLUE, marker="o", ms=4, label="Corollary 4")
    row[1].plot(x, tolerated["eq. (2)"], color=PURPLE, linestyle="--", label="eq. (2)")
    advantage = result.settings.get("advantage", 0.1)
    row[1].set(
        xscale="log",
        yscale="log",
        xlabel=r"$\log_{10}(1/\kappa)$",
        ylabel=rf"$\epsilon$ for an advantage of at most {advantage:g}",
    )
    for place, name, height in ((0, "n = 2 (membership)", 0.06), (1, "n = 10", 0.18)):
        row[1].annotate(
            name,
            (x[place], tolerated["Corollary 4"][place]),
            xytext=(0.45, height),
            textcoords="axes fraction",
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.7},
        )
    row[1].legend(loc="upper left")
    return figure


_BOUNDS = {
    "Guo et al. (2022b)": (ORANGE, "Fano, closed bound on the information"),
    "Guo et al. (2022b) (MC)": (GREEN, "Fano, information of orthogonal candidates"),
    "Ours": (BLUE, "Corollary 4"),
}


@draws(
    f"{KEY}/fig11",
    caption="Bounds on the advantage after one full-batch step against ten candidates, over the "
    "noise multiplier: the paper's own and two from Fano's inequality after Guo et al. (2022b). "
    "Crosses: the numbers of Table 2. Lines are exact here; the paper sampled two of them. Added: "
    "the best attack on orthogonal candidates. Right: the bounds' distance from it. The paper's "
    "bound is the lowest except at very small noise, where the information of orthogonal "
    "candidates, which knows their angle, bounds better.",
    alt="Left: three falling curves from one towards a tenth; the bound of Corollary 4 is lowest, "
    "the closed Fano bound highest, and a dashed curve of the best attack lies just below the "
    "lowest. Crosses lie on the three curves. Right: the distances from the attack; the two lower "
    "curves cross near a noise multiplier of 0.36.",
)
def figure11(result: Result) -> Figure:
    curves, printed = result.tables["curves"], result.tables["printed"]
    figure, (row,) = panels(1, 2, 4.4, 3.3)
    attack = curves["best attack, orthogonal"]
    for name, (colour, label) in _BOUNDS.items():
        row[0].plot(curves["sigma"], curves[name], color=colour, label=label)
        row[1].plot(curves["sigma"], curves[name] - attack, color=colour)
        cells = printed[printed["bound"] == name]
        row[0].plot(cells["sigma"], cells["printed"], "x", color="black", ms=5, mew=1.3, zorder=3)
    row[0].plot(curves["sigma"], attack, "--", color=GREY, label="best attack (orthogonal)")
    row[0].plot([], [], "x", color="black", ms=5, mew=1.3, label="printed (Table 2)")
    sigma = r"noise multiplier $\sigma$"
    row[0].set(xlabel=sigma, ylabel="advantage", ylim=(0, 1.02))
    row[1].set(xlabel=sigma, ylabel="bound less best attack", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=3)
    return figure
