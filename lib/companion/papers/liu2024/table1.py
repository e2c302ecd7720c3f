"""Table 1: every exponent of both bounds under every defence, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    CLIPPED_NOISE,
    attack_laws,
    attack_sweep,
    bound_laws,
    bound_sweep,
    by_ratio,
    means_over,
    of_defence,
    of_levels,
)
from companion.papers.liu2024.factor_panels import (
    draw_means,
    draw_order,
    set_logarithmic,
    spread_widths,
)
from companion.papers.liu2024.power_laws import NEAR, PowerLaw, laws_of, listed, slopes
from companion.papers.liu2024.tensor_errors import draw_problem, length_of_error, released
from companion.study import Context, Tables, Verdict, check, measurement, refute
from companion.study.registry import printed
from companion.study.verdicts import rounded
from companion.style import DEFENCES, GREY, drawing, legend_above, legend_line, panels
from reconrisk.attacks import refine_records, tensor_attack

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-011", "E-E-08", "E-E-11")
SHOWN = ("table",)

COLUMNS = (
    "No defense",
    "Local aggregation",
    "Gradient noise",
    "Gradient clipping",
    "DP-SGD",
    "Dropout",
    "Gradient pruning",
)


@measurement
def measure(study: Context) -> Tables:
    upper, lower = attack_laws(study), bound_laws(study)
    return Tables(
        {
            "table": _table(_cells(upper, lower, study.parameters.prunings[-1])),
            "upper exponents": listed(upper),
            "lower exponents": listed(lower),
            **{f"attack over {k}": v for k, v in _attack_means(study).items()},
            **{f"bound over {k}": v for k, v in _bound_means(study).items()},
            "narrower networks": _narrower_networks(study),
            "dropped share": _dropped_share(study.rng("dropped share"), p=0.25, width=100_000),
            "without noise": _without_noise(study),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _attack_means(study: Context) -> dict[str, pd.DataFrame]:
    noise = of_levels(attack_sweep(study, "noise")).assign(defence="noise")
    dropped = of_levels(attack_sweep(study, "dropout"))
    left = dropped.assign(defence="dropout", left=1 - dropped["level"])
    return {
        "m": means_over(attack_sweep(study, "width"), "width"),
        "d": means_over(attack_sweep(study, "dimension"), "dimension"),
        "B": means_over(attack_sweep(study, "batch"), "batch"),
        "sigma0": means_over(noise, "level"),
        "ratio": by_ratio(attack_sweep(study, "clipped")),
        "1-p": means_over(left, "left"),
        "m pruned": means_over(attack_sweep(study, "pruned"), "width"),
        "m both": means_over(attack_sweep(study, "clipped width"), "width"),
    }


def _bound_means(study: Context) -> dict[str, pd.DataFrame]:
    clipped = bound_sweep(study, "clipped")
    dropped = of_levels(bound_sweep(study, "dropout"))
    left = dropped.assign(defence="dropout", left=1 - dropped["level"])
    # the undefended bound is proportional to the noise
    unit = means_over(of_defence(clipped).assign(level=1.0), "level")
    noises = sorted(set(study.parameters.noises))
    return {
        "m": means_over(of_defence(bound_sweep(study, "width")), "width"),
        "d": means_over(of_defence(bound_sweep(study, "dimension")), "dimension"),
        "B": means_over(bound_sweep(study, "batch"), "batch"),
        "ratio": _times(by_ratio(clipped), CLIPPED_NOISE),
        "1-p": means_over(left, "left"),
        "sigma0": pd.concat(
            [_times(unit, sigma).assign(level=sigma) for sigma in noises], ignore_index=True
        ),
    }


def _times(points: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Bounds at unit noise, at another."""
    return points.assign(**{c: factor * points[c] for c in ("error", "low", "high")})


