"""Figure 3: pictures and their reconstructions, and how many of them are recognised."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.experiments.batch_attacks import Attacked
from companion.experiments.federated import BATCH_SIZE, SIDE, pairs, standardised, studied_pairs
from companion.experiments.tools import as_numpy, data_folder
from companion.papers.biswas2024 import attacked_batches as attacked
from companion.papers.biswas2024 import printed_reconstructions as prints
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, shared_by
from companion.style import GREY, drawing, picture

PARAMETERS = {
    **attacked.DRAWN,
    "shown": Parameter("int", 8, 8, "not printed", "pictures of a batch shown, at most 8", low=1),
}
SETTLES = ("D-026",)

#: the rows of the figure
RELEASES = (
    prints.NONE,
    prints.CLIP,
    *(
        prints.release_of(pair, mechanism)
        for mechanism in ("VMF", "Gaussian")
        for pair in (pairs()[-1], studied_pairs()[2], pairs()[0])
    ),
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
    data = standardised(p[which], data_folder(study, p[which]), device=study.device)
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
    seen = tables["recognised"].set_index(["row", "data"])["recognised"]
    light, strong = (
        {m: seen[prints.label(prints.release_of(pair, m))] for m in prints.MECHANISMS}
        for pair in (pairs()[-1], pairs()[0])
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
            (light["Gaussian"] > light["VMF"]).all()
            and shown["light Gaussian"] > 2 * shown["light VMF"]
            and shown["strong Gaussian"] < shown["light Gaussian"]
            and shown["light VMF"] < 0.3
            and shown["clipping"] > 0.5,
            "digits are most like their label's mean picture with clipping alone in more than half "
            "of the cases, under the lightest VMF noise in less than three tenths; at the lightest "
            "pair more reconstructions are recognised under Gaussian noise than under VMF, on both "
            "data sets, and more than twice as many digits; strong Gaussian noise hides more "
            "digits than light",
            ours=", ".join(f"{attacked.about(share)} ({name})" for name, share in shown.items()),
            paper="judged by eye",
            stand_in=tables.stand_in,
        ),
        "D-026",
    )


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
        f"{p[which]}: recognised are "
        + ", ".join(f"{attacked.about(share)} ({row})" for row, share in seen[which].items())
        for which in prints.SETS
    ]
    count = min(p.shown, attacked.PICTURES)
    head = f"Rows of small grey pictures, {count} digits on the left and {count} garments right"
    return ". ".join([head, *parts, ""]).rstrip()


@drawing
def draw(tables: Tables) -> Figure:
    seen = tables["recognised"].set_index(["data", "row"])["recognised"]
    rows = list(dict.fromkeys(name.split(" ", 2)[2] for name in tables.images))
    count = len({name.split()[1] for name in tables.images})
    figure, axes = plt.subplots(
        len(rows),
        2 * count + 1,
        figsize=(0.52 * (2 * count) + 2.4, 0.56 * len(rows) + 0.6),
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
        axes[0][first].set_title(str(tables.parameters[which]), loc="left", fontsize=10)
    return figure


def _write_beside(axis: Axes, x: float, text: str, **style: Any) -> None:
    axis.text(x, 0.5, text, transform=axis.transAxes, va="center", **style)
