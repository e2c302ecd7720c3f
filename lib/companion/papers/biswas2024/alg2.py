"""Algorithm 2: von Mises-Fisher noise on the average gradient, each line checked otherwise."""

from collections.abc import Iterator

import torch

from companion.exhibit import *
from companion.experiments.utility_runs import DATA
from companion.papers.biswas2024 import algorithm_lines as lines

PARAMETERS = {
    "digits": DATA["digits"],
    "tried": lines.TRIED,
    "concentration": Parameter("float", 400.0, 400.0, "75 to 500", "kappa", low=1.0),
    "draws": Parameter("int", 300, 5000, "not printed: a check of ours", "noisy gradients", 20),
}
SETTLES = ("D-038",)
SHOWN = ("lines",)
ALTERED = {
    "deviations": {
        "off": (
            at(f"does == {lines.UNIT!r}", "deviations of released lengths"),
            at(f"does == {lines.ANGLE!r}", "deviations of the cosines' law [powers of ten]"),
            at("does == 'all layers as one vector'", "deviations of a layer's share"),
        )
    }
}


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    batch = lines.tried_batch(study)
    noise = torch.Generator().manual_seed(study.seed_of("noise"))
    return Tables(
        lines.as_tables(lines.algorithm2_lines(batch, p.concentration, p.draws, noise)),
        ran=f"a batch of {batch.size} {p.digits} in double precision, {p.draws} draws.",
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    ours = f"{p.draws} draws at kappa = {p.concentration:g}"
    yield lines.lines_verdict("biswas2024/alg2", tables, ours)
    deviations = tables["deviations"].set_index("does")
    length = deviations.loc[lines.UNIT]
    yield check(
        "D-038",
        length["off"] <= length["allowed"],
        "what is released has length one, as the vector that it turns: the average gradient is "
        "scaled to it first, and its own length is not released",
        ours=f"off by less than {length['allowed']:g}",
    )