def _narrower_networks(study: Context) -> pd.DataFrame:
    """Dropout against networks of the width that it leaves, in standard errors."""
    widths = study.parameters.widths
    wide, dropped = attack_sweep(study, "width"), of_levels(attack_sweep(study, "dropout"))
    plain, rows = of_defence(wide), []
    for times in (2, 4):
        for whole, part in ((a, b) for a in widths for b in widths if a == times * b):
            share = 1 - part / whole
            some = of_defence(wide, "dropout") if times == 2 else dropped[dropped["level"] == share]
            some = some[some["width"] == whole]
            if len(some):
                narrow = plain.loc[plain["width"] == part, "error"]
                rows.append(
                    {
                        "width": whole,
                        "dropped": share,
                        "standard errors": _standard_errors(some["error"], narrow),
                    }
                )
    return pd.DataFrame(rows)


def _standard_errors(first: pd.Series, second: pd.Series) -> float:
    """Difference of two mean logarithms over its standard error."""
    a, b = np.log(first), np.log(second)
    error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return float((a.mean() - b.mean()) / error)


def _dropped_share(rng: np.random.Generator, p: float, width: int) -> pd.DataFrame:
    """How many neurons are left when each is dropped with probability 1 - p."""
    left = float(np.mean(rng.random(width) >= 1 - p))
    return pd.DataFrame([{"p": p, "neurons": width, "left": left}])


def _without_noise(study: Context) -> pd.DataFrame:
    """The tensor attack on one undefended network, and a least-squares fit from there."""
    task = {"base": study.seed, "activation": study.parameters.activation, "network": 0}
    task |= {"dimension": 8, "width": 65536, "batch": 2, "labels": "random"}
    problem = draw_problem(task)
    network, x = problem.network, problem.inputs
    gradient, _ = released(problem, {})
    published = tensor_attack(network, gradient, 2, removed=0)
    refined = refine_records(network, gradient, tensor_attack(network, gradient, 2))
    errors = {
        "tensor attack": length_of_error(x, published.inputs),
        "least squares": length_of_error(x, refined.inputs, signs=False),
    }
    return pd.DataFrame([errors])


