"""Pictures of our own exhibits on one run that all papers look at."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import BLUE, COLOURS, GREY, ORANGE, panels

__all__: list[str] = []


@draws(
    "beyond/one_run",
    caption="One run of DP-SGD, bounds and attacks side by side. Left: probabilities of success; "
    "squares are bounds on every attack of the kind, diamonds what the best attack reaches if the "
    "candidates' gradients are orthogonal, dots what was measured on trained models, with four "
    "standard errors. Right: errors of reconstructions without a prior, root mean squares per "
    "pixel; lines: the mean picture and the nearest other record.",
    alt="Left: for the membership test, for 2, 10 and 100 candidates and for a near miss the dot "
    "lies left of the diamond and the square. Right: the analytic attack, its shrunken version, "
    "gradient matching and the bound for unbiased attacks all lie to the right of the mean "
    "picture's error.",
)
def one_run(result: Result) -> Figure:
    table, guesses = result.tables["rows"], result.tables["guesses"].set_index("guess")["RMSE"]
    figure, (row,) = panels(1, 2, 4.9, 3.3)
    chances = table[
        table["question"].str.startswith(("advantage", "success with")) & (table["attack"] != "")
        | (table["attack"] == "gradient matching") & (table["holds"] == "at most")
    ]
    place = np.arange(len(chances))[::-1]
    row[0].plot(chances["bound"], place, "s", color=BLUE, label="bound on every attack", ms=6)
    best = table[table["question"] == "the same, orthogonal gradients"]
    at = [y for y, text in zip(place, chances["question"], strict=True) if "candidates" in text]
    row[0].plot(best["bound"], at, "D", mfc="none", color=GREY, label="orthogonal gradients", ms=6)
    row[0].errorbar(
        chances["measured"], place, xerr=4 * chances["standard error"], color=ORANGE, marker="o",
        linestyle="", capsize=2, ms=5, label="measured",
    )  # fmt: skip
    names = [t.replace("probability of a ", "") for t in chances["question"]]
    row[0].set_yticks(place, [t.replace(" of a membership test", "") for t in names])
    row[0].set(xlim=(-0.03, 1.05), ylim=(-0.6, len(place) + 0.6), xlabel="probability")
    row[0].legend(loc="upper right", fontsize=7.5)
    errors = {
        "row mean (A, B)": _root(table, "mean MSE"),
        "shrunken (ours)": _root(table, "mean MSE, shrunken"),
        "gradient matching (C)": float(guesses["gradient matching"]),
        "unbiased, at least (E)": float(
            table[table["question"].str.startswith("least RMSE")]["bound"].iloc[0]
        ),
    }
    bars = np.arange(len(errors))[::-1]
    row[1].barh(bars, list(errors.values()), height=0.5, color=COLOURS[4])
    row[1].set_yticks(bars, list(errors))
    for style, guess in (("-.", "mean picture"), (":", "nearest neighbour")):
        row[1].axvline(guesses[guess], color=GREY, linestyle=style, lw=1.3, label=guess)
    row[1].set(xlabel="RMSE per pixel", ylim=(-0.6, len(bars) + 0.3))
    row[1].legend(loc="upper right", fontsize=7.5)
    return figure


def _root(table, question: str) -> float:
    return float(np.sqrt(table[table["question"] == question]["measured"].iloc[0]))


@draws(
    "beyond/orderings",
    caption="Runs of DP-SGD as the notions rank them. Left: rank correlations between notions over "
    "all runs; one means the same order. Right: each run by epsilon and by the noise left to an "
    "attacker without a prior; lines join runs of one sampling rate and number of steps.",
    alt="Left: a matrix with values near one among epsilon, the membership advantage and the two "
    "success bounds, and values of 0.2 to 0.6 between these and the prior-free error, the bounds "
    "without sampling and capacity. Right: three falling lines far apart; the two families of "
    "full-batch runs share one.",
)
def orderings(result: Result) -> Figure:
    agreement = result.tables["agreement"].set_index("notion")
    figure, (row,) = panels(1, 2, 4.9, 3.9)
    values = agreement.to_numpy(dtype=float)
    row[0].imshow(values, cmap="Blues", vmin=0, vmax=1.4)
    for i, j in np.ndindex(values.shape):
        row[0].text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=8)
    ticks = range(len(agreement))
    row[0].set_xticks(ticks, agreement.columns, rotation=40, ha="right")
    row[0].set_yticks(ticks, agreement.index)
    row[0].grid(False)
    for colour, marker, ((q, steps), own) in zip(
        COLOURS, "os^D", result.tables["runs"].groupby(["q", "T"]), strict=False
    ):
        own = own.sort_values("epsilon")
        row[1].plot(
            own["epsilon"], own["prior-free"] ** -0.5, marker=marker, color=colour, ms=4,
            label=f"q = {q:g}, T = {steps:,}",
        )  # fmt: skip
    row[1].set(
        xscale="log",
        yscale="log",
        xlabel=r"$\varepsilon$",
        ylabel=r"noise of the averaged record, $\sigma/\sqrt{qT}$",
    )
    row[1].legend(loc="lower left")
    return figure
