"""Table 1: every exponent of both bounds under every defence, measured."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.exhibit import DEFENCES
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
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    FACTORS,
    NEAR,
    PowerLaw,
    check_exponents,
    laws_of,
    listed,
    slopes,
)
from companion.papers.liu2024.tensor_errors import draw_problem, length_of_error, released
from reconrisk.attacks import refine_records, tensor_attack

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-011", "E-E-08")
SHOWN = ("table",)
ALTERED = {
    "upper exponents": EXPONENTS,
    "lower exponents": {"value": by("exponent of", "the bound's exponents", FACTORS)},
    "without noise": {"least squares": "least-squares errors without noise"},
    "attack over 1-p": {("error", "low", "high"): "errors under dropout"},
    "bound over 1-p": {("error", "low", "high"): "bounds under dropout"},
    "dropped share": {"left": "shares of neurons left"},
}

#: errors under dropout may be this factor off those of narrower networks, attack and bound: the
#: attack's scatter by an eighth (one standard error); without an effect it would be two or four
NARROWER = {"attack": 1.5, "bound": 1.05}
#: share of the neurons that may be left more, or less
SHARE = 0.01

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
            "dropped share": _dropped_share(study.rng("dropped share"), p=0.25, width=100_000),
            "without noise": _without_noise(study),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _attack_means(study: Context) -> dict[str, pd.DataFrame]:
    noise = of_levels(attack_sweep(study, "noise")).assign(defence="noise")
    return {
        "m": means_over(attack_sweep(study, "width"), "width"),
        "d": means_over(attack_sweep(study, "dimension"), "dimension"),
        "B": means_over(attack_sweep(study, "batch"), "batch"),
        "sigma0": means_over(noise, "level"),
        "ratio": by_ratio(attack_sweep(study, "clipped")),
        "1-p": _over_kept(attack_sweep(study, "dropout")),
        "m pruned": means_over(attack_sweep(study, "pruned"), "width"),
        "m both": means_over(attack_sweep(study, "clipped width"), "width"),
    }


def _bound_means(study: Context) -> dict[str, pd.DataFrame]:
    clipped = bound_sweep(study, "clipped")
    # the undefended bound is proportional to the noise
    unit = means_over(of_defence(clipped).assign(level=1.0), "level")
    noises = sorted(set(study.parameters.noises))
    return {
        "m": means_over(of_defence(bound_sweep(study, "width")), "width"),
        "d": means_over(of_defence(bound_sweep(study, "dimension")), "dimension"),
        "B": means_over(bound_sweep(study, "batch"), "batch"),
        "ratio": _times(by_ratio(clipped), CLIPPED_NOISE),
        "1-p": _over_kept(bound_sweep(study, "dropout")),
        "sigma0": pd.concat([_times(unit, s).assign(level=s) for s in noises], ignore_index=True),
    }


def _over_kept(sweep: pd.DataFrame) -> pd.DataFrame:
    """Means of a sweep over dropout, by the share of neurons that is kept."""
    dropped = of_levels(sweep)
    return means_over(dropped.assign(defence="dropout", left=1 - dropped["level"]), "left")


def _times(points: pd.DataFrame, noise: float) -> pd.DataFrame:
    """Bounds at unit noise, rescaled to another."""
    return points.assign(**{c: noise * points[c] for c in ("error", "low", "high")})


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
    """One exponent of one cell of Table 1, with the printed one (nan if none is printed).

    In m it is 0 for a fixed threshold, since |G| grows as the root of m. ``at_most``: the printed
    order is a bound, and ours may be smaller.
    """

    factor: str
    fit: PowerLaw
    paper: float
    note: str = ""
    at_most: bool = False
    room: float = NEAR

    @property
    def holds(self) -> bool:
        near = self.fit.near(self.paper, self.room)
        return near or (self.at_most and self.fit.exponent < self.paper)

    @property
    def text(self) -> str:
        return f"{self.fit}" + (f" ({self.note})" if self.note else "")


Cells = Mapping[tuple[str, str], Sequence[_Entry]]


def _cells(upper: Mapping[str, PowerLaw], lower: Mapping[str, PowerLaw], q: float) -> Cells:
    """The exponents of every cell of Table 1, at the pruned share q."""

    def root(found: Mapping[str, PowerLaw], name: str) -> list[_Entry]:
        orders = {"m": -0.5, "d": 0.5}
        kept = (letter for letter in orders if f"{name} {letter}" in found)
        return [_Entry(letter, found[f"{name} {letter}"], orders[letter]) for letter in kept]

    def own(fit: PowerLaw, paper: float, note: str) -> _Entry:
        return _Entry("own factor", fit, paper, note)

    undefended = [*root(lower, "none"), _Entry("B", lower["random B"], 0.0)]
    clipped = [
        _Entry("m", lower["clip m"], 0.0, "C fixed"),
        own(lower["both ratio"], 1.0, "|G|/C"),
    ]
    batch = [
        _Entry("B", upper[f"{labels} B"], 1.0, f"{labels} labels", at_most=True)
        for labels in ("random", "equal")
    ]
    return {
        ("upper", "No defense"): [*root(upper, "none"), *batch],
        ("upper", "Local aggregation"): root(upper, "local"),
        ("upper", "Gradient noise"): [
            *root(upper, "noise"),
            own(upper["noise sigma0"], 1.0, "sigma0"),
        ],
        ("upper", "Gradient clipping"): root(upper, "clip"),
        ("upper", "DP-SGD"): [
            # the noise of the data is not yet small against this one's at the least width
            _Entry("m", upper["both m"], 0.0, "C fixed", room=2 * NEAR),
            own(upper["both ratio"], 1.0, "|G|/C"),
        ],
        ("upper", "Dropout"): [
            *root(upper, "dropout"),
            own(upper["dropout 1-p"], -0.5, "1 - p"),
        ],
        ("upper", "Gradient pruning"): [
            _Entry("m", upper[f"pruned {q:g} m"], math.nan, f"p = {q:g}")
        ],
        # the bound is one under noise: its undefended cell is that of gradient noise as well, and
        # its clipping cell that of DP-SGD
        ("lower", "No defense"): undefended,
        ("lower", "Local aggregation"): root(lower, "local"),
        ("lower", "Gradient noise"): undefended,
        ("lower", "Gradient clipping"): clipped,
        ("lower", "DP-SGD"): clipped,
        ("lower", "Dropout"): [
            *root(lower, "dropout"),
            own(lower["dropout 1-p"], -0.5, "1 - p"),
        ],
        ("lower", "Gradient pruning"): [
            _Entry("m", lower[f"pruned {q:g} m"], -0.5, f"p = {q:g}"),
            own(lower["pruned share"], -0.5, "share kept"),
        ],
    }


def _table(cells: Cells) -> pd.DataFrame:
    """A column for each defence, the printed orders and our exponents below."""
    rows = registry.printed("liu2024/table1")
    orders = rows.assign(bound=rows["metric"].str[:5]).set_index(["bound", "defense"])["value"]
    lines = []
    for bound in ("upper", "lower"):
        lines.append({"bound": bound, "what": "order", **{c: orders[bound, c] for c in COLUMNS}})
        for what in ("m", "d", "B", "own factor"):
            texts = {
                c: "; ".join(e.text for e in cells[bound, c] if e.factor == what) or "-"
                for c in COLUMNS
            }
            lines.append({"bound": bound, "what": what, **texts})
    return pd.DataFrame(lines)


# Verdicts ----------------------------------------------------------------------------------------


def judge(tables: Tables) -> Iterator[Verdict]:
    upper, lower = (laws_of(tables[f"{row} exponents"]) for row in ("upper", "lower"))
    both, q = (upper, lower), tables.parameters.prunings[-1]
    yield from _judge_orders(_cells(upper, lower, q))
    statement = "under pruning the attack's error does not fall with the width: no upper bound"
    yield check_exponents("liu2024/table1", upper, statement, {f"pruned {q:g} m": 0})
    yield _judge_match(upper, lower, tables["without noise"].iloc[0])
    apart = {row: _against_narrower(tables, row) for row in NARROWER}
    close = [within(*apart[row], math.log(factor)) for row, factor in NARROWER.items()]
    orders = all(laws["dropout 1-p"].near(-0.5, NEAR) for laws in both)
    yield check(
        "E-011",
        every(orders, *close),
        "dropping a share p of the neurons is having (1 - p) m: errors and bounds are those of "
        "narrower networks, and grow as (1 - p)^-1/2",
        ours=f"exponents of 1 - p: {slopes(upper, 'dropout 1-p')} (attack), "
        f"{slopes(lower, 'dropout 1-p')} (Cramer-Rao); over narrower networks': "
        + ", ".join(f"{rounded(math.exp(v), e)} ({row})" for row, (v, _, e) in apart.items()),
        paper="-1/2",
        tolerance=f"{NEAR:g}; factors of {NARROWER['attack']:g} and {NARROWER['bound']:g}",
    )
    share = tables["dropped share"].iloc[0]
    p, left = share["p"], share["left"]
    error = math.sqrt(p * (1 - p) / share["neurons"])
    yield refute(
        "E-E-08",
        holds=within(left, 1 - p, error, SHARE),
        corrected_holds=within(left, p, error, SHARE),
        ours=f"share left at p = {p:g}: {left:.2f}",
        paper=f"{1 - p:g}",
    )


def _judge_match(
    upper: Mapping[str, PowerLaw], lower: Mapping[str, PowerLaw], errors: pd.Series
) -> Verdict:
    """What matches between the rows, as the abstract says, and what does not."""
    match = all(
        laws["none m"].near(-0.5, NEAR) and laws["none d"].near(0.5, NEAR)
        for laws in (upper, lower)
    )
    gap = upper["equal B"].exponent - lower["random B"].exponent
    exact, tensor = errors["least squares"], errors["tensor attack"]
    return check(
        "liu2024/table1",
        match and gap > NEAR and exact < 1e-6 < 1e-2 < tensor,
        "both rows have the same orders of m and d, as the abstract says; in B they differ, and "
        "without noise, where the lower bound is zero, least squares attain it and the tensor "
        "attack does not",
        ours=f"in B {slopes(upper, 'equal B')} against {slopes(lower, 'random B')} (equal labels); "
        f"without noise {tensor:.1g} against {'below 1e-6' if exact < 1e-6 else exact}",
        paper="matching in feature dimension and architecture dimension",
    )


def _against_narrower(tables: Tables, row: str) -> tuple[float, float, float]:
    """Logarithm of errors under dropout over those of networks of the width left.

    Returns the mean over all widths that are left and were measured, zero, the value expected, and
    the standard error.
    """
    over_width = tables[f"{row} over m"]
    plain = of_defence(over_width).set_index("width")
    dropped = tables[f"{row} over 1-p"].assign(width=tables.parameters.widths[-2])
    some = [dropped, of_defence(over_width, "dropout").assign(left=0.5)]
    cells = pd.concat(some).drop_duplicates(["width", "left"])
    cells = cells.assign(width=cells["width"] * cells["left"])
    cells = cells[cells["width"].isin(plain.index) & (cells["left"] < 1)]
    narrow = plain.loc[cells["width"]]
    ratios = np.log(cells["error"].to_numpy() / narrow["error"].to_numpy())
    # the intervals of means_over are those of two standard errors
    errors = [np.log((t["high"] / t["error"]).to_numpy()) / 1.96 for t in (cells, narrow)]
    error = math.sqrt(sum(float(np.sum(e**2)) for e in errors)) / len(ratios)
    return float(np.mean(ratios)), 0.0, error


def _judge_orders(cells: Cells) -> Iterator[Verdict]:
    """Exponents in d, m, sigma, |G|/C and 1 - p; then in B."""
    entries = [(f"{b} row, {c}, {e.factor}", e) for (b, c), es in cells.items() for e in es]
    orders = [(name, e) for name, e in entries if not (e.at_most or math.isnan(e.paper))]
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


# Picture -----------------------------------------------------------------------------------------

CAPTION = (
    "Table 1 as measured: error of the tensor attack (filled, 95% intervals) and "
    "Cramér-Rao bound (hollow; at unit noise, with clipping at one half) over every factor. "
    "Dotted: printed orders. Clipping alone and local steps change nothing and would lie on the "
    "grey lines. Clipping with noise at a fixed threshold is flat in the width because the "
    "gradient's norm grows with it. Under pruning (with elu) the attack does not improve with the "
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
        "Seven panels with logarithmic axes. Undefended, the attack's error has slopes of "
        f"{slope['none m']} over the width, {slope['none d']} over the dimension and "
        f"{slope['random B']} over the batch size. Under defences it has {slope['noise sigma0']} "
        f"over the noise, {slope['both ratio']} over the clipping ratio and "
        f"{slope['dropout 1-p']} over the share of kept neurons. Over the width it is nearly flat "
        "under the heaviest pruning "
        f"({slope[heaviest]}) and under clipping with noise ({slope['both m']}). Hollow points of "
        "the lower bound lie on dotted lines of the printed orders."
    )


@drawing
def draw(tables: Tables) -> Figure:
    figure, ((first, second, third, fourth), own) = panels(2, 4, width=2.75, height=2.6)
    for axis, letter, x, power in ((first, "m", "width", -0.5), (third, "d", "dimension", 0.5)):
        over = tables[f"attack over {letter}"]
        for name in ("none", "noise", "dropout"):
            draw_means(axis, of_defence(over, name), x, _LOOKS[name])
        draw_order(axis, of_defence(over), x, power, last=True)
        _draw_bound(axis, tables[f"bound over {letter}"], x, power)
        ticks = spread_widths(over) if x == "width" else sorted(set(over[x]))
        set_logarithmic(axis, f"{x} {letter}", ticks)
    lightest, heaviest = (tables.parameters.prunings[k] for k in (0, -1))
    _draw_pruning(second, tables, lightest, heaviest)
    batch = tables["attack over B"]
    for kind, line in (("random", "-"), ("equal", "--")):
        draw_means(fourth, batch[batch["labels"] == kind], "batch", _LOOKS["none"], line)
    draw_order(fourth, batch[batch["labels"] == "random"], "batch", 1.0)
    _draw_bound(fourth, tables["bound over B"], "batch", 0.0)
    set_logarithmic(fourth, "batch size B", sorted(set(batch["batch"])))
    _draw_own_factors(own, tables)
    for axis in (first, own[0]):
        axis.set_ylabel("error of the records")
    pruning = f"pruning, p = {lightest:g} (dashed {heaviest:g})"
    legend_above(
        figure,
        [
            legend_line("no defence", GREY, "-", "o"),
            legend_line("noise", _LOOKS["noise"]["color"], "-", "^"),
            legend_line("dropout", _LOOKS["dropout"]["color"], "-", _LOOKS["dropout"]["marker"]),
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
    """Draw errors that do not fall with the width, beside one that does."""
    pruned = tables["attack over m pruned"]
    for share, line in ((lightest, "-"), (heaviest, "--")):
        draw_means(axis, of_defence(pruned, f"{share:g}"), "width", _LOOKS["pruned"], line)
    draw_means(axis, of_defence(tables["attack over m both"], "both"), "width", _LOOKS["both"])
    draw_means(axis, of_defence(pruned), "width", _LOOKS["none"])
    draw_order(axis, of_defence(pruned), "width", -0.5, last=True)
    set_logarithmic(axis, "width m: pruning, clipping", spread_widths(pruned))


def _draw_own_factors(axes: list[Axes], tables: Tables) -> None:
    """Draw the errors over the factors that belong to one defence alone."""
    factors = (
        ("sigma0", "level", 1.0, "noise", r"noise $\sigma_0$"),
        ("ratio", "ratio", 1.0, "both", "clipping ratio |G| / C"),
        ("1-p", "left", -0.5, "dropout", "share 1 - p of kept neurons"),
    )
    for axis, (key, x, power, name, label) in zip(axes, factors, strict=False):
        over = tables[f"attack over {key}"]
        draw_means(axis, over, x, _LOOKS[name])
        draw_order(axis, over, x, power, last=True)
        _draw_bound(axis, tables[f"bound over {key}"], x, power, name)
        ticks = (1, 2, 5, 10, 20, 50) if x == "ratio" else sorted(set(over[x]))
        set_logarithmic(axis, label, ticks)
    axes[-1].set_axis_off()
