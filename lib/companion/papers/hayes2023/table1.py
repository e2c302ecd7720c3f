"""Table 1: the settings of every experiment, and those of its exhibit's paper profile."""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from companion.exhibit import *

#: the parameters that hold each printed setting; an exhibit has one of them, or two of a kind. None
#: holds an architecture, or the sampling rate of full batches.
HELD_BY = {
    "Clipping norm C": ("max_grad_norm", "clipping_norms", "{data}_clip"),
    "Sampling probability q": ("sampling_rate", "sampling_rates", "rates"),
    "Update steps T": ("steps",),
    "Training dataset size |D_-|+1": (*("known", "known_sizes", "{data}_known", "training_size"),),
    "Prior size |pi|": ("prior_size", "prior_sizes", "largest_prior"),
}
#: the names of the data sets in exhibits that have both
DATA = {"CIFAR-10": "colour", "MNIST": "grey"}
SHOWN = ("settings",)
SCENARIOS = (
    scenario(
        "one exhibit with 99 steps for 100",
        column(
            "paper profile",
            "profile",
            lambda c: "99.0",
            "exhibit == 'Figure 2' and setting == 'Update steps T'",
        ),
    ),
)


@measurement
def measure(study: Context) -> Tables:
    printed = registry.printed("hayes2023/table1")
    rows = [
        (c.experiment, name, c.metric, c.value, profile_values(name, c.metric, c.dataset))
        for c in printed.itertuples()
        for name in c.experiment.split(", ")
    ]
    profile = pd.DataFrame(rows, columns=["experiment", "exhibit", "setting", "printed", "profile"])
    # in the order in which the table prints them
    order, settings = printed[["dataset", "experiment"]].drop_duplicates(), printed["metric"]
    wide = printed.pivot(index=["dataset", "experiment"], columns="metric", values="value")
    wide = wide.loc[list(order.itertuples(index=False, name=None)), list(settings.unique())]
    wide.columns.name = None
    return Tables(
        {"settings": wide.reset_index(), "paper profile": profile},
        exact=("settings",),
        ran="nothing: the table is compared with the parameters of this book's exhibits.",
    )


def profile_values(figure: str, metric: str, data: str) -> str:
    """The values of a printed setting in the paper profile of ``Figure 1b``; empty for none."""
    panel = f"hayes2023/fig{figure.removeprefix('Figure ').strip()}"
    parameters = find_exhibit(panel).parameters
    values: list[float] = []
    for form in HELD_BY.get(metric, ()):
        name = form.format(data=DATA.get(data, data))
        if name in parameters:
            # the training set is the known records and the target
            one_more = "known" in name
            held = np.atleast_1d(parameters[name].paper)
            if name == "largest_prior":  # of the powers of two
                held = 2.0 ** np.arange(1, math.log2(held[0]) + 1)
            values += [float(v) + one_more for v in held]
    return "; ".join(map(repr, values))


def judge(tables: Tables) -> Iterator[Verdict]:
    cells = tables["paper profile"].fillna("").astype(str)
    is_compared, is_printed = cells["profile"] != "", cells["printed"] != "-"
    compared, left = cells[is_compared], cells.loc[~is_compared & is_printed, "setting"]
    agrees = np.array([same_settings(*c) for c in compared[["printed", "profile"]].to_numpy()])
    wrong = compared[~agrees]
    first = "" if wrong.empty else f"; first: {wrong.iloc[0].to_dict()}"
    yield check(
        "hayes2023/table1",
        agrees.all() and len(compared) >= 40 and set(compared["exhibit"]) == set(cells["exhibit"]),
        "in the paper profile every exhibit here has the settings that the table prints, where a "
        "parameter holds them: not compared are "
        + ", ".join(f"{n} of {setting}" for setting, n in left.value_counts().items()),
        ours=f"{agrees.sum()} of {len(agrees)} settings of {compared['exhibit'].nunique()} "
        f"experiments agree, {len(left)} are not compared{first}",
        paper=f"{len(registry.printed('hayes2023/table1'))} cells",
    )


def same_settings(printed: str, profile: str) -> bool:
    """Whether a printed setting (a number, a list, a range, none) is the one of the profile."""
    values = _numbers(profile)
    if printed == "-":
        return False
    if ".." in printed:  # powers of two from the first to the last
        first, last = (float(t) for t in printed.split(" ")[0].split(".."))
        powers = np.arange(math.log2(first), math.log2(last) + 1)
        return sorted(values) == (2.0**powers).tolist()
    if "-" in printed.strip("-"):
        first, last = (float(t) for t in printed.split("-"))
        return math.isclose(min(values), first) and math.isclose(max(values), last)
    return sorted(values) == sorted(_numbers(printed))


def _numbers(text: str) -> list[float]:
    return [float(t) for t in text.split(";")]
