"""Algorithm 1: DP-SGD of a network with every layer clipped, against plain routes to each line."""

import math
from collections.abc import Iterator

import pandas as pd
import torch

from companion.experiments.fair_pairs import middle
from companion.experiments.federated import (
    DELTA,
    DIMENSION,
    NETWORK,
    SAMPLING_RATE,
    STEPS,
    standardised,
    studied_pairs,
)
from companion.experiments.tools import data_folder
from companion.experiments.utility_runs import AS_READ, DATA, TRAINING, trained, training_task
from companion.papers.biswas2024 import algorithm_lines as lines
from companion.papers.biswas2024.label_accuracies import BATCH_SIZE, pairs_of
from companion.study import Context, Parameter, Tables, Verdict, check, measurement, refute
from reconrisk import DPSGD, privacy

PARAMETERS = {
    **DATA,
    **TRAINING,
    "concentrations": Parameter(
        "floats", (75.0, 400.0), (75.0, 400.0), "75 to 400", "pairs trained, by concentration"
    ),
    "batch_size": BATCH_SIZE,
    "tried": lines.TRIED,
}
SETTLES = ("D-016", "E-D-16", "E-D-19")
SHOWN = ("lines",)

#: C, below most records' gradients, so that clipping is seen
CLIPPING = 0.05
#: PyTorch's Adam with weight decay
COUPLED = "decay 0.1 in the gradient"


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    batch = lines.tried_batch(study)
    noise = torch.Generator().manual_seed(study.seed_of("noise"))
    found = lines.algorithm1_lines(batch, 1.23, CLIPPING, noise)
    return Tables(
        {
            "lines": lines.as_table(found),
            "decay": _accuracy_with_each_decay(study),
            "clipping": _cost_of_clipping(batch),
        },
        ran=f"a batch of {batch.size} {p.digits} in double precision; {p.repeats} runs of "
        f"{p.epochs} epochs for each decay.",
    )


def _accuracy_with_each_decay(study: Context) -> pd.DataFrame:
    """The best of all networks with a decay, and the mean of those without noise."""
    p = study.parameters
    pairs = pairs_of(p.concentrations)
    test = standardised(p.digits, data_folder(study, p.digits), "test").labels
    rows = []
    for reading in (AS_READ, COUPLED):
        table = trained(
            study,
            [
                training_task(study, p.digits, p.batch_size, r, pairs, reading=reading)
                for r in range(p.repeats)
            ],
        )
        without = table.loc[table["mechanism"] == "none", "accuracy"]
        rows.append(
            {
                "reading": reading,
                "best": table["accuracy"].max(),
                "without noise": without.mean(),
                "largest class": float(test.bincount().max() / len(test)),
            }
        )
    return pd.DataFrame(rows)


def _cost_of_clipping(batch: lines.Batch) -> pd.DataFrame:
    """How long a clipped gradient gets, and what the heaviest noise then costs, certified."""
    sigma = studied_pairs()[0].noise_multiplier
    by_layer, whole = lines.record_reach(batch, CLIPPING)
    rows = []
    for clipped, reach, multiplier in (
        ("by layer", by_layer, sigma / math.sqrt(len(NETWORK.shapes))),
        ("as a whole", whole, sigma),
    ):
        epsilon = privacy.epsilon(DPSGD(multiplier, SAMPLING_RATE, STEPS), DELTA)
        rows.append(
            {
                "clipped": clipped,
                "longest gradient over C": reach,
                "noise multiplier": multiplier,
                "certified epsilon": middle(epsilon),
            }
        )
    return pd.DataFrame(rows)


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    yield lines.lines_verdict("biswas2024/alg1", tables, f"a batch of {p.tried}")
    yield _number_of_weights()
    decay = tables["decay"].set_index("reading")
    collapsed = decay.loc[COUPLED, "best"]
    learned = decay.loc[AS_READ, "without noise"]
    yield refute(
        "E-D-16",
        holds=collapsed > decay["largest class"].iloc[0] + 0.1,
        corrected_holds=learned > collapsed + 0.25,
        ours=f"best of {p.repeats} runs with each noise and without: {collapsed:.2f}; "
        f"decoupled, without noise: {learned:.2f}",
    )
    clipping = tables["clipping"].set_index("clipped")
    reach, cost = clipping["longest gradient over C"], clipping["certified epsilon"]
    sigma = clipping.loc["as a whole", "noise multiplier"]
    yield refute(
        "E-D-19",
        holds=reach["by layer"] <= 1 + 1e-9,
        corrected_holds=abs(reach["by layer"] - math.sqrt(3.0)) < 1e-9
        and abs(reach["as a whole"] - 1.0) < 1e-9,
        ours=f"longest clipped gradient {reach['by layer']:.4f} C by layer, "
        f"{reach['as a whole']:.4f} C as a whole; certified epsilon of sigma = {sigma:g} after "
        f"{STEPS} steps: {cost['by layer']:.3g} instead of {cost['as a whole']:.3g}",
    )


def _number_of_weights() -> Verdict:
    """Which hidden widths give the printed number: 256 a + a b + 10 b, or one layer's 266 a."""
    widths = [
        (a, b)
        for a in range(1, DIMENSION // 256)
        if (b := (DIMENSION - 256 * a) // (a + 10)) > 0 and 256 * a + a * b + 10 * b == DIMENSION
    ]
    return check(
        "D-016",
        NETWORK.parameter_count == DIMENSION == 13_700
        and (50, 15) in widths
        and DIMENSION % (256 + 10),
        "256-50-15-10 without biases has 13,700 weights, in three layers; one hidden layer cannot",
        ours="hidden widths that give 13,700: " + ", ".join(f"{a}-{b}" for a, b in widths),
        paper="13,700",
    )
