"""Propositions 3.1, 3.3, C.1, C.2, C.11 to C.13: the tensor attack's error under defences."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from companion.exhibit import *
from companion.papers.liu2024 import attack_sweeps
from companion.papers.liu2024.attack_sweeps import (
    SAME,
    against_none,
    attack_laws,
    attack_sweep,
    bound_laws,
    bound_sweep,
    clipping_tables,
    largest_change,
    means_over,
    of_defence,
    of_few,
)
from companion.papers.liu2024.power_laws import (
    EXPONENTS,
    FACTORS,
    NEAR,
    check_exponents,
    laws_of,
    listed,
    slopes,
)
from companion.papers.liu2024.tensor_errors import NONE
from reconrisk.special import normal_mean

EXHIBITS = ("prop3_1", "prop3_3", "propC1", "propC2", "propC11", "propC12", "propC13")
PARAMETERS = attack_sweeps.PARAMETERS

#: of Propositions C.1, C.2 and C.11, the defences that are compared with none
COMPARED = {"propC1": ("local", "moving"), "propC2": ("batches",), "propC11": ("clip",)}


def measure(study: Context) -> Tables:
    """Measure defences beside none, on the same networks."""
    name = study.exhibit.partition("/")[2]
    attacks = of_few(attack_sweep(study, "width"))
    tables = {
        "errors": means_over(attacks, "width"),
        "pairs": against_none(attacks, *COMPARED[name]),
    }
    if name != "propC11":
        tables["exponents"] = listed(attack_laws(study, f"{COMPARED[name][0]} m"))
    if name == "propC1":
        tables["two neurons"] = _two_neurons()
    return Tables(tables, ran=attack_sweeps.what_ran(study))


SETTLES_PROP3_1 = ("E-005",)
ALTERED_PROP3_1 = {
    "upper exponents": EXPONENTS,
    "lower exponents": {"value": by("exponent of", "the bound's exponents", FACTORS)},
    "attack pairs": {"error": "errors of two steps"},
    "bound pairs": {"error": "bounds of two steps"},
}
#: the bound of two equal gradients is half of one's; the share by which it may be off
HALF = 0.01


def measure_prop3_1(study: Context) -> Tables:
    """Proposition 3.1: two local steps do not change the orders of both bounds."""
    attacks = of_few(attack_sweep(study, "width"))
    return Tables(
        {
            "errors": means_over(attacks, "width"),
            "attack pairs": against_none(attacks, "local"),
            "bound pairs": against_none(bound_sweep(study, "width"), "local"),
            "upper exponents": listed(attack_laws(study, "none m", "local m")),
            "lower exponents": listed(bound_laws(study, "none m", "local m")),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge_prop3_1(tables: Tables) -> Iterator[Verdict]:
    upper, lower = (laws_of(tables[f"{row} exponents"]) for row in ("upper", "lower"))
    change = largest_change(tables["attack pairs"], "local")
    bounds = tables["bound pairs"]
    halves = bounds["error"] / bounds["error without"]
    verdict = check(
        "liu2024/prop3_1",
        change < SAME
        and (2 * halves - 1).abs().max() < HALF
        and all(law.near(-0.5, NEAR) for law in (*upper.values(), *lower.values())),
        "two local steps at the stated rates change neither order",
        ours=f"error changes by at most {change:.0e}; exponents of m: {slopes(upper, 'local m')} "
        f"(attack), {slopes(lower, 'local m')} (Cramer-Rao, "
        f"{halves.mean():.2f} times that of one step)",
        paper="B sqrt(d/m); sigma sqrt(d/m)",
        tolerance=f"{SAME:g} in the error, {HALF:g} in the bound, {NEAR:g} in an exponent",
    )
    yield from shared_by(verdict, "E-005")


SETTLES_PROP3_3 = ("E-008",)
ALTERED_PROP3_3 = {"exponents": EXPONENTS, "pairs": {"error": "errors under clipping"}}


def measure_prop3_3(study: Context) -> Tables:
    """Proposition 3.3: clipping alone has no effect, and multiplies added noise by |G|/C."""
    return Tables(
        {
            **clipping_tables(study),
            "exponents": listed(attack_laws(study, "both ratio", "both m")),
            "pairs": against_none(of_few(attack_sweep(study, "width")), "clip"),
        },
        ran=attack_sweeps.what_ran(study),
    )


def judge_prop3_3(tables: Tables) -> Iterator[Verdict]:
    laws, pairs = laws_of(tables["exponents"]), tables["pairs"]
    alone = largest_change(pairs, "clip")
    verdict = check(
        "liu2024/prop3_3",
        alone < SAME and laws["both ratio"].near(1.0, NEAR) and laws["both m"].near(0.0, NEAR),
        "clipping alone changes nothing; with noise the error grows as sigma0 |G|/C. As |G| grows "
        "with the root of m, the error at fixed C and sigma0 does not fall with m",
        ours=f"alone: {'nothing' if alone < SAME else f'{alone:.0e}'}; exponent of |G|/C "
        f"{slopes(laws, 'both ratio')}; of m at fixed C {slopes(laws, 'both m')}",
        paper="no effect; max(1, |G|/C)",
        tolerance=f"{SAME:g}; {NEAR:g} in the exponents",
    )
    yield from shared_by(verdict, "E-008")


SETTLES_PROPC1 = ("E-E-24",)
ALTERED_PROPC1 = {
    "exponents": EXPONENTS,
    "pairs": {"error": "errors of two steps", "norm": "norms of the sum of gradients"},
    "two neurons": {"signed": "sums with signs", "unsigned": "sums without signs"},
}
#: by how much the second gradient must differ from the first at rates that move the network, and
#: the share by which the attack's error may change there
MOVES, AS_BEFORE = 0.2, 0.05


def _two_neurons() -> pd.DataFrame:
    """Norms of sums of H_2(w_j) of two neurons whose moments cancel without signs."""
    w = math.sqrt(2.0) * np.eye(2)
    moments = w[:, :, None] * w[:, None, :] - np.eye(2)
    signed, unsigned = moments[0] - moments[1], moments[0] + moments[1]
    norms = {"signed": np.linalg.norm(signed, 2), "unsigned": np.linalg.norm(unsigned, 2)}
    return pd.DataFrame([norms])


def judge_propc1(tables: Tables) -> Iterator[Verdict]:
    laws, pairs = laws_of(tables["exponents"]), tables["pairs"]
    change = {name: largest_change(pairs, name) for name in ("local", "moving")}
    # how far the sum of two gradients falls short of twice the norm of the first
    short = pairs.assign(short=(2.0 - pairs["norm"] / pairs["norm without"]).abs())
    stated = of_defence(short, "local")["short"].max()
    larger = of_defence(short, "moving")["short"].min()
    yield check(
        "liu2024/propC1",
        change["local"] < SAME
        and laws["local m"].near(-0.5, NEAR)
        and larger > MOVES
        and change["moving"] < AS_BEFORE,
        "two steps on one batch leave the error unchanged: at the stated rates, where the second "
        "gradient is the first, and at rates at which it is not",
        ours=f"changes by at most {change['local']:.0e}; exponent of m {slopes(laws, 'local m')}. "
        f"At the larger rates by at most {change['moving']:.0%}, the norm of both gradients' sum "
        f"short of twice the first's by {larger:.1f} (at the stated ones by {stated:.0e})",
        paper="as without defence",
        tolerance=f"{SAME:g}, {AS_BEFORE:g} at the larger rates; {NEAR:g} in the exponent",
    )
    signed, unsigned = tables["two neurons"].loc[0, ["signed", "unsigned"]]
    yield refute(
        "E-E-24",
        holds=signed <= unsigned,
        corrected_holds=math.isclose(signed, 2.0) and unsigned < 1e-12,
        ours=f"{signed:.0f} and {unsigned:.0f}",
        paper="signed <= unsigned",
    )


ALTERED_PROPC2 = {"exponents": EXPONENTS, "pairs": {"error": "errors of steps on two batches"}}


def judge_propc2(tables: Tables) -> Iterator[Verdict]:
    laws = laws_of(tables["exponents"])
    change = largest_change(tables["pairs"], "batches")
    yield check(
        "liu2024/propC2",
        change < SAME and laws["batches m"].near(-0.5, NEAR),
        "steps on two batches, of two records and of one, give the error of one step on N = 3",
        ours=f"to within {change:.0e}; exponent of m {slopes(laws, 'batches m')}",
        paper="N sqrt(d/m)",
        tolerance=f"{SAME:g}; {NEAR:g}",
    )


ALTERED_PROPC11 = {"pairs": {"error": "errors under clipping", "norm": "norms over the threshold"}}


def judge_propc11(tables: Tables) -> Iterator[Verdict]:
    pairs = tables["pairs"]
    change = largest_change(pairs, "clip")
    # gradients are clipped to norm one
    shrunk = pairs["norm"].min()
    yield check(
        "liu2024/propC11",
        change < SAME and shrunk > 2,
        "clipping multiplies P and T by one number: the reconstruction is the same",
        ours=f"errors agree to {'a thousandth' if change < SAME else f'{change:.0e}'} with "
        f"gradients shrunk {shrunk:.0f} times or more",
        paper="B sqrt(d/m), as without defence",
        tolerance=f"{SAME:g}, for single precision",
    )


SETTLES_PROPC12 = ("E-006", "E-007", "E-E-16")
ALTERED_PROPC12 = {
    "exponents": EXPONENTS,
    "growth": {("ratio", "low", "high"): by("sigma0", "errors over those without noise")},
    "second moment": {"by quadrature": "moments"},
}
#: records of the batches with added noise
BATCH = 2
#: "the same order": an error at most this factor above that without noise, with its 95% interval
SAME_ORDER = 2.0


def measure_propc12(study: Context) -> Tables:
    """Proposition C.12: noise alone; its exponents, and where it does not show."""
    sweep = attack_sweep(study, "noise")
    return Tables(
        {
            "growth": _growth(sweep),
            "errors": means_over(sweep.assign(x=0), "x"),
            "exponents": listed(attack_laws(study, "noise sigma0", "noise m", "noise d")),
            "second moment": _second_moment(),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _growth(sweep: pd.DataFrame) -> pd.DataFrame:
    """The error over that without noise, by level."""
    pairs = against_none(sweep, *(set(sweep["defence"]) - {NONE}))
    ratios = pairs.assign(
        sigma0=pairs["defence"].astype(float), error=pairs["error"] / pairs["error without"]
    )
    growth = means_over(ratios.sort_values("sigma0", kind="stable"), "sigma0")
    return growth.drop(columns="defence").rename(columns={"error": "ratio"})


def _second_moment() -> pd.DataFrame:
    """E (a'(w w' - I) a)^2 for 16 entries of 1/4: drawn, in closed form and as eq. (23) sums it."""
    exact, summed = square_moment(np.full(16, 0.25))
    drawn = normal_mean(lambda z: (z * z - 1) ** 2)
    return pd.DataFrame([{"by quadrature": drawn, "exact": exact, "eq. (23)": summed}])


def square_moment(vector: ArrayLike) -> tuple[float, float]:
    """Return ``E (a'(w w' - I) a)^2`` for a unit vector, exactly and as eq. (23) sums it.

    Exactly ``2 |a|^4``; with every pair of different entries counted once,
    ``sum 2 a_i^4 + sum_{i != j} a_i^2 a_j^2``.
    """
    a = np.asarray(vector, dtype=float)
    total = float(a @ a) ** 2
    return 2.0 * total, float(np.sum(a**4)) + total


def judge_propc12(tables: Tables) -> Iterator[Verdict]:
    laws, growth = laws_of(tables["exponents"]), tables["growth"]
    orders = laws["noise m"].near(-0.5, NEAR) and laws["noise d"].near(0.5, NEAR)
    growing = check(
        "liu2024/propC12",
        orders and laws["noise sigma0"].near(1.0, NEAR),
        "where noise makes the error, it grows in proportion to sigma0, with the same factor root "
        "of d/m",
        ours=f"exponents: sigma0 {slopes(laws, 'noise sigma0')}, m {slopes(laws, 'noise m')}, "
        f"d {slopes(laws, 'noise d')}",
        paper="1, -1/2, 1/2",
        tolerance=f"{NEAR:g}",
    )
    yield from shared_by(growing, "E-006")
    by_noise = growth.set_index("sigma0")
    little, much = by_noise.loc[BATCH], by_noise.loc[8 * BATCH]
    yield check(
        "E-007",
        orders and little["high"] < SAME_ORDER < much["low"],
        "noise of sigma0 = B leaves the orders and the error's size; eight times that does not",
        ours=f"error {little['ratio']:.1f} and {much['ratio']:.0f} times that without noise; "
        f"exponents at sigma0 = B: m {slopes(laws, 'noise m')}",
        paper="the same order",
        tolerance=f"a factor of {SAME_ORDER:g}",
    )
    drawn, exact, summed = tables["second moment"].iloc[0]
    yield refute(
        "E-E-16",
        holds=abs(summed - drawn) < 1e-9,
        corrected_holds=abs(exact - drawn) < 1e-9,
        ours=f"{drawn:.4f}",
        paper=f"{summed:.4f} (16 entries of 1/4)",
    )


SETTLES_PROPC13 = ("E-E-15",)
ALTERED_PROPC13 = {
    "exponents": EXPONENTS,
    "scales": {"divided": "norms after division", "multiplied": "norms after multiplication"},
}


def measure_propc13(study: Context) -> Tables:
    """Proposition C.13: clipping with noise; the exponent of |G|/C, and the scaling as printed."""
    return Tables(
        {
            **clipping_tables(study),
            "exponents": listed(attack_laws(study, "both ratio")),
            "scales": _scales(study.rng("scales"), threshold=4.0, length=100.0),
        },
        ran=attack_sweeps.what_ran(study),
    )


def _scales(rng: np.random.Generator, threshold: float, length: float) -> pd.DataFrame:
    """Norms of one gradient, multiplied as it is printed and divided by max(1, |G|/C)."""
    gradient = rng.standard_normal(1000)
    gradient *= length / np.linalg.norm(gradient)
    factor = max(1.0, length / threshold)
    norms = {
        "C": threshold,
        "|G|": length,
        "multiplied": np.linalg.norm(gradient * factor),
        "divided": np.linalg.norm(gradient / factor),
    }
    return pd.DataFrame([norms])


def judge_propc13(tables: Tables) -> Iterator[Verdict]:
    statement = "clipping and noise: the error grows as sigma0 |G|/C"
    laws = laws_of(tables["exponents"])
    yield check_exponents("liu2024/propC13", laws, statement, {"both ratio": 1})
    scales = tables["scales"].iloc[0]
    yield check(
        "E-E-15",
        scales["divided"] <= scales["C"] * (1 + 1e-12) < scales["multiplied"],
        "a gradient divided by max(1, |G|/C) has a norm of at most C, one multiplied does not",
        ours=f"a norm of {scales['|G|']:g} becomes {scales['multiplied']:g} multiplied, "
        f"{scales['divided']:g} divided",
        paper=f"at most C = {scales['C']:g}",
    )
