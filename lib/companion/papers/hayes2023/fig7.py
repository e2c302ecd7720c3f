"""Figure 7: the same attack on networks of 10, 100 and 1,000 hidden units."""

import itertools
from collections.abc import Iterator

from matplotlib.figure import Figure

from companion.papers.hayes2023 import threat_points as threat
from companion.study import (
    Context,
    Parameter,
    Tables,
    Verdict,
    check,
    measurement,
    refute,
    shared_by,
)
from companion.style import BLUE, GREEN, ORANGE, drawing
from reconrisk.models import Classifier

#: largest difference between the widths
ALIKE = 0.1

WIDTHS = (10, 100, 1000)
PARAMETERS = {
    "data": threat.data_parameter(),
    "epsilons": threat.epsilons((1.0, 10.0, 40.0)),
    "widths": Parameter("ints", WIDTHS, WIDTHS, "10, 100, 1000", "hidden units", low=1),
    "widest_epsilons": threat.epsilons((10.0,), printed="the same at every width"),
    **threat.common_parameters(),
    "max_grad_norm": threat.CLIPPING_NORM,
    "learning_rate": threat.LEARNING_RATE,
    "trials": threat.trials(80, "trials with a model of their own, at the smallest width"),
    **threat.shared_parameters(),
}
SETTLES = ("C-036", "C-037", "C-038", "E-C-12")


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tasks = []
    for width in p.widths:
        epsilons = p.widest_epsilons if width == max(p.widths) else p.epsilons
        tasks += threat.attack_tasks(study, epsilons, "shared", width=width)
    tasks += threat.attack_tasks(study, p.epsilons, "own model", width=min(p.widths))
    success = threat.select(threat.swept(study, threat.attack_point, tasks), score="sum")
    return Tables(
        {
            "success": success[["epsilon", "width", "method", "success", "low", "high", "trials"]],
            **threat.points_and_curves(p),
        },
        exact=("curves",),
        ran=threat.describe_run(p, f"hidden widths {', '.join(map(str, p.widths))}"),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    success = tables["success"]
    rows = threat.select(success, method="shared")
    by_width = rows.pivot(index="epsilon", columns="width", values="success")
    spread = by_width.max(axis=1) - by_width.min(axis=1)
    worst = threat.select(rows, epsilon=spread.idxmax())
    below = threat.never_above(success, tables["points"].set_index("epsilon"))
    alike = check(
        "hayes2023/fig7",
        spread.max() < ALIKE and below,
        "the attack's success hardly depends on the width and stays below the bound",
        ours=f"largest difference {spread.max():.2f}, at epsilon = {spread.idxmax():g}: "
        + ", ".join(
            f"{threat.describe(row)} at width {row['width']}" for _, row in worst.iterrows()
        ),
        tolerance=f"{ALIKE:g}",
        stand_in=tables.stand_in,
    )
    yield from shared_by(alike, "C-036")
    counts = [Classifier(784, width).parameter_count for width in WIDTHS]
    ours, paper = ", ".join(f"{c:,}" for c in counts), "7,960, 79,600 and 796,000"
    yield check(
        "C-037",
        counts[0] == 7960,
        "784-10-10 has 7,960 parameters, biases included",
        ours=f"{counts[0]:,}",
        paper="7,960",
    )
    larger = counts[1:] == [79510, 795010]
    yield check(
        "C-038",
        larger,
        "784-100-10 and 784-1000-10 have other counts than the two printed larger ones",
        ours=ours,
        paper=paper,
    )
    printed = counts[1] == 79600 or counts[2] == 796000
    yield refute("E-C-12", holds=printed, corrected_holds=larger, ours=ours, paper=paper)


CAPTION = (
    "The prior-aware attack on networks of different widths, in hidden units: its success does not "
    "depend on their size. " + threat.POINTS_NOTE
)


def alt(tables: Tables) -> str:
    shared = threat.select(tables["success"], method="shared").groupby("epsilon")["success"]
    shares = ", ".join(f"{share:.1f} at epsilon = {e:g}" for e, share in shared.mean().items())
    return (
        f"Success against epsilon. Points of {tables['success']['width'].nunique()} widths lie "
        f"together, below the bound: {shares}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    widths = dict.fromkeys(tables["success"]["width"])
    looks = itertools.cycle([(BLUE, "o", 0.93), (ORANGE, "s", 1.0), (GREEN, "^", 1.08)])
    series = [({"width": w}, f"width {w:,}", *look) for w, look in zip(widths, looks, strict=False)]
    return threat.success_figure(tables, series)
