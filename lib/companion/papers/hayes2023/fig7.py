"""Figure 7: the same attack on networks of 10, 100 and 1,000 hidden units."""

import itertools
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import threat_points as threat
from reconrisk.models import Classifier

#: largest difference between the widths: "almost no difference"
ALIKE = 0.05
#: largest distance below the best success on orthogonal candidates: those of one class are alike
#: and cost some
BELOW = 0.1

WIDTHS = (10, 100, 1000)
PARAMETERS = {
    "data": threat.data_parameter(),
    "epsilons": threat.epsilons((1.0, 10.0, 40.0)),
    "widths": Parameter("ints", WIDTHS, WIDTHS, "10, 100, 1000", "hidden units", low=1),
    "widest_epsilons": threat.epsilons((10.0,), printed="the same at every width"),
    **threat.common_parameters(quick=499),
    "max_grad_norm": threat.CLIPPING_NORM,
    "learning_rate": threat.LEARNING_RATE,
    "trials": threat.trials(40, "trials with a model of their own, at the smallest width"),
    **threat.shared_parameters(),
}
SETTLES = ("C-036", "C-037", "C-038", "C-059", "E-C-12")

ALTERED = {
    "success": {
        ("success", "low", "high"): by("width", "successes"),
        "gained": "numbers of targets that only the likelihood names",
    },
    "hayes2023/fig7": {"value": "printed numbers"},
}
SCENARIOS = (
    scenario(
        "a network without biases",
        column("counts", "parameters", lambda c: 7940, "width == 10"),
        "C-037",
    ),
    scenario(
        "output biases that grow with the width",
        frame("counts", lambda t: t.assign(parameters=796 * t["width"])),
        "C-038",
        "E-C-12",
    ),
)


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
            "success": success[
                [
                    *("epsilon", "width", "method", "success", "low", "high", "trials"),
                    *("gained", "lost"),
                ]
            ],
            "counts": counts(),
            **threat.points_and_curves(p),
        },
        exact=("counts", "curves"),
        ran=threat.describe_run(p, f"hidden widths {', '.join(map(str, p.widths))}"),
    )


def counts() -> pd.DataFrame:
    """Trainable parameters of the three networks, biases included."""
    found = [Classifier(784, width).parameter_count for width in WIDTHS]
    return pd.DataFrame({"width": WIDTHS, "parameters": found})


def judge(tables: Tables) -> Iterator[Verdict]:
    success, points = tables["success"], tables["points"].set_index("epsilon")
    rows = threat.select(success, method="shared")
    by_width = rows.pivot(index="epsilon", columns="width", values="success")
    spread = by_width.max(axis=1) - by_width.min(axis=1)
    worst = threat.select(rows, epsilon=spread.idxmax())
    short = (points["orthogonal"] - by_width.min(axis=1)).max()
    alike = check(
        "hayes2023/fig7",
        spread.max() < ALIKE
        and short < BELOW
        and threat.never_above(success, points)
        and threat.same_trials(threat.select(success, method="own model")),
        "the attack's success hardly depends on the width, stays below the bound and near the best "
        "on orthogonal candidates, and comes in the same trials as the likelihood's",
        ours=f"largest difference {spread.max():.2f}, at epsilon = {spread.idxmax():g}: "
        + ", ".join(
            f"{threat.describe(row)} at width {row['width']}" for _, row in worst.iterrows()
        ),
        tolerance=f"{ALIKE:g} between widths, {BELOW:g} below orthogonal candidates",
        stand_in=tables.stand_in,
    )
    yield from shared_by(alike, "C-036")
    statement = "the attacks perform equally well on all common activation functions"
    yield not_run("C-059", statement, "networks with other activations; all here have ELU's")
    # closed forms: records from before they were a table have the same
    yield from _counts(tables["counts"] if "counts" in tables else counts())


def _counts(found: pd.DataFrame) -> Iterator[Verdict]:
    """C-037, C-038 and E-C-12."""
    text = registry.printed("hayes2023/fig7")
    rows = text[text["panel"] == "all"]
    paper = rows["value"].astype(int).tolist()
    true = found["parameters"].astype(int).tolist()
    ours, theirs = (", ".join(f"{c:,}" for c in values) for values in (true, paper))
    yield check(
        "C-037",
        true[0] == paper[0],
        f"784-10-10 has {paper[0]:,} parameters, biases included",
        ours=f"{true[0]:,}",
        paper=f"{paper[0]:,}",
    )
    other = all(t != p for t, p in zip(true[1:], paper[1:], strict=True))
    yield check(
        "C-038",
        other,
        "784-100-10 and 784-1000-10 have other counts than the two printed larger ones",
        ours=ours,
        paper=theirs,
    )
    yield refute(
        "E-C-12",
        holds=not other,
        # linear in the width, apart from the ten biases of the output
        corrected_holds=[c - 10 for c in true] == [(true[0] - 10) * 10**i for i in range(3)],
        ours=ours,
        paper=theirs,
    )


CAPTION = (
    "The prior-aware attack on networks of different widths, in hidden units: its success does not "
    "depend on their size. " + threat.POINTS_NOTE
)


@drawing
def draw(tables: Tables) -> Figure:
    widths = dict.fromkeys(tables["success"]["width"])
    looks = itertools.cycle([(BLUE, "o", 0.93), (ORANGE, "s", 1.0), (GREEN, "^", 1.08)])
    series = [({"width": w}, f"width {w:,}", *look) for w, look in zip(widths, looks, strict=False)]
    return threat.success_figure(tables, series)
