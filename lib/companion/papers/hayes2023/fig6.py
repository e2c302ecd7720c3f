"""Figure 6: what reconstructions without candidates look like, over epsilon.

Whether the attack *starts to perform well* where the text says so (C-003, C-004) is judged here, by
whether a reconstruction is nearer to its target than to any other image. The nearest neighbours'
error that Figure 1 draws marks a near-perfect one, in the paper's own words.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.papers.hayes2023 import gradient_reconstructions as informed
from companion.papers.hayes2023.gradient_reconstructions import COLOUR, GREY, PANELS, STARTS

PARAMETERS = {
    **informed.GREY_PARAMETERS,
    **informed.COLOUR_PARAMETERS,
    "shown": Parameter("int", 4, 5, "not printed", "targets shown for each data set", low=1),
}
CHOICES = informed.CHOICES
SETTLES = ("hayes2023/fig6a", "hayes2023/fig6b", "C-003", "C-004")
#: the digits
THUMBNAIL = (0.0, 0.0, 1.0, 0.505)

#: largest share of reconstructions at epsilon = 10 that are nearest to their target, and the
#: smallest at the largest epsilon
NOISE, LIKENESS = 0.1, 0.8
#: how many times smaller the error is at the largest epsilon than at 10
SMALLER = 30
#: share of reconstructions nearest to their target from which the attack performs well
WELL = 0.5
#: smallest relative gain with each step of epsilon that can be seen
GAIN = 0.1


ALTERED = {
    "found": {
        "target is nearest": (
            by("data", "shares of targets that are nearest", each="on {} images"),
            at("epsilon == 10", "shares of targets that are nearest at epsilon = 10"),
            at("epsilon == 100", "shares of targets that are nearest at epsilon = 100"),
            at("epsilon == 1000", "shares of targets that are nearest at epsilon = 1000"),
        ),
        "MSE": ("errors", at("epsilon == 100", "errors at epsilon = 100")),
    }
}


@measurement
def measure(study: Context) -> Tables:
    informed.require(study, epsilons=(10.0, *STARTS[GREY]), colour_epsilons=(10.0, *STARTS[COLOUR]))
    attacked = informed.attacked_both(study)
    images: dict[str, np.ndarray] = {}
    for which, a in attacked.items():
        for i in range(min(study.parameters.shown, len(a.targets))):
            images[f"{which} {i} target"] = a.images.pictures(a.targets[[i]])[0]
            for e, epsilon in enumerate(a.epsilons):
                images[f"{which} {i} {epsilon:g}"] = a.images.pictures(a.rebuilt[e, [i]])[0]
    found = (
        {"data": w, "epsilon": a.epsilons, "MSE": a.mse}
        | {"target is nearest": (a.nearer == 0).mean(axis=1)}
        for w, a in attacked.items()
    )
    return Tables(
        {"found": pd.concat(map(pd.DataFrame, found))},
        images=images,
        ran=informed.describe_attacked(attacked),
        stand_ins=attacked[COLOUR].stand_ins,
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    for which, panel in PANELS:
        table = tables["found"][tables["found"]["data"] == which].set_index("epsilon")
        low, last = table.loc[10.0], table.iloc[-1]
        middle = table.loc[(table.index >= 10) & (table.index <= 10_000), "MSE"]
        improves = bool((middle.to_numpy()[1:] < (1 - GAIN) * middle.to_numpy()[:-1]).all())
        steps = len(middle) - 1
        rebuilt = (
            low["target is nearest"] < NOISE
            and last["target is nearest"] > LIKENESS
            and last["MSE"] < low["MSE"] / SMALLER
        )
        yield check(
            f"hayes2023/fig6{panel}",
            informed.discount_stand_in(tables, which, rebuilt),
            "at epsilon = 10 reconstructions are noise; at the largest epsilon over "
            f"{LIKENESS:.0%} are nearer to their target than to any other image, with less than a "
            f"{SMALLER}th of the error",
            ours=f"MSE {low['MSE']:.2f} at epsilon = 10",
            stand_in=informed.stands_in(tables, which),
            decided_by=informed.NEEDS_NETWORK,
        )
        yield check(
            "hayes2023/fig6",
            informed.discount_stand_in(tables, which, improves if steps else None),
            f"the error falls by over {GAIN:.0%} with every step of epsilon from 10 to 10,000, on "
            f"{which} images",
            ours=f"{steps} steps",
            stand_in=informed.stands_in(tables, which),
            decided_by=informed.NEEDS_NETWORK if which == COLOUR else "two epsilons in that range",
        )
    for (which, _), claim in zip(PANELS, ("C-003", "C-004"), strict=True):
        yield _starts(tables, which, claim)


def _starts(tables: Tables, which: str, claim: str) -> Verdict:
    """C-003, C-004: most reconstructions are nearest to their target from an epsilon on."""
    found = tables["found"]
    nearest = found[found["data"] == which].set_index("epsilon")["target is nearest"]
    low, high = STARTS[which]
    gaps = [WELL - nearest[low], nearest[high] - WELL]
    error = WELL / math.sqrt(tables.parameters[f"{which}_targets"])
    return check(
        claim,
        informed.discount_stand_in(tables, which, clearly((gaps, error))),
        f"at epsilon = {low:g} less than half of the reconstructions are nearer to their target "
        f"than to any other image, at {high:g} more than half",
        ours=f"{nearest[low]:.0%} and {nearest[high]:.0%}",
        paper=f"starts to perform well between {low:g} and {high:g}",
        tolerance=f"{STANDARD_ERRORS:g} standard errors of a share of one half",
        stand_in=informed.stands_in(tables, which),
        decided_by=informed.NEEDS_NETWORK if which == COLOUR else "more targets",
    )


CAPTION = (
    "Examples of gradient-based reconstructions over epsilon: targets on the left, then what the "
    "attack makes of the noisy gradients. Grey images on top, colour images below."
)


def alt(tables: Tables) -> str:
    found = tables["found"]

    def recognisable(which: str) -> str:
        near = found.loc[(found["data"] == which) & (found["target is nearest"] > WELL), "epsilon"]
        if near.empty:
            return f"of the {which} images none is recognisable"
        return (
            f"of the {which} images most are nearer to their target than to any other image from "
            f"epsilon = {near.min():,g} on"
        )

    return (
        "Two blocks of small pictures. In each row the target stands on the left, then its "
        "reconstructions over epsilon, from noise to a likeness: "
        f"{', '.join(recognisable(which) for which, _ in PANELS)}."
    )


@drawing
def draw(tables: Tables) -> Figure:
    found = tables["found"]
    counts = {
        which: len({name.split()[1] for name in tables.images if name.startswith(which)})
        for which, _ in PANELS
    }
    rows, columns = sum(counts.values()), 1 + found.groupby("data").size().max()
    size = min(0.98 * columns, 8.4), rows + 0.5
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    lines = iter(axes)
    for which, panel in PANELS:
        epsilons = found.loc[found["data"] == which, "epsilon"]
        names = ["target", *(f"{e:g}" for e in epsilons)]
        titles = [rf"$\varepsilon$ = {informed.power_of_ten(e)}" for e in epsilons]
        titles = [f"({panel}) target", *titles]
        for i in range(counts[which]):
            line = next(lines)
            for axis, name, title in zip(line, names, titles, strict=False):
                picture(axis, tables.images[f"{which} {i} {name}"], title if i == 0 else "")
            for axis in line[len(names) :]:
                axis.set_axis_off()
    return figure
