"""Figure 10: the attack with and without subtracting the known records' gradients."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import threat_points as threat

PARAMETERS = {
    "data": threat.data_parameter(),
    "epsilons": threat.epsilons((10.0, 40.0, 100.0), (*threat.EPSILONS, 100.0)),
    "known_sizes": Parameter(
        *("ints", (4, 128), (4, 128), "4, 128 (and 999 with subtraction)"),
        "|D-|, other records, whose gradients are subtracted or not",
        low=2,
    ),
    **threat.common_parameters(),
    "max_grad_norm": threat.CLIPPING_NORM,
    "learning_rate": threat.LEARNING_RATE,
    "trials": threat.trials(100, "trials with a model of their own, a point"),
    **threat.shared_parameters(),
}
SETTLES = ("C-042",)

#: "does perform worse" without subtraction at the smaller |D-|: smallest mean loss of success, and
#: smallest share of the success beyond chance that is kept, because the effect is minor
LOSS, KEPT = 0.02, 0.7
#: "fails completely" at the larger one: largest share of the success beyond chance, and the largest
#: success beyond chance at the largest epsilon
FAILS, LEFT = 0.2, 0.1

_WITHOUT = "method == 'own model' and not subtract"
ALTERED = {
    "success": {
        ("success", "low", "high"): (
            "successes",
            at(_WITHOUT, "successes without subtraction"),
            at(f"{_WITHOUT} and known == 4", "successes without subtraction among few records"),
        )
    }
}


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
        kept(few) > KEPT
        and loss.mean() > LOSS
        and kept(many) < FAILS
        and lost[max(p.epsilons)] < chance + LEFT
        and threat.never_above(success, tables["points"].set_index("epsilon")),
        f"without subtraction the attack is worse at the smaller |D-| by over {LOSS:g} on average "
        f"and keeps over {KEPT:.0%} of its success beyond chance; at the larger it keeps less than "
        f"{FAILS:.0%}, and is within {LEFT:g} of chance even at the largest epsilon",
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


@drawing
def draw(tables: Tables) -> Figure:
    series = []
    sizes = sorted(set(tables["success"]["known"]))
    looks = itertools.cycle([(BLUE, "o", 0.95), (ORANGE, "s", 1.0), (GREEN, "^", 1.06)])
    for size, (colour, marker, shift) in zip(sizes, looks, strict=False):
        for subtract, what, mark in ((True, "subtracted", marker), (False, "not subtracted", "P")):
            values = {"known": size, "subtract": subtract}
            if not threat.select(tables["success"], **values).empty:
                label = rf"$|D_-|$ = {size}, {what}"
                series.append((values, label, colour, mark, shift))
    return threat.success_figure(tables, series, width=6.6)
