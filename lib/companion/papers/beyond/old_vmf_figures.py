"""Pictures: attacks that know von Mises-Fisher noise."""

from __future__ import annotations

from matplotlib.figure import Figure

from companion.drawings import draws
from companion.study import Result
from companion.style import (
    GREEN,
    GREY,
    MECHANISMS,
    PURPLE,
    legend_above,
    legend_line,
    panels,
)

_TWO_SIDED = 1.96
_GAUSSIAN, _VMF = MECHANISMS["Gaussian"], MECHANISMS["VMF"]
_STYLES = ("-", "--", ":", "-.")


def _three(values: list[float]) -> list[float]:
    """At most three: the first, the middle and the last."""
    return values if len(values) <= 3 else [values[0], values[len(values) // 2], values[-1]]


@draws(
    "beyond/vmf_rero",
    caption="Certified upper bounds on the success of any attack, over the success of a guess "
    "beforehand. Left: the whole run at the pairs of paper D's Table IV. Middle: the same noise "
    "multipliers with the concentration of truly equal epsilon. Right: one release without "
    "sub-sampling at equal epsilon, against the opposite direction and against the uniform law.",
    alt="Three panels of concave curves above the diagonal. Left: at each of three noise "
    "multipliers the curve of von Mises-Fisher noise runs above that of Gaussian noise. Middle: "
    "the two coincide. Right: the bound against the opposite direction coincides with the "
    "Gaussian one; the bound against the uniform law lies clearly below both.",
)
def vmf_rero(result: Result) -> Figure:
    figure, (row,) = panels(1, 3, 3.5, 3.5)
    curves, single = result.tables["curves"], result.tables["one release"]
    shown = _three(list(dict.fromkeys(curves["sigma"])))
    for style, sigma in zip(_STYLES, shown, strict=False):
        own = curves[curves["sigma"] == sigma]
        for axis, name in ((row[0], "VMF, printed"), (row[1], "VMF, fair")):
            axis.plot(own["prior"], own["Gaussian"], style, color=_GAUSSIAN, lw=2.8, alpha=0.6)
            axis.plot(own["prior"], own[name], style, color=_VMF, lw=1.1)
        own = single[single["sigma"] == sigma]
        row[2].plot(own["prior"], own["Gaussian"], style, color=_GAUSSIAN, lw=2.8, alpha=0.6)
        row[2].plot(own["prior"], own["VMF, opposite pair"], style, color=_VMF, lw=1.1)
        row[2].plot(own["prior"], own["VMF, uniform law"], style, color=GREEN)
    for axis, title in zip(
        row, ("run, printed pairs", "run, equal epsilon", "one release, equal epsilon"), strict=True
    ):
        axis.plot([0, 1], [0, 1], color=GREY, lw=0.9)
        axis.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="prior success", title=title)
    row[0].set_ylabel("success of any attack, at most")
    handles = [
        legend_line("Gaussian", _GAUSSIAN),
        legend_line("VMF, opposite pair", _VMF),
        legend_line("VMF, uniform law", GREEN),
        *(legend_line(rf"$\sigma$ = {s:g}", GREY, style)
          for s, style in zip(shown, _STYLES, strict=False)),
    ]  # fmt: skip
    legend_above(figure, handles, 6)
    return figure


_GEOMETRIES = {"opposite": ("o", "two opposite"), "simplex": ("s", "simplex"),
               "orthogonal": ("^", "orthogonal")}  # fmt: skip


@draws(
    "beyond/vmf_prior_aware",
    caption="The best attack on one of n candidates when gradients are turned. Left: synthetic "
    "directions at p = 13,700, one release; marks with 95% intervals are simulated, lines are "
    "Gaussian noise of the same mean cosine and the bounds for two and for n candidates. Middle "
    "and right: candidates in real batches whose other records are known, over the batch size, at "
    "equal epsilon and at equal mean cosine.",
    alt="Left: success rises with the signal; the marks of opposite, simplex and orthogonal "
    "candidates lie on the lines of Gaussian noise, and opposite ones on their bound. Middle: at "
    "equal epsilon success under Gaussian noise stays near one half while under von Mises-Fisher "
    "noise it falls towards one in n as batches grow. Right: at equal mean cosine the two "
    "mechanisms lie together.",
)
def vmf_prior_aware(result: Result) -> Figure:
    figure, (row,) = panels(1, 3, 3.6, 3.4)
    synthetic = result.tables["synthetic"]
    once = synthetic[synthetic["T"] == 1]
    for name, (marker, label) in _GEOMETRIES.items():
        own = once[once["geometry"] == name]
        row[0].plot(own["signal"], own["Gaussian"], color=_GAUSSIAN, lw=1.2)
        row[0].errorbar(own["signal"], own["success"], _TWO_SIDED * own["standard error"],
                        fmt=marker, ms=5, color=_VMF, mfc="none", label=label)  # fmt: skip
    for name in ("opposite", "orthogonal"):
        own = once[once["geometry"] == name]
        row[0].plot(own["signal"], own["bound"], ":", color=GREY)
    row[0].plot([], [], color=_GAUSSIAN, lw=1.2, label="Gaussian")
    row[0].plot([], [], ":", color=GREY, label="bound")
    row[0].set(xscale="log", ylim=(0, 1.04), xlabel=r"$\kappa\,/\sqrt{p}$", ylabel="success",
               title="synthetic directions")  # fmt: skip
    row[0].legend(loc="lower right")
    ticks = list(once["signal"].unique())
    row[0].set_xticks(ticks, [f"{t:g}" for t in ticks])
    row[0].minorticks_off()
    real = result.tables["real"]
    n = int(result.settings.get("prior_size", 10))
    for axis, held in zip(row[1:], ("epsilon", "cosine"), strict=True):
        own = real[real["held equal"] == held]
        for name, marker, aside in (("Gaussian", "o", 0.96), ("VMF", "s", 1.04)):
            axis.errorbar(
                aside * own["batch size"], own[name], _TWO_SIDED * own[f"error of {name}"],
                fmt=f"{marker}-", ms=4.5, capsize=2, color=MECHANISMS[name], label=name,
            )  # fmt: skip
        axis.axhline(1 / n, color=GREY, lw=1, ls="-.", label="guess")
        axis.set(xscale="log", ylim=(0, 1.04), xlabel="batch size B",
                 title=f"real batches, equal {held}")  # fmt: skip
        sizes = list(own["batch size"])
        axis.set_xticks(sizes, [str(s) for s in sizes])
        axis.minorticks_off()
    row[2].legend(loc="upper right")
    return figure


@draws(
    "beyond/vmf_inversion",
    caption="Analytic inversion of one record from the turned gradient of a layer with equal rows: "
    "lines are closed forms, marks are attacked pictures with 95% intervals. Left: mean cosine of "
    "the row mean with the record. Middle: least squared error that an attacker without a prior "
    "can guarantee on the direction; Gaussian noise at equal epsilon, equal capacity and equal "
    "mean cosine. Right: the Gaussian noise multiplier that each of these means.",
    alt="Left: cosines rise from near zero to 0.7; marks of both mechanisms lie on the line. "
    "Middle: errors fall from one; Gaussian noise at equal capacity and at equal cosine lies on "
    "the line of von Mises-Fisher noise, at equal epsilon clearly below it. Right: three falling "
    "straight lines, that of equal epsilon half as high as the other two.",
)
def vmf_inversion(result: Result) -> Figure:
    figure, (row,) = panels(1, 3, 3.6, 3.4)
    closed, measured = result.tables["closed forms"], result.tables["measured"]
    own = closed[closed["held equal"] == "cosine"]
    row[0].plot(own["signal"], own["VMF cosine"], color=GREY, label="closed form")
    for name, marker, aside in (("Gaussian", "o", 0.96), ("VMF", "s", 1.04)):
        part = measured[(measured["mechanism"] == name) & (measured["what"] == "cosine")]
        row[0].errorbar(
            aside * part["signal"], part["measured"], _TWO_SIDED * part["standard error"],
            fmt=marker, ms=4.5, capsize=2, color=MECHANISMS[name], label=name,
        )  # fmt: skip
    row[0].set(ylabel="mean cosine with the record", ylim=(0, 1))
    row[0].legend(loc="upper left")
    row[1].plot(own["signal"], own["VMF error"], color=_VMF, label="VMF")
    for style, colour, marker, held in (
        ("--", _GAUSSIAN, "o", "epsilon"),
        (":", PURPLE, "D", "capacity"),
        ("-.", GREEN, "^", "cosine"),
    ):
        part = closed[closed["held equal"] == held]
        row[1].plot(part["signal"], part["Gaussian error"], style, marker=marker, ms=4.5,
                    mfc="none", color=colour, label=f"Gaussian, equal {held}")  # fmt: skip
        row[2].plot(part["signal"], part["Gaussian noise"], style, marker=marker, ms=4.5,
                    mfc="none", color=colour, label=f"equal {held}")  # fmt: skip
    row[1].set(ylabel="squared error of the direction", ylim=(0, 1.04))
    row[1].legend(loc="lower left")
    row[2].set(ylabel=r"Gaussian $\sigma$", yscale="log")
    row[2].legend(loc="lower left")
    ticks = list(own["signal"])
    for axis in row:
        axis.set(xscale="log", xlabel=r"$\kappa\,/\sqrt{p}$")
        axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axis.minorticks_off()
    return figure
