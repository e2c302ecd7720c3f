"""Figure 9: candidates from the data against candidates that are noise."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import threat_points as threat

#: largest difference between the two kinds of candidates: a tenth of the axis is little
APART = 0.1
#: largest distance below the best success on orthogonal candidates
BELOW = 0.12

PARAMETERS = {
    "data": threat.data_parameter(),
    "epsilons": threat.epsilons((1.0, 4.0, 10.0, 40.0)),
    **threat.common_parameters(),
    "max_grad_norm": threat.CLIPPING_NORM,
    "learning_rate": threat.LEARNING_RATE,
    "exact_epsilons": threat.epsilons((10.0,), (1.0, 10.0, 40.0), threat.EXACT),
    "trials": threat.trials(50, "trials with a model of their own, a point"),
    **threat.shared_parameters(),
}
SETTLES = ("C-041",)

ALTERED = {
    "success": {
        "success": by("prior", "successes", each="with candidates of {}"),
        "gained": "numbers of targets that only the likelihood names",
    }
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    tasks = []
    for prior in ("data", "noise"):
        tasks += threat.attack_tasks(study, p.epsilons, "shared", prior=prior)
        tasks += threat.attack_tasks(study, p.exact_epsilons, "own model", prior=prior)
    success = threat.select(threat.swept(study, threat.attack_point, tasks), score="sum")
    return Tables(
        {
            "success": success[
                [
                    *("epsilon", "prior", "method", "success", "low", "high", "trials"),
                    *("gained", "lost"),
                ]
            ],
            **threat.points_and_curves(p),
        },
        exact=("curves",),
        ran=threat.describe_run(p, "candidates from the data, or uniform noise equally far apart"),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    success, points = tables["success"], tables["points"].set_index("epsilon")
    rows = threat.select(success, method="shared")
    shared = rows.pivot(index="epsilon", columns="prior", values="success")
    apart = (shared["noise"] - shared["data"]).abs()
    lower = shared.min(axis=1)
    below = (points["orthogonal"] - lower).max()
    worst = threat.select(rows, epsilon=apart.idxmax())
    data, noise = (threat.describe(threat.one(worst, prior=prior)) for prior in ("data", "noise"))
    gap = points["bound"] - lower
    ours = (
        f"at most {apart.max():.2f} apart, at epsilon = {apart.idxmax():g} (data {data}, noise "
        f"{noise}); at most {below:.2f} below orthogonal candidates, {gap.max():.2f} below the "
        "bound"
    )
    yield check(
        "hayes2023/fig9",
        apart.max() < APART
        and below < BELOW
        and threat.never_above(success, points)
        and threat.same_trials(threat.select(success, method="own model")),
        "candidates from the data and noise candidates are named about equally often, both not far "
        "below the best success on orthogonal candidates, and in the same trials as by the "
        "likelihood",
        ours=ours,
        tolerance=f"{APART:g} apart, {BELOW:g} below orthogonal candidates",
        stand_in=tables.stand_in,
    )
    worst = points.loc[gap.idxmax()]
    yield check(
        "C-041",
        apart.max() < APART and gap.max() <= threat.CLOSE,
        "data and noise candidates are named about equally often, and both at most "
        f"{threat.CLOSE:g} below the bound",
        ours=ours,
        paper="little difference; both close to the upper bound",
        tolerance=f"{APART:g} apart",
        differs="The two kinds are about equally often named, but not close to the bound: at "
        f"epsilon = {gap.idxmax():g} they are up to {gap.max():.2f} below it. Of that "
        f"{worst['bound'] - worst['orthogonal']:.2f} is the gap of orthogonal candidates, which no "
        "attack closes.",
    )


CAPTION = (
    "Candidates from the data against candidates that are uniform noise, as far apart on average "
    "as the data. The attack names them about equally often. " + threat.POINTS_NOTE
)


@drawing
def draw(tables: Tables) -> Figure:
    data = ({"prior": "data"}, "candidates from the data", BLUE, "o", 0.98)
    noise = ({"prior": "noise"}, "noise candidates", ORANGE, "s", 1.02)
    return threat.success_figure(tables, [data, noise])
