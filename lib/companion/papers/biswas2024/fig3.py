"""Figure 3: pictures and their reconstructions, and how many of them are recognised."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.exhibit import *
from companion.experiments.batch_attacks import Attacked
from companion.experiments.federated import (
    BATCH_SIZE,
    SIDE,
    load_standardised,
    pairs,
    studied_pairs,
)
from companion.papers.biswas2024 import attacked_batches as attacked
from companion.papers.biswas2024 import printed_reconstructions as prints
from companion.papers.biswas2024 import reconstruction_drawings as drawn
from companion.papers.biswas2024.printed_reconstructions import EASILY

PARAMETERS = {
    **attacked.DRAWN,
    "shown": Parameter("int", 8, 8, "not printed", "pictures of a batch shown, at most 8", low=1),
}
SETTLES = ("D-026",)
#: four of the digits, as far as the least Gaussian noise
THUMBNAIL = (0.0, 0.05, 0.364, 0.71)
_STRONG = prints.label(prints.release_of(pairs()[0], "Gaussian"))
ALTERED = {
    "recognised": {
        "recognised": (
            at("row.str.startswith('VMF')", "shares recognised under VMF noise"),
            at("row.str.startswith('Gaussian')", "shares recognised under Gaussian noise"),
            at(f"row == {_STRONG!r}", "shares recognised under the strongest Gaussian noise"),
            at("row == 'clipping only'", "shares recognised with clipping alone"),
            at("row == 'no defence'", "shares recognised without defence"),
        )
    }
}

#: share recognised that counts as barely: one digit in twenty more than guessing recognises
BARELY = 0.15
#: the lightest pair and the heaviest
_ENDS = (pairs()[-1], pairs()[0])
_PAIRS = (pairs()[-1], studied_pairs()[2], pairs()[0])
#: the rows of the figure
RELEASES = (
    prints.NONE,
    prints.CLIP,
    *(prints.release_of(pair, mechanism) for mechanism in ("VMF", "Gaussian") for pair in _PAIRS),
)


@measurement
def measure(study: Context) -> Tables:
    runs = {which: run for (which, _), run in attacked.attack_pairs(study, [BATCH_SIZE]).items()}
    rows = attacked.rows_of(runs)
    images: dict[str, np.ndarray] = {}
    for which, run in runs.items():
        images |= _pictures(study, which, run)
    return Tables(
        {"recognised": rows[rows["row"].isin([prints.label(release) for release in RELEASES])]},
        images=images,
        ran=attacked.ran(study.parameters, [BATCH_SIZE]),
    )


def _pictures(study: Context, which: str, run: Attacked) -> dict[str, np.ndarray]:
    """Pictures of the first batch and their reconstructions, in the order of the rows."""
    p = study.parameters
    data = load_standardised(p[which], data_folder(study, p[which]), device=study.device)
    found = {
        "original": run.values["originals"][0],
        **{prints.label(release): run.of("pictures", release)[0] for release in RELEASES},
        "mean picture": [data.unit(as_numpy(data.inputs.mean(dim=0)))] * attacked.PICTURES,
    }
    return {
        f"{which} {i} {row}": np.repeat(pictures[i].reshape(SIDE, SIDE, 1), 3, axis=2)
        for i in range(min(p.shown, attacked.PICTURES))
        for row, pictures in found.items()
    }


def judge(tables: Tables) -> Iterator[Verdict]:
    sets, stand_in, where = prints.judged_sets(tables)
    rows = tables["recognised"]
    rows = rows[rows["data"].isin(sets)].set_index(["row", "data"])
    seen = rows["recognised"]
    hidden = rows.loc[[(prints.label(prints.release_of(pair, "VMF")), "digits") for pair in _ENDS]]
    # a share that is larger by chance decides nothing
    surely = hidden["recognised"] - STANDARD_ERRORS * hidden["recognised error"]
    barely = settle(hidden["recognised"].max() < BARELY, surely.max() < BARELY)
    # the controls: what takes no noise, and what shows nothing
    bare = seen[prints.label(prints.NONE)]["digits"]
    light, strong = (
        {m: seen[prints.label(prints.release_of(pair, m))] for m in prints.MECHANISMS}
        for pair in _ENDS
    )
    shown = {
        "clipping": seen[prints.label(prints.CLIP)]["digits"],
        "light VMF": light["VMF"]["digits"],
        "light Gaussian": light["Gaussian"]["digits"],
        "strong Gaussian": strong["Gaussian"]["digits"],
    }
    yield from shared_by(
        check(
            "biswas2024/fig3",
            every(
                bool((light["Gaussian"] > 2 * light["VMF"]).all()),
                bool(min(bare, shown["clipping"], shown["light Gaussian"]) > EASILY),
                bool(shown["strong Gaussian"] < EASILY),
                barely,
            ),
            "digits are most like their label's mean picture in more than three of four cases "
            "without defence, with clipping alone and under the lightest Gaussian noise, in fewer "
            f"under the strongest, and under VMF noise, strong or light, in less than {BARELY:.0%} "
            "where guessing has 10%; at the lightest pair more than twice as many reconstructions "
            f"are recognised under Gaussian noise as under VMF, on {where}",
            ours=", ".join(f"{attacked.about(share)} ({name})" for name, share in shown.items()),
            paper="judged by eye",
            decided_by="more batches",
            stand_in=stand_in,
        ),
        "D-026",
    )


# worlds in which other pictures are recognised ---------------------------------------------------


CAPTION = (
    "Figure 3: pictures of one batch of 128 and their reconstructions, in the order of the "
    "labels: without defence, with clipping alone, and under three noises of each mechanism, the "
    "lightest first. Last row: the mean picture of the data, which takes no gradient. Share on "
    "the right of each block: reconstructions of all batches that are most like the mean picture "
    "of their own label."
)


def alt(tables: Tables) -> str:
    p = tables.parameters
    seen = tables["recognised"].set_index(["data", "row"])["recognised"]
    parts = [
        f"{drawn.title(tables, which)}: recognised are "
        + ", ".join(f"{attacked.about(share)} ({row})" for row, share in seen[which].items())
        for which in prints.SETS
    ]
    count = min(p.shown, attacked.PICTURES)
    head = f"Rows of small grey pictures in two blocks, {count} pictures each"
    return ". ".join([head, *parts, ""]).rstrip()


@drawing
def draw(tables: Tables) -> Figure:
    seen = tables["recognised"].set_index(["data", "row"])["recognised"]
    rows = list(dict.fromkeys(name.split(" ", 2)[2] for name in tables.images))
    count = len({name.split()[1] for name in tables.images})
    figure, axes = plt.subplots(
        len(rows),
        2 * count + 1,
        figsize=(8.4, 0.43 * len(rows) + 0.6),
        width_ratios=[1.0] * count + [0.9] + [1.0] * count,
        squeeze=False,
    )
    figure.subplots_adjust(left=0.2, right=0.94, top=0.92, bottom=0.01, wspace=0.06, hspace=0.06)
    starts = dict(zip(prints.SETS, (0, count + 1), strict=True))
    for line, row in zip(axes, rows, strict=True):
        line[count].set_axis_off()
        for which, first in starts.items():
            for i in range(count):
                picture(line[first + i], tables.images[f"{which} {i} {row}"])
            if (which, row) in seen:
                last, share = line[first + count - 1], f"{seen[which, row]:.0%}"
                _write_beside(last, 1.12, share, ha="left", fontsize=8, color=GREY)
        _write_beside(line[0], -0.25, row, ha="right", fontsize=8.5)
    for which, first in starts.items():
        axes[0][first].set_title(drawn.title(tables, which), loc="left", fontsize=10)
    return figure


def _write_beside(axis: Axes, x: float, text: str, **style: Any) -> None:
    axis.text(x, 0.5, text, transform=axis.transAxes, va="center", **style)
