"""Figure 10: the attack with and without subtracting the known records' gradients."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.papers.hayes2023 import threat_points as threat
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.style import BLUE, GREEN, ORANGE, drawing

PARAMETERS = {
    "data": threat.data_parameter(),
    "epsilons": threat.epsilons((1.0, 10.0, 40.0, 100.0), (*threat.EPSILONS, 100.0)),
    "known_sizes": Parameter(
        *("ints", (4, 128), (4, 128), "4, 128 (and 999 with subtraction)"),
        "|D-|, other records, whose gradients are subtracted or not",
        low=2,
    ),
    **threat.common_parameters(),
    "max_grad_norm": threat.CLIPPING_NORM,
    "learning_rate": threat.LEARNING_RATE,
    "trials": threat.trials(200, "trials with a model of their own, a point"),
    **threat.shared_parameters(),
}
SETTLES = ("C-042",)


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tasks = [
        task
        for known in p.known_sizes
        for e in p.epsilons
        for subtract in (True, False)
        for task in threat.attack_tasks(study, [e], "own model", known=known, subtract=subtract)
    ]
    tasks += threat.attack_tasks(study, p.epsilons, "shared")
    success = threat.select(threat.swept(study, threat.attack_point, tasks), score="sum")
    few, many = min(p.known_sizes), max(p.known_sizes)
    return Tables(
        {
            "success": success[
                ["epsilon", "known", "subtract", "method", "success", "low", "high", "trials"]
            ],
            **threat.points_and_curves(p),
        },
        exact=("curves",),
        ran=threat.describe_run(p, f"|D-| = {few}, {many} and {p.known}, with subtraction or not"),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p, success = tables.parameters, tables["success"]
    few, many = min(p.known_sizes), max(p.known_sizes)
    chance = 1 / p.prior_size

    def shares(known: int, subtract: bool) -> pd.Series:
        rows = threat.select(success, known=known, subtract=subtract, method="own model")
        return rows.set_index("epsilon")["success"]

    def kept(known: int) -> float:
        """Success beyond chance without subtraction, as a share of that with it."""
        return (shares(known, False) - chance).sum() / (shares(known, True) - chance).sum()

    loss, lost = shares(few, True) - shares(few, False), shares(many, False)
    subtraction = check(
        "hayes2023/fig10",
        kept(few) > 0.5
        and loss.max() > 0.03
        and kept(many) < 0.25
        and lost[max(p.epsilons)] < chance + 0.2
        and threat.never_above(success, tables["points"].set_index("epsilon")),
        "without subtraction the attack is a little worse at the smaller |D-|; at the larger it "
        "loses almost all of its advantage at every epsilon",
        ours=f"|D-| = {few}: {100 * kept(few):.0f}% of the success beyond chance is kept, the "
        f"largest loss is {loss.max():.2f}, at epsilon = {loss.idxmax():g}; |D-| = {many}: mean "
        f"success {lost.mean():.2f}, against up to {shares(many, True).max():.2f} with subtraction",
        stand_in=tables.stand_in,
    )
    yield from shared_by(subtraction, "C-042")


CAPTION = (
    "An attacker who cannot subtract the known records' gradients loses a little among few "
    "records and almost everything among many, at every epsilon. " + threat.POINTS_NOTE
)


def alt(tables: Tables) -> str:
    rows = threat.select(tables["success"], method="own model")
    sizes = sorted(set(rows["known"]))
    last = rows[rows["epsilon"] == rows["epsilon"].max()]
    ends = "; ".join(
        f"{size} others, {threat.one(last, known=size, subtract=True)['success']:.2f} with "
        f"subtraction and {threat.one(last, known=size, subtract=False)['success']:.2f} without"
        for size in sizes
    )
    return (
        "Success against epsilon. With subtraction the points follow the theory curves. Without "
        "it they lie a little lower where few others were trained on, and stay flat just above "
        f"chance where many were. At epsilon = {last['epsilon'].iloc[0]:g}: {ends}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    series = []
    sizes = sorted(set(tables["success"]["known"]))
    looks = itertools.cycle([(BLUE, "o", 0.95), (ORANGE, "s", 1.0), (GREEN, "^", 1.06)])
    for size, (colour, marker, shift) in zip(sizes, looks, strict=False):
        for subtract, what, mark in ((True, "subtracted", marker), (False, "not subtracted", "x")):
            values = {"known": size, "subtract": subtract}
            if not threat.select(tables["success"], **values).empty:
                label = rf"$|D_-|$ = {size}, {what}"
                series.append((values, label, colour, mark, shift))
    return threat.success_figure(tables, series, width=6.6)
