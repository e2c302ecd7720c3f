"""Algorithm 1: DP-SGD of a network with every layer clipped, each line checked by another route."""

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
    return Tables(
        {
            "lines": lines.algorithm1_lines(batch, 1.23, CLIPPING, noise),
            "decay": _accuracy_with_each_decay(study),
            "clipping": _cost_of_clipping(batch),
        },
        ran=f"a batch of {batch.size} {p.digits} in double precision; {p.repeats} runs of "
        f"{p.epochs} epochs for each decay.",
    )


def _accuracy_with_each_decay(study: Context) -> pd.DataFrame:
    """The best accuracy of all networks with a decay, and the mean of those without noise."""
    p = study.parameters
    test = standardised(p.digits, data_folder(study, p.digits), "test").labels
    pairs = pairs_of(p.concentrations)
    tasks = [
        training_task(study, p.digits, p.batch_size, repeat, pairs, reading=reading)
        for reading in (AS_READ, COUPLED)
        for repeat in range(p.repeats)
    ]
    rows = [
        {
            "reading": reading,
            "best": own["accuracy"].max(),
            "without noise": own.loc[own["mechanism"] == "none", "accuracy"].mean(),
            "largest class": float(test.bincount().max() / len(test)),
        }
        for reading, own in trained(study, tasks).groupby("reading", sort=False)
    ]
    return pd.DataFrame(rows)


def _cost_of_clipping(batch: lines.Batch) -> pd.DataFrame:
    """The longest clipped gradient, and the certified epsilon of the heaviest noise."""
    sigma = studied_pairs()[0].noise_multiplier
    multipliers = [sigma / math.sqrt(len(NETWORK.shapes)), sigma]
    epsilons = [privacy.epsilon(DPSGD(m, SAMPLING_RATE, STEPS), DELTA) for m in multipliers]
    return pd.DataFrame(
        {
            "clipped": ["by layer", "as a whole"],
            "longest gradient over C": lines.record_reach(batch, CLIPPING),
            "noise multiplier": multipliers,
            "certified epsilon": list(map(middle, epsilons)),
        }
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    p = tables.parameters
    yield lines.lines_verdict("biswas2024/alg1", tables, f"a batch of {p.tried}")
    # 256 a + a b + 10 b weights in three layers, 266 a in two
    widths = [
        f"{a}-{b:.0f}"
        for a in range(1, DIMENSION // 256)
        if (b := (DIMENSION - 256 * a) / (a + 10)) >= 1 and b.is_integer()
    ]
    yield check(
        "D-016",
        DIMENSION == 13_700 and DIMENSION % 266,
        "256-50-15-10 without biases has 13,700 weights, in three layers; one hidden layer cannot",
        ours=f"hidden widths that give 13,700: {', '.join(widths)}",
        paper="13,700",
    )
    decay = tables["decay"].set_index("reading")
    collapsed, learned = decay.loc[COUPLED, "best"], decay.loc[AS_READ, "without noise"]
    yield refute(
        "E-D-16",
        holds=collapsed > decay["largest class"].iloc[0] + 0.1,
        corrected_holds=learned > collapsed + 0.25,
        ours=f"best of {p.repeats} runs with each noise and without: {collapsed:.2f}; "
        f"decoupled, without noise: {learned:.2f}",
    )
    clipping = tables["clipping"].set_index("clipped")
    reach, cost = clipping["longest gradient over C"], clipping["certified epsilon"]
    yield refute(
        "E-D-19",
        holds=reach["by layer"] <= 1 + 1e-9,
        corrected_holds=abs(reach["by layer"] - math.sqrt(3.0)) < 1e-9
        and abs(reach["as a whole"] - 1.0) < 1e-9,
        ours=f"longest clipped gradient {reach['by layer']:.4f} C by layer, "
        f"{reach['as a whole']:.4f} C as a whole; certified epsilon of sigma = "
        f"{clipping.loc['as a whole', 'noise multiplier']:g} after {STEPS} steps: "
        f"{cost['by layer']:.3g} instead of {cost['as a whole']:.3g}",
    )
