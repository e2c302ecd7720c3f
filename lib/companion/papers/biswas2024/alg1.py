"""Algorithm 1: DP-SGD of a network with every layer clipped, each line checked by another route."""

import math
from collections.abc import Iterator

import pandas as pd
import torch

from companion.exhibit import *
from companion.experiments.fair_pairs import middle
from companion.experiments.federated import (
    DELTA,
    DIMENSION,
    NETWORK,
    SAMPLING_RATE,
    STEPS,
    load_standardised,
    studied_pairs,
)
from companion.experiments.utility_runs import AS_READ, DATA, TRAINING, train_tasks, training_task
from companion.papers.biswas2024 import algorithm_lines as lines
from companion.papers.biswas2024.label_accuracies import BATCH_SIZE, pairs_of
from reconrisk import DPSGD, privacy
from reconrisk.models import SigmoidNetwork

PARAMETERS = {
    **DATA,
    **TRAINING,
    "epochs": Parameter("int", 11, 3, "3", "passes over the training pictures", low=1),
    "concentrations": Parameter(
        "floats", (75.0, 400.0), (75.0, 400.0), "75 to 400", "pairs trained, by concentration"
    ),
    "batch_size": BATCH_SIZE,
    "tried": lines.TRIED,
}
SETTLES = ("D-016", "E-D-19")
SHOWN = ("lines",)
ALTERED = {
    "deviations": {
        "off": (
            at(f"does == {lines.NOISE!r}", "deviations of the noise"),
            at(f"does == {lines.CLIPPED!r}", "deviations of clipped gradients"),
        )
    },
    "decay": {"best": "best accuracies", "without noise": "accuracies without noise"},
    "clipping": {"longest gradient over C": by("clipped", "longest gradients", each="clipped {}")},
}
SCENARIOS = (
    scenario(
        "{} weights more",
        column("weights", "weights", lambda c, by: c + round(by), "layers == 3"),
        "D-016",
        most=1000,
        unit="",
    ),
)

#: of the model in Section VI
PRINTED_WEIGHTS = 13_700
#: C, below most records' gradients, so that clipping is seen
CLIPPING = 0.05
#: PyTorch's Adam with weight decay, of the batch's mean loss and of its sum
COUPLED, SUMMED = "decay 0.1 in the gradient", "decay 0.1 in the gradient of the sum"
#: accuracies that count as training, and as guessing: within this of the largest class's share
TRAINS, GUESSES = 0.8, 0.1


@measurement
def measure(study: Context) -> Tables:
    p = study.parameters
    batch = lines.tried_batch(study)
    noise = torch.Generator().manual_seed(study.seed_of("noise"))
    return Tables(
        {
            **lines.as_tables(lines.algorithm1_lines(batch, 1.23, CLIPPING, noise)),
            "weights": _weights(),
            "decay": _accuracy_with_each_decay(study),
            "clipping": _cost_of_clipping(batch),
        },
        ran=f"a batch of {batch.size} {p.digits} in double precision; {p.repeats} runs of "
        f"{p.epochs} epochs for each decay.",
    )


def _accuracy_with_each_decay(study: Context) -> pd.DataFrame:
    """The best accuracy of all networks with a decay, and the mean of those without noise."""
    p = study.parameters
    test = load_standardised(p.digits, data_folder(study, p.digits), "test").labels
    pairs = pairs_of(p.concentrations)
    tasks = [
        training_task(study, p.digits, p.batch_size, repeat, pairs, reading=reading)
        for reading in (AS_READ, COUPLED, SUMMED)
        for repeat in range(p.repeats)
    ]
    rows = [
        {
            "reading": reading,
            "best": own["accuracy"].max(),
            "without noise": own.loc[own["mechanism"] == "none", "accuracy"].mean(),
            "largest class": float(test.bincount().max() / len(test)),
        }
        for reading, own in train_tasks(study, tasks).groupby("reading", sort=False)
    ]
    return pd.DataFrame(rows)


def _weights() -> pd.DataFrame:
    """Networks of 256 inputs and ten classes whose weights come nearest to the printed number."""
    one = round(DIMENSION / (256 + 10))
    three = [(256, a, _second_width(a), 10) for a in range(1, DIMENSION // 256)]
    networks = [(256, one, 10), *(w for w in three if w[2] > 0 and _count(w) == DIMENSION)]
    return pd.DataFrame(
        {
            "hidden": "-".join(map(str, widths[1:-1])),
            "layers": len(widths) - 1,
            "weights": _count(widths),
        }
        for widths in networks
    )


def _second_width(first: int) -> int:
    """The width of a second hidden layer that gives nearly the printed number of weights."""
    return round((DIMENSION - 256 * first) / (first + 10))


def _count(widths: tuple[int, ...]) -> int:
    return sum(rows * columns for rows, columns in SigmoidNetwork(widths).shapes.values())


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
    yield _decay(tables)
    weights = tables["weights"]
    fits = weights[weights["weights"] == PRINTED_WEIGHTS]
    yield check(
        "D-016",
        set(fits["layers"]) == {3}
        and (weights["layers"] == 2).any()
        and "50-15" in set(fits["hidden"]),
        "256-50-15-10 without biases has 13,700 weights, in three layers; one hidden layer cannot",
        ours=f"hidden widths that give 13,700: {', '.join(fits['hidden'])}",
        paper=f"{PRINTED_WEIGHTS:,}",
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
        f"{cost['by layer']:.3g} with sigma on a coordinate, {cost['as a whole']:.3g} with "
        "sqrt(3) sigma",
    )


def _decay(tables: Tables) -> Verdict:
    """What the weight decay of 0.1 does, by where it is added."""
    decay = tables["decay"].set_index("reading")
    guessing = decay.loc[COUPLED, "best"] <= decay["largest class"].iloc[0] + GUESSES
    trains = decay.drop(index=COUPLED)["without noise"]
    return check(
        "biswas2024/alg1",
        guessing and (trains > TRAINS).all(),
        "with weight decay 0.1 added to the gradient of the mean loss every network, with noise or "
        "without, is left guessing; without noise it trains with the decay elsewhere",
        ours=f"best of {tables.parameters.repeats} runs with each noise and without "
        f"{decay.loc[COUPLED, 'best']:.2f}; without noise "
        + ", ".join(f"{value:.2f} ({reading})" for reading, value in trains.items()),
        stand_in=tables.origin_of("digits"),
    )
