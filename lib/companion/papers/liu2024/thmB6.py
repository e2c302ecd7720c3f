"""Theorem B.6: the full statement, with the factors pi_min and B that the short one leaves out."""

from collections.abc import Iterator

from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import attack_laws, attack_sweep, means_over
from companion.papers.liu2024.power_laws import REGIME, check_exponents, fit_column, laws_of, listed
from companion.study import Context, Tables, Verdict, measurement, refute

PARAMETERS = attack_sweeps.PARAMETERS
SETTLES = ("E-E-12",)

#: of the paper's experiments, whose records have 512 features
BATCH_SIZES, FEATURES = (1, 2, 4, 8, 16, 32), 512
#: of the sweep over the batch size
DIMENSION = 16


@measurement
def measure(study: Context) -> Tables:
    overlap = attack_sweep(study, "overlap")
    laws = attack_laws(study, "none m", "none d", "equal B")
    # records of equal inner products o have the smallest singular value (1 - o)^(1/2)
    laws["1/pi_min"] = fit_column(
        overlap.assign(inverse=(1 - overlap["overlap"]) ** -0.5), "inverse"
    )
    return Tables(
        {
            "exponents": listed(laws),
            "over pi_min": means_over(overlap, "overlap"),
            "over B": means_over(attack_sweep(study, "batch"), "batch"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge(tables: Tables) -> Iterator[Verdict]:
    over_batch = tables["over B"]
    yield check_exponents(
        "liu2024/thmB6",
        laws_of(tables["exponents"]),
        "the error grows as the root of d/m, and no faster than B and than 1/pi_min^2",
        {"none m": -0.5, "none d": 0.5, "equal B": 1, "1/pi_min": 2},
        at_most=("equal B", "1/pi_min"),
    )
    largest = over_batch["batch"].max()
    at_largest = (over_batch["batch"] == largest) & (over_batch["labels"] == "random")
    error = over_batch.loc[at_largest, "error"].iloc[0]
    covered = [size <= FEATURES**0.25 for size in BATCH_SIZES]
    yield refute(
        "E-E-12",
        holds=all(covered),
        corrected_holds=covered.count(False) == 3
        and error < REGIME
        and largest > 2 * DIMENSION**0.25,
        ours=f"error {error:.1g} at d = {DIMENSION} and B = {largest}, where "
        f"d^(1/4) = {DIMENSION**0.25:g}",
        paper="B <= O(d^(1/4)); B = 2 to 32",
    )