# The paper's layout ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """One exponent of one cell of Table 1.

    ``paper`` is the printed exponent; 0 in m for a fixed threshold, since |G| goes as its root.
    ``at_most``: the bound only asks that ours is no larger. ``none``: nothing is printed.
    """

    what: str
    fit: PowerLaw
    paper: float
    note: str = ""
    at_most: bool = False
    none: bool = False
    room: float = NEAR

    @property
    def holds(self) -> bool:
        if self.at_most:
            return self.fit.exponent <= self.paper + self.room
        return self.fit.near(self.paper, self.room)

    @property
    def text(self) -> str:
        return f"{self.fit}" + (f" ({self.note})" if self.note else "")


Cells = Mapping[tuple[str, str], Sequence[_Entry]]


def _cells(upper: Mapping[str, PowerLaw], lower: Mapping[str, PowerLaw], q: float) -> Cells:
    """What is measured for every cell of Table 1, at the pruned share q."""

    def root(found: Mapping[str, PowerLaw], name: str) -> list[_Entry]:
        return [
            _Entry(letter, found[f"{name} {letter}"], -0.5 if letter == "m" else 0.5)
            for letter in ("m", "d")
            if f"{name} {letter}" in found
        ]

    fixed, left, own = "C fixed", "1 - p", "own factor"
    undefended = [*root(lower, "none"), _Entry("B", lower["random B"], 0.0)]
    clipped = [
        _Entry("m", lower["clip m"], 0.0, fixed),
        _Entry(own, lower["both ratio"], 1.0, "|G|/C"),
    ]
    rows = {
        "upper": (
            [
                *root(upper, "none"),
                _Entry("B", upper["random B"], 1.0, "random labels", at_most=True),
                _Entry("B", upper["equal B"], 1.0, "equal labels", at_most=True),
            ],
            root(upper, "local"),
            [*root(upper, "noise"), _Entry(own, upper["noise sigma0"], 1.0, "sigma0")],
            root(upper, "clip"),
            [
                # the noise of the data is not yet small against this one's at the least width
                _Entry("m", upper["both m"], 0.0, fixed, room=2 * NEAR),
                _Entry(own, upper["both ratio"], 1.0, "|G|/C"),
            ],
            [*root(upper, "dropout"), _Entry(own, upper["dropout 1-p"], -0.5, left)],
            [_Entry("m", upper[f"pruned {q:g} m"], 0.0, f"p = {q:g}", none=True)],
        ),
        # gradient noise is what the bound without defence has, and DP-SGD what clipping has
        "lower": (
            undefended,
            root(lower, "local"),
            undefended,
            clipped,
            clipped,
            [*root(lower, "dropout"), _Entry(own, lower["dropout 1-p"], -0.5, left)],
            [
                _Entry("m", lower[f"pruned {q:g} m"], -0.5, f"p = {q:g}"),
                _Entry(own, lower["pruned share"], -0.5, "share kept"),
            ],
        ),
    }
    return {
        (bound, column): entries
        for bound, row in rows.items()
        for column, entries in zip(COLUMNS, row, strict=True)
    }


def _table(cells: Cells) -> pd.DataFrame:
    """A column for each defence, the printed orders and our exponents below."""
    rows = printed("liu2024/table1")
    orders = rows.assign(bound=rows["metric"].str[:5]).set_index(["bound", "defense"])["value"]
    lines = []
    for bound in ("upper", "lower"):
        lines.append({"bound": bound, "what": "order", **{c: orders[bound, c] for c in COLUMNS}})
        for what in ("m", "d", "B", "own factor"):
            texts = {
                c: "; ".join(e.text for e in cells[bound, c] if e.what == what) or "-"
                for c in COLUMNS
            }
            lines.append({"bound": bound, "what": what, **texts})
    return pd.DataFrame(lines)


# Verdicts ----------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Verdict]:
    upper, lower = (laws_of(tables[f"{row} exponents"]) for row in ("upper", "lower"))
    yield from _judge_cells(_cells(upper, lower, tables.parameters.prunings[-1]))
    yield _judge_dropout(tables, upper, lower)
    share = tables["dropped share"].iloc[0]
    p, left = share["p"], share["left"]
    room = 5 * math.sqrt(p * (1 - p) / share["neurons"])
    yield refute(
        "E-E-08",
        holds=abs(left - (1 - p)) < room,
        corrected_holds=abs(left - p) < room,
        ours=f"share left at p = {p:g}: {left:.2f}",
        paper=f"{1 - p:g}",
    )
    yield _judge_match(tables, upper, lower)


def _judge_cells(cells: Cells) -> Iterator[Verdict]:
    """Every entry with an exponent in d, m, sigma, |G|/C and 1 - p; then B; then pruning."""
    entries = [(f"{bound} row, {c}, {e.what}", e) for (bound, c), es in cells.items() for e in es]
    orders = [(name, e) for name, e in entries if not (e.at_most or e.none)]
    off = [name for name, e in orders if not e.holds]
    yield check(
        "liu2024/table1",
        not off,
        "the exponents of m, d, sigma, |G|/C and 1 - p in both rows",
        ours=f"{len(orders) - len(off)} of {len(orders)} agree"
        + (f"; not: {', '.join(off)}" * bool(off)),
        paper="-1/2, 1/2, 1, 1, -1/2",
        tolerance=f"{NEAR:g}, {2 * NEAR:g} for m under DP-SGD",
    )
    at_most = [e for _, e in entries if e.at_most]
    yield check(
        "liu2024/table1",
        all(e.holds for e in at_most),
        "the upper row's B is a bound: the error grows no faster",
        ours=" and ".join(f"{rounded(e.fit.exponent, e.fit.error)} with {e.note}" for e in at_most),
        paper="1",
        tolerance=f"{NEAR:g}, one-sided",
    )
    pruned = next(e for _, e in entries if e.none)
    yield check(
        "liu2024/table1",
        pruned.holds,
        "under pruning the attack's error does not fall with the width: no upper bound",
        ours=f"exponent of m at {pruned.note}: {rounded(pruned.fit.exponent, pruned.fit.error)}",
        paper="none derived",
        tolerance=f"{NEAR:g}",
    )


def _judge_dropout(
    tables: Tables, upper: Mapping[str, PowerLaw], lower: Mapping[str, PowerLaw]
) -> Verdict:
    apart = tables["narrower networks"]["standard errors"].abs().max()
    return check(
        "E-011",
        apart < 4 and all(laws["dropout 1-p"].near(-0.5, NEAR) for laws in (upper, lower)),
        "dropping a share p of the neurons is having (1 - p) m: the errors are those of narrower "
        "networks, and both bounds go as (1 - p)^-1/2",
        ours=f"exponents of 1 - p: {slopes(upper, 'dropout 1-p')} (attack), "
        f"{slopes(lower, 'dropout 1-p')} (Cramer-Rao); narrower networks {apart:.1f} "
        "standard errors off",
        paper="-1/2",
        tolerance=f"{NEAR:g}; 4 standard errors",
    )


def _judge_match(
    tables: Tables, upper: Mapping[str, PowerLaw], lower: Mapping[str, PowerLaw]
) -> Verdict:
    """Whether the rows match: in d and m, in B, and without noise."""
    tensor, exact = tables["without noise"].loc[0, ["tensor attack", "least squares"]]
    in_width = all(laws["none m"].near(-0.5, NEAR) for laws in (upper, lower))
    in_dimension = all(laws["none d"].near(0.5, NEAR) for laws in (upper, lower))
    gap = upper["equal B"].exponent - lower["random B"].exponent
    return refute(
        "E-E-11",
        holds=gap < NEAR and exact > 0.1 * tensor,
        corrected_holds=in_width and in_dimension and gap > NEAR and exact < 1e-4 < tensor,
        ours=f"without noise {tensor:.1g} against {'below 1e-4' if exact < 1e-4 else exact}; in B "
        f"{slopes(upper, 'equal B')} against {slopes(lower, 'random B')} (equal labels)",
        paper="matching",
    )


# Picture -----------------------------------------------------------------------------------------

CAPTION = (
    "Table 1 as measured: error of the tensor attack (filled, 95% intervals) and "
    "Cramér-Rao bound (hollow; at unit noise, with clipping at one half) over every factor. "
    "Dotted: printed orders. Clipping alone and local steps change nothing and would lie on the "
    "grey lines. Clipping with noise at a fixed threshold is flat in the width because the "
    "gradient's norm grows with it; under pruning (with elu) the attack does not improve with the "
    "width."
)

_LOOKS = {
    "none": DEFENCES["None"],
    "noise": DEFENCES["GradNoise"],
    "dropout": DEFENCES["GradDrop"],
    "both": DEFENCES["GradClip"],
    "pruned": DEFENCES["GradPrune"],
}


def alt(tables: Tables) -> str:
    upper = laws_of(tables["upper exponents"])
    slope = {name: f"{law.exponent + 0.0:.1f}" for name, law in upper.items()}
    heaviest = f"pruned {tables.parameters.prunings[-1]:g} m"
    return (
        "Seven panels with logarithmic axes. Undefended, the attack's error goes with slopes of "
        f"{slope['none m']} over the width, {slope['none d']} over the dimension and "
        f"{slope['random B']} over the batch size; it goes with {slope['noise sigma0']} over the "
        f"noise, {slope['both ratio']} over the clipping ratio and {slope['dropout 1-p']} over the "
        "share of kept neurons. Over the width it is nearly flat under the heaviest pruning "
        f"({slope[heaviest]}) and under clipping with noise ({slope['both m']}). Hollow points of "
        "the lower bound lie on dotted lines of the printed orders."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure, axes = panels(2, 4, width=2.75, height=2.6)
    over_m, over_d, over_b = (tables[f"attack over {k}"] for k in ("m", "d", "B"))
    first, second, third, fourth = axes[0]
    for name in ("none", "noise", "dropout"):
        draw_means(first, of_defence(over_m, name), "width", _LOOKS[name])
        draw_means(third, of_defence(over_d, name), "dimension", _LOOKS[name])
    draw_order(first, of_defence(over_m), "width", -0.5, last=True)
    draw_order(third, of_defence(over_d), "dimension", 0.5, last=True)
    _draw_bound(first, tables["bound over m"], "width", -0.5)
    _draw_bound(third, tables["bound over d"], "dimension", 0.5)
    lightest, heaviest = (tables.parameters.prunings[k] for k in (0, -1))
    _draw_pruning(second, tables, lightest, heaviest)
    for kind, line in (("random", "-"), ("equal", "--")):
        draw_means(fourth, over_b[over_b["labels"] == kind], "batch", _LOOKS["none"], line)
    draw_order(fourth, over_b[over_b["labels"] == "random"], "batch", 1.0)
    _draw_bound(fourth, tables["bound over B"], "batch", 0.0)
    set_logarithmic(first, "width m", spread_widths(over_m))
    set_logarithmic(third, "dimension d", sorted(set(over_d["dimension"])))
    set_logarithmic(fourth, "batch size B", sorted(set(over_b["batch"])))
    _draw_own_factors(axes[1], tables)
    for line in axes:
        line[0].set_ylabel("error of the records")
    pruning = f"pruning, p = {lightest:g} (dashed {heaviest:g})"
    legend_above(
        figure,
        [
            legend_line("no defence", GREY, "-", "o"),
            legend_line("noise", _LOOKS["noise"]["color"], "-", "^"),
            legend_line("dropout", _LOOKS["dropout"]["color"], "-", "D"),
            legend_line("clipping and noise", _LOOKS["both"]["color"], "-", "s"),
            legend_line(pruning, _LOOKS["pruned"]["color"], "-", "v"),
            legend_line("equal labels", GREY, "--", "o"),
            legend_line("Cramér-Rao bound", GREY, "", "o", markerfacecolor="white"),
            legend_line("printed order", "black", ":"),
        ],
        4,
    )
    return figure


def _draw_bound(axis: Axes, table: pd.DataFrame, x: str, power: float, name: str = "none") -> None:
    """Draw the Cramér-Rao bound in hollow points, with its printed order."""
    draw_means(axis, table, x, _LOOKS[name], "", markerfacecolor="white")
    draw_order(axis, table, x, power)


def _draw_pruning(axis: Axes, tables: Tables, lightest: float, heaviest: float) -> None:
    """Draw what does not fall with the width, beside what does."""
    pruned = tables["attack over m pruned"]
    for share, line in ((lightest, "-"), (heaviest, "--")):
        draw_means(axis, of_defence(pruned, f"{share:g}"), "width", _LOOKS["pruned"], line)
    draw_means(axis, of_defence(tables["attack over m both"], "both"), "width", _LOOKS["both"])
    draw_means(axis, of_defence(pruned), "width", _LOOKS["none"])
    draw_order(axis, of_defence(pruned), "width", -0.5, last=True)
    set_logarithmic(axis, "width m: pruning, clipping", spread_widths(pruned))


def _draw_own_factors(axes: list[Axes], tables: Tables) -> None:
    """Draw the factors that one defence has alone."""
    noise, ratio, left = (tables[f"attack over {k}"] for k in ("sigma0", "ratio", "1-p"))
    draw_means(axes[0], noise, "level", _LOOKS["noise"])
    draw_order(axes[0], noise, "level", 1.0, last=True)
    _draw_bound(axes[0], tables["bound over sigma0"], "level", 1.0, "noise")
    set_logarithmic(axes[0], r"noise $\sigma_0$", sorted(set(noise["level"])))
    draw_means(axes[1], ratio, "ratio", _LOOKS["both"])
    draw_order(axes[1], ratio, "ratio", 1.0, last=True)
    _draw_bound(axes[1], tables["bound over ratio"], "ratio", 1.0, "both")
    set_logarithmic(axes[1], "clipping ratio |G| / C", (1, 2, 5, 10, 20, 50))
    draw_means(axes[2], left, "left", _LOOKS["dropout"])
    draw_order(axes[2], left, "left", -0.5, last=True)
    _draw_bound(axes[2], tables["bound over 1-p"], "left", -0.5, "dropout")
    set_logarithmic(axes[2], "share 1 - p of kept neurons", sorted(set(left["left"])))
    axes[3].set_axis_off()
